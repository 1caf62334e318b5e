#include "files.hpp"

#include "base/retry.hpp"

namespace forebay::store {

OpenFile open_regular(const std::string& path) {
  return is_url(path) ? open_object(path) : forebay::open_regular(path);
}

OpenFile open_patiently(const std::string& path) {
  return read_patiently(path, [&] { return open_regular(path); });
}

std::string problem_of_file(const std::string& path) {
  if (!is_url(path)) return forebay::problem_of_file(path);
  try {
    (void)open_patiently(path);
    return {};
  } catch (const SampleError& error) {
    if (error.is_transient()) throw;
    return error.what();
  }
}

std::vector<std::byte> load_file(const std::string& path, std::size_t limit) {
  return read_patiently(path, [&] { return forebay::load_file(open_regular(path), limit); });
}

std::vector<std::string> lines_of_file(const std::string& path, std::size_t limit) {
  return lines_of(load_file(path, limit));
}

}  // namespace forebay::store
