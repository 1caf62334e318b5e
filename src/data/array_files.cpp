// Gives arrays of NumPy by name, from an .npz archive or from .npy files of one folder, for
// dataset_npy.cpp and its labels and fields.
//
// find() reads a header and checks that the elements are there; load() reads all elements in C
// order. Files stay open until the index is built. One thread at a time.

#include "array_files.hpp"

#include <algorithm>
#include <filesystem>
#include <forebay/error.hpp>

#include "base/file_errors.hpp"
#include "base/retry.hpp"
#include "gzip.hpp"
#include "npz.hpp"
#include "store/files.hpp"

namespace forebay::data {
namespace {

constexpr std::string_view kNpyEnding = ".npy";
// Real headers are far smaller, whatever the format permits.
constexpr std::size_t kLongestNpyHeader = std::size_t{1} << 16U;

std::string without_npy(std::string name) {
  if (name.ends_with(kNpyEnding)) name.resize(name.size() - kNpyEnding.size());
  return name;
}

// The kind of an error must survive, since transient ones are retried and truncated files have a
// message of their own.
template <typename Work>
auto naming_array(const std::string& name, Work&& work) {
  try {
    return work();
  } catch (const UnfitArray& error) {
    throw UnfitArray("array \"" + name + "\": " + error.what());
  } catch (const SampleError& error) {
    const SampleError named("array \"" + name + "\": " + error.what(),
                            error.is_transient() ? SampleError::Kind::transient : SampleError::Kind::permanent);
    if (is_truncated(error)) throw TruncatedFile(named);
    throw SampleError(named);
  }
}

}  // namespace

std::size_t ArrayFiles::Loaded::entry_bytes() const noexcept {
  return elements.size() / static_cast<std::size_t>(std::max<std::int64_t>(array.shape[0], 1));
}

std::span<const std::byte> ArrayFiles::Loaded::entry(std::uint64_t i) const noexcept {
  return std::span(elements).subspan(static_cast<std::size_t>(i) * entry_bytes(), entry_bytes());
}

// What is no .npy is taken for an archive, whose constructor says what is wrong if it is none.
ArrayFiles::ArrayFiles(const std::string& path) : path_(path) {
  const auto& file = *files_.emplace("", std::make_unique<OpenFile>(store::open_patiently(path))).first->second;
  std::vector<std::byte> head(std::min<std::size_t>(file.size, 8));
  read_at_patiently(file, 0, head);
  if (starts_as_npy(head)) {
    own_name_ = without_npy(std::filesystem::path(path).filename().string());
  } else {
    read_patiently(path, [&] { archive_.emplace(file); });
  }
}

std::vector<std::string> ArrayFiles::names() const {
  std::vector<std::string> names;
  if (!archive_) return names;
  for (const ZipMember& member : archive_->members()) names.push_back(without_npy(member.name));
  return names;
}

bool ArrayFiles::has(const std::string& name) const {
  if (archive_) return std::ranges::count(names(), without_npy(name)) > 0;
  return name == own_name_ || store::problem_of_file(path_of(name)).empty();
}

std::string ArrayFiles::path_of(const std::string& name) const {
  return (std::filesystem::path(path_).parent_path() / (without_npy(name) + std::string(kNpyEnding))).string();
}

const OpenFile& ArrayFiles::open(const std::string& name) {
  if (archive_ || name == own_name_) return file();
  const std::string path = path_of(name);
  auto& file = files_[path];
  if (file == nullptr) file = std::make_unique<OpenFile>(store::open_patiently(path));
  return *file;
}

void ArrayFiles::read(const Found& found, std::span<std::byte> to) const {
  read_patiently(path_, [&] {
    if (found.member != nullptr) {
      archive_->read(*found.member, to);
    } else {
      read_at(*found.file, 0, to);
    }
  });
}

// Only the beginning of a member is inflated.
ArrayFiles::Found ArrayFiles::find(const std::string& name) {
  return naming_array(name, [&] {
    Found found{.name = name, .file = &open(name), .member = nullptr, .array = {}};
    if (archive_) found.member = &find_array(*archive_, without_npy(name));
    const std::uint64_t all = archive_ ? found.member->bytes : found.file->size;
    std::vector<std::byte> head(static_cast<std::size_t>(std::min<std::uint64_t>(all, kLongestNpyHeader)));
    read(found, head);
    found.array = parse_npy_header(head, found.begin, NpyTexts::read);
    const std::uint64_t wanted = element_bytes_of(found.array);
    if (all - found.begin < wanted) {
      throw SampleError("byte " + std::to_string(all) + ": it ends early: " + std::to_string(all - found.begin) +
                        " of the " + std::to_string(wanted) + " bytes of its elements are there");
    }
    return found;
  });
}

ArrayFiles::Loaded ArrayFiles::load(const Found& found) const {
  return naming_array(found.name, [&] {
    const std::uint64_t elements = element_bytes_of(found.array);
    if (elements > largest_inflated(found.file->size)) {
      throw SampleError(std::to_string(elements) + " bytes are more than an index holds");
    }
    // A member may claim far more than its array needs.
    std::vector<std::byte> bytes(found.begin + static_cast<std::size_t>(elements));
    read(found, bytes);
    const NpyArray array = parse_npy(bytes, NpyTexts::read);
    Loaded loaded{.array = array, .elements = std::vector<std::byte>(array.elements.size())};
    copy_in_c_order(array, loaded.elements);
    loaded.array.elements = loaded.elements;
    loaded.array.big_endian = loaded.array.fortran_order = false;
    return loaded;
  });
}

std::uint64_t ArrayFiles::offset_of(const Found& found) const {
  return naming_array(found.name, [&] {
    if (found.member == nullptr) return std::uint64_t{found.begin};
    return found.begin + read_patiently(path_, [&] { return archive_->stored_at(*found.member); });
  });
}

}  // namespace forebay::data
