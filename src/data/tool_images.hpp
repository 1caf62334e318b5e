#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "build.hpp"
#include "image_size.hpp"
#include "object_samples.hpp"

namespace forebay::data {

// An object that a labelling tool wrote down, with its class by name.
struct ToolObject {
  std::string name;
  BoxSides sides{};
  std::string problem = {};  // why it cannot be used; "" = it can
};

// An image with all of its objects.
struct ToolImage {
  std::string path;    // as the table will name it
  std::string where;   // its annotation, for messages
  ImageExtent size{};  // as the annotation says, or {}
  std::vector<ToolObject> objects = {};
};

// The folder that the paths of an annotation file's images are relative to: that of [fields.image], else the one of
// `likely` with most of a few of them, the earlier the better. `path_of`: the path of each; `file_of`: the file that it
// is in a folder. Throws ConfigError where there are images and none is found. REQUIRES: a likely folder.
[[nodiscard]] std::string folder_of_images(const DatasetOptions& options, const std::string& annotations,
                                           std::vector<std::string> likely, std::size_t images,
                                           const std::function<std::string(std::size_t)>& path_of,
                                           std::string (*file_of)(std::string_view folder, std::string_view path));

// Objects have classes: a section for the label would contradict them. Throws ConfigError.
void refuse_label_field(const DatasetOptions& options);

// Adds the samples that dataset.samples asks for, in the order of images and, within them, of objects. Classes are
// sorted by name unless they are given. Sets classes, objects in counts and fields; logs objects that cannot be used.
void add_tool_images(const BuildContext& context, const std::vector<ToolImage>& images, IndexDraft& draft);

// How many shapes of each kind have no box, for one note of each.
class ShapesLeftOut {
 public:
  void add(const std::string& kind, std::uint64_t count = 1) { counts_[kind] += count; }
  void report(const std::string& where, SkipLog& skipped) const;
  [[nodiscard]] const std::map<std::string, std::uint64_t>& counts() const noexcept { return counts_; }

 private:
  std::map<std::string, std::uint64_t> counts_;
};

}  // namespace forebay::data
