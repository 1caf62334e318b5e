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

// An object recorded by a labelling tool, with its class by name.
struct ToolObject {
  std::string name;
  BoxSides sides{};
  std::string problem = {};  // why it cannot be used; "" if it can
};

// An image with all of its objects.
struct ToolImage {
  std::string path;    // its name in the table
  std::string where;   // its annotation, for messages
  ImageExtent size{};  // as the annotation says, or {}
  std::vector<ToolObject> objects = {};
};

// The folder to which the image paths in an annotation file are relative: that of [fields.image], or else the folder in
// `likely` that has the most of a few sampled images, earlier ones being preferred. `path_of`: an image's path;
// `file_of`: its file in a given folder. Throws ConfigError if there are images and none is found. REQUIRES: `likely`
// is not empty.
[[nodiscard]] std::string folder_of_images(const DatasetOptions& options, const std::string& annotations,
                                           std::vector<std::string> likely, std::size_t images,
                                           const std::function<std::string(std::size_t)>& path_of,
                                           std::string (*file_of)(std::string_view folder, std::string_view path));

// Throws ConfigError for a section that sets the label, which would contradict the objects' classes.
void refuse_label_field(const DatasetOptions& options);

// Adds the samples that dataset.samples asks for, in the order of images and, within them, of objects. Classes are
// sorted by name unless they are given. Sets classes, objects in counts and fields; logs objects that cannot be used.
void add_tool_images(const BuildContext& context, const std::vector<ToolImage>& images, IndexDraft& draft);

// Counts the shapes of each kind that have no box, for one note per kind.
class ShapesLeftOut {
 public:
  void add(const std::string& kind, std::uint64_t count = 1) { counts_[kind] += count; }
  void report(const std::string& where, SkipLog& skipped) const;
  [[nodiscard]] const std::map<std::string, std::uint64_t>& counts() const noexcept { return counts_; }

 private:
  std::map<std::string, std::uint64_t> counts_;
};

}  // namespace forebay::data
