#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "index_build.hpp"

namespace forebay {

// What is at dataset.path. Each look is taken once, whether it is for detecting the format or for building its index.
class PathContents {
 public:
  // What the files of a folder and of those below it are.
  enum class Tree : std::uint8_t { neither, voc, classes };

  // Throws ConfigError naming dataset.path when that is neither a folder nor a file.
  explicit PathContents(const BuildContext& context);

  [[nodiscard]] const BuildContext& context() const noexcept { return context_; }
  [[nodiscard]] const DatasetOptions& options() const noexcept { return context_.options; }
  // The path, absolute.
  [[nodiscard]] const std::string& root() const noexcept { return root_; }
  [[nodiscard]] bool is_folder() const noexcept { return is_folder_; }
  // Bytes of the file. REQUIRES: !is_folder().
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  // The first bytes of the file. Throws ConfigError when it cannot be read. REQUIRES: !is_folder().
  [[nodiscard]] std::span<const std::byte> head();
  // What the folder itself holds, and all below it too. REQUIRES: is_folder().
  [[nodiscard]] const Scan& listing();
  [[nodiscard]] Scan& tree();
  // Which annotation belongs to which image of the tree. REQUIRES: is_folder().
  [[nodiscard]] const Pairing& pairing();
  // VOC where any XML in the tree is VOC's and the images that it belongs to are clear, else class folders. Throws
  // ConfigError that shows both readings where both are possible. REQUIRES: is_folder().
  [[nodiscard]] Tree kind_of_tree();

 private:
  const BuildContext& context_;
  std::string root_;
  bool is_folder_ = false;
  std::uint64_t size_ = 0;
  std::optional<std::vector<std::byte>> head_;
  std::optional<Scan> listing_;
  std::optional<Scan> tree_;
  std::optional<Pairing> pairing_;
  std::optional<Tree> kind_;
};

}  // namespace forebay
