// What datasets made of Python lists have in common: labels, classes and columns of fields, and
// reading a file without Python.
//
// This module includes public headers of the library only, hence a read_file and an error_may_pass
// of its own, with the same rules as in src/base. Reading threads call without the GIL.

#include "listed_dataset.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <forebay/error.hpp>

namespace forebay::python {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what, int error) {
  const char* const limit =
      error == EMFILE ? " (the process has as many files open as ulimit -n allows: raise it)" : "";
  throw SampleError(path + ": cannot " + what + " it: " + std::strerror(error) + limit,
                    error_may_pass(error) ? SampleError::Kind::transient : SampleError::Kind::permanent);
}

// O_NONBLOCK: a FIFO must not block; fstat refuses it afterwards.
class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (number_ < 0) fail(path, "open", errno);
  }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_;
};

void check_labels(std::uint64_t size, const SampleList& list) {
  if (!list.labels.empty() && list.labels.size() != size) {
    throw ConfigError("there are " + std::to_string(size) + " samples and " + std::to_string(list.labels.size()) +
                      " labels; give one label for each sample, or none");
  }
  if (list.classes.empty()) return;
  const auto count = static_cast<std::int64_t>(list.classes.size());
  const auto wrong =
      std::ranges::find_if(list.labels, [count](std::int64_t label) { return label < -1 || label >= count; });
  if (wrong == list.labels.end()) return;
  throw ConfigError("sample " + std::to_string(wrong - list.labels.begin()) + " has the label " +
                    std::to_string(*wrong) + ", but there are " + std::to_string(count) +
                    " classes; labels are their numbers from 0, or -1 for none");
}

// `ends` for values of different sizes, else all have the same.
void check_column(std::uint64_t size, const Column& column) {
  const bool fits = (column.paths.empty() || column.paths.size() == size) &&
                    (column.ends.empty() ? column.values.empty() || column.values.size() % size == 0
                                         : column.ends.size() == size && column.ends.back() == column.values.size());
  if (!fits) throw ConfigError("the field \"" + column.field.name + "\" has not one value for each sample");
}

template <typename Values>
void append(std::string& text, const Values& values) {
  if (values.empty()) return;
  text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values.front()));
}

void append_paths(std::string& text, const std::vector<std::string>& paths) {
  const std::size_t common = common_folder(paths);
  for (const std::string& path : paths) text.append(path, common).push_back('\0');
}

}  // namespace

// Of network file systems and of limits of the process; others stay as they are.
bool error_may_pass(int error) noexcept {
  constexpr std::array kPassing{EIO,       EAGAIN,       ESTALE,     ETIMEDOUT,   ENOMEM,       EMFILE,
                                ENFILE,    EBUSY,        ECONNRESET, ENOTCONN,    ECONNREFUSED, ECONNABORTED,
                                EHOSTDOWN, EHOSTUNREACH, ENETDOWN,   ENETUNREACH, ENETRESET,    EREMOTEIO,
                                ESHUTDOWN, ENOLCK,       ENOBUFS,    EDQUOT,      ECOMM,        EPROTO,
                                ECANCELED, EPIPE,        ENOLINK,    ENONET,      ETIME,        EKEYEXPIRED};
  return std::ranges::find(kPassing, error) != kPassing.end();
}

// The size is asked first, as memory is reserved once; a file that grows meanwhile is read up to
// there.
void read_file(const std::string& path, ReadTarget& target) {
  const Descriptor file(path);
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) fail(path, "look at", errno);
  if (!S_ISREG(status.st_mode)) throw SampleError(path + ": it is not a regular file");
  const std::span<std::byte> bytes = target.reserve(static_cast<std::size_t>(status.st_size));
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t got = ::pread(file.number(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, "read", errno);
    if (got == 0) throw SampleError(path + ": it became shorter while it was read", SampleError::Kind::permanent);
    done += static_cast<std::size_t>(got);
  }
}

// Up to the last '/', so that only whole folders are left out.
std::size_t common_folder(const std::vector<std::string>& paths) {
  std::string_view common = paths.front();
  for (const std::string_view path : paths) {
    const auto [end, other] = std::ranges::mismatch(common, path);
    common = common.substr(0, static_cast<std::size_t>(end - common.begin()));
  }
  const std::size_t slash = common.rfind('/');
  return slash == std::string_view::npos ? 0 : slash + 1;
}

ListedDataset::ListedDataset(std::uint64_t size, SampleList list) : size_(size), list_(std::move(list)) {
  if (size_ == 0) throw ConfigError("the dataset has no samples");
  check_labels(size_, list_);
  for (const Column& column : list_.columns) {
    check_column(size_, column);
    fields_.push_back(column.field);
  }
}

std::string ListedDataset::field_name(std::uint64_t id, std::size_t field) const {
  const Column& column = list_.columns[field];
  return column.paths.empty() ? std::string() : column.paths[id];
}

void ListedDataset::read_field(std::uint64_t id, std::size_t field, ReadTarget& target) const {
  const Column& column = list_.columns[field];
  if (!column.paths.empty()) return read_file(column.paths[id], target);
  const std::span<const std::byte> from = values(id, column);
  std::ranges::copy(from, target.reserve(from.size()).begin());
}

std::span<const std::byte> ListedDataset::values(std::uint64_t id, const Column& column) const noexcept {
  const std::span<const std::byte> all = column.values;
  if (column.ends.empty()) {
    const std::size_t bytes = all.size() / static_cast<std::size_t>(size_);
    return all.subspan(static_cast<std::size_t>(id) * bytes, bytes);
  }
  const std::uint64_t begin = id == 0 ? 0 : column.ends[id - 1];
  return all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(column.ends[id] - begin));
}

// For the fingerprint. Texts end with a NUL, which no name has.
std::vector<std::byte> ListedDataset::serialized(std::string text) const {
  for (const std::string& name : list_.classes) text.append(name).push_back('\0');
  append(text, list_.labels);
  for (const Column& column : list_.columns) {
    text.append(column.field.name).push_back('\0');
    for (const std::string& name : column.field.classes) text.append(name).push_back('\0');
    append(text, column.values);
    append(text, column.ends);
    // Data that were moved as a whole are the same data.
    if (!column.paths.empty()) append_paths(text, column.paths);
  }
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace forebay::python
