#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_io.hpp"
#include "npy.hpp"
#include "zip_file.hpp"

namespace forebay::data {

// The arrays of a dataset: those of an .npz archive, or .npy files in one folder. One thread at a time.
class ArrayFiles {
 public:
  // An array that was found, described by its header.
  struct Found {
    std::string name;
    const OpenFile* file = nullptr;
    const ZipMember* member = nullptr;  // in an archive; else null
    NpyArray array;                     // header only, no elements
    std::size_t begin = 0;              // offset of its elements in the npy file

    [[nodiscard]] bool is_compressed() const noexcept { return member != nullptr && member->method != 0; }
  };
  // A whole array, in C order and this machine's byte order.
  struct Loaded {
    NpyArray array;
    std::vector<std::byte> elements;

    // The size of one entry along the first dimension.
    [[nodiscard]] std::size_t entry_bytes() const noexcept;
    [[nodiscard]] std::span<const std::byte> entry(std::uint64_t i) const noexcept;
  };

  // Like all members that read, retries for a while if the store fails (base/retry.hpp). Throws
  // SampleError if the file cannot be read or is a damaged archive.
  explicit ArrayFiles(const std::string& path);

  [[nodiscard]] const OpenFile& file() const noexcept { return *files_.begin()->second; }
  [[nodiscard]] const std::optional<ZipFile>& archive() const noexcept { return archive_; }
  // The name of the array in the file at the path; "" for an archive.
  [[nodiscard]] const std::string& own_name() const noexcept { return own_name_; }
  // The arrays of an archive.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool has(const std::string& name) const;
  // The path at which an array such as "labels" would be in a file of its own.
  [[nodiscard]] std::string path_of(const std::string& name) const;

  // Both throw SampleError naming the array if it does not exist or is damaged, and UnfitArray if it is intact but not
  // an array of plain numbers or texts.
  [[nodiscard]] Found find(const std::string& name);
  [[nodiscard]] Loaded load(const Found& found) const;
  // The offset of an array's first element in its file. REQUIRES: it is not compressed. Throws SampleError.
  [[nodiscard]] std::uint64_t offset_of(const Found& found) const;

 private:
  [[nodiscard]] const OpenFile& open(const std::string& name);
  // Fills `to` with the first bytes of an array's npy file.
  void read(const Found& found, std::span<std::byte> to) const;

  std::string path_;
  std::string own_name_;
  std::map<std::string, std::unique_ptr<OpenFile>> files_;  // by path; the first is the dataset's
  std::optional<ZipFile> archive_;
};

// The labels in an array, one per entry.
struct ArrayLabels {
  std::vector<std::string> classes;
  std::vector<std::int32_t> numbers;  // by entry: index into `classes`, or -1
  // The entries with an unusable label, in order, each with the reason.
  std::vector<std::pair<std::uint32_t, std::string>> bad;
};

// Reads labels: a class number, a name, or a one-hot row for each entry. If nearly all are class numbers, the others
// are bad. `given`: dataset.classes. Throws UnfitArray, without the array's name, if they are something else. REQUIRES:
// at least one dimension.
[[nodiscard]] ArrayLabels labels_of_array(const ArrayFiles::Loaded& loaded, const std::vector<std::string>& given);

}  // namespace forebay::data
