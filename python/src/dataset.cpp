#include "dataset.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <forebay/error.hpp>

namespace forebay::python {
namespace {

// Reads without Python: paths and labels are copied at construction.
class FilesDataset final : public ListedDataset {
 public:
  FilesDataset(std::vector<std::string> paths, SampleList list)
      : ListedDataset(paths.size(), std::move(list)), paths_(std::move(paths)) {}

  [[nodiscard]] std::string_view format() const noexcept override { return "files"; }
  [[nodiscard]] std::string name(std::uint64_t id) const override { return paths_[id]; }
  void read(std::uint64_t id, ReadTarget& target) const override { read_file(paths_[id], target); }
  [[nodiscard]] std::vector<std::byte> serialize() const override {
    std::string text;
    append_paths(text, paths_);
    return serialized(std::move(text));
  }

 private:
  std::vector<std::string> paths_;
};

// `owner` is a Python object that keeps the bytes in place, such as one large array.
class MemoryDataset final : public ListedDataset {
 public:
  MemoryDataset(nb::object owner, std::vector<std::span<const std::byte>> images, SampleList list, std::string identity)
      : ListedDataset(images.size(), std::move(list)),
        owner_(std::move(owner)),
        images_(std::move(images)),
        identity_(std::move(identity)) {}

  [[nodiscard]] std::string_view format() const noexcept override { return "memory"; }
  [[nodiscard]] std::string name(std::uint64_t id) const override { return "sample " + std::to_string(id); }
  [[nodiscard]] std::vector<std::byte> serialize() const override { return serialized(identity_); }
  void read(std::uint64_t id, ReadTarget& target) const override {
    const std::span<const std::byte> image = images_[id];
    if (image.empty()) throw SampleError("it has neither bytes nor a path");
    std::ranges::copy(image, target.reserve(image.size()).begin());
  }

 private:
  Held owner_;
  std::vector<std::span<const std::byte>> images_;
  std::string identity_;
};

}  // namespace

std::shared_ptr<Dataset> files_dataset(std::vector<std::string> paths, SampleList list) {
  return std::make_shared<FilesDataset>(std::move(paths), std::move(list));
}

std::shared_ptr<Dataset> memory_dataset(nb::object owner, std::vector<std::span<const std::byte>> images,
                                        SampleList list, std::string identity) {
  return std::make_shared<MemoryDataset>(std::move(owner), std::move(images), std::move(list), std::move(identity));
}

}  // namespace forebay::python
