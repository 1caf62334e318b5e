#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace forebay::data {

// The content of a YOLO dataset's data.yaml, as interpreted by ultralytics.
struct YoloConfig {
  struct Split {
    std::string name;                 // "train", "val", "test" or "minival"
    std::vector<std::string> places;  // folders and lists of images, as written
  };

  std::string path;  // the folder to which the places are relative; "": the file's own
  std::vector<Split> splits;
  std::vector<std::string> names;    // class names; "class_0", ... if only their number is given
  bool has_names = false;            // else at most their number is given
  std::size_t keypoint_numbers = 0;  // after the box in each line of labels (kpt_shape)

  // Null if there is none of this name.
  [[nodiscard]] const Split* find(std::string_view name) const noexcept;
};

// Reads the subset of YAML that such files use: keys at the left edge; for the keys above, plain and quoted texts, and
// lists or numbered names of these, on separate lines or in brackets. Other keys may contain anything. Throws
// ConfigError naming `file`, the line and what to write instead.
[[nodiscard]] YoloConfig parse_yolo_config(std::string_view text, const std::string& file);

// The same for a file. Throws ConfigError if it cannot be read.
[[nodiscard]] YoloConfig read_yolo_config(const std::string& file);

// Whether a file has the keys of such a configuration. False if it cannot be read.
[[nodiscard]] bool is_yolo_config(const std::string& file);

// Splits "data.yaml:val" into the file and the name of its part; for any other path the part is empty.
struct PartOfFile {
  std::string file;
  std::string part;
};
[[nodiscard]] PartOfFile part_of_yaml(const std::string& path);
[[nodiscard]] bool is_yaml_name(std::string_view path) noexcept;

}  // namespace forebay::data
