#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace forebay::data {

// What the data.yaml of a YOLO dataset says, as ultralytics reads it.
struct YoloConfig {
  struct Split {
    std::string name;                 // "train", "val", "test" or "minival"
    std::vector<std::string> places;  // folders and lists of images, as written
  };

  std::string path;  // what the places are relative to; "": the file's folder
  std::vector<Split> splits;
  std::vector<std::string> names;    // of the classes; "class_0", ... if only their number is given
  bool has_names = false;            // else there is their number at most
  std::size_t keypoint_numbers = 0;  // behind the box in each line of labels (kpt_shape)

  // Null if there is none of this name.
  [[nodiscard]] const Split* find(std::string_view name) const noexcept;
};

// Reads the part of YAML that such files need: keys at the left edge; for the keys above plain and quoted texts, and
// lists and numbered names of these, in lines or between brackets. Other keys may have anything below them. Throws
// ConfigError naming `file`, the line and what to write instead.
[[nodiscard]] YoloConfig parse_yolo_config(std::string_view text, const std::string& file);

// The same of a file. Throws ConfigError if it cannot be read.
[[nodiscard]] YoloConfig read_yolo_config(const std::string& file);

// Whether a file has the keys of such a configuration. False if it cannot be read.
[[nodiscard]] bool is_yolo_config(const std::string& file);

// "data.yaml:val" as the file and the name of its part; any other path has none.
struct PartOfFile {
  std::string file;
  std::string part;
};
[[nodiscard]] PartOfFile part_of_yaml(const std::string& path);
[[nodiscard]] bool is_yaml_name(std::string_view path) noexcept;

}  // namespace forebay::data
