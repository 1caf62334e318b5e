#pragma once

#include <filesystem>
#include <string>

#include "detection_support.hpp"
#include "support.hpp"

namespace forebay::testing {

inline void write_image(const std::filesystem::path& path, int width = 100, int height = 50) {
  write_file(path, grey_npy(width, height, 7));
}

// A dataset as ultralytics has it: images/PART/x.jpg, labels/PART/x.txt, data.yaml.
struct Yolo {
  TemporaryDirectory folder;

  Yolo() {
    add("train", "a", "1 0.5 0.5 0.2 0.4\n0 0.25 0.5 0.5 1\n");
    add("train", "b", "");
    add("val", "c", "0 0.5 0.5 1 1\n");
    write_image(folder / "images/train/none.jpg");
    yaml("path: .\ntrain: images/train\nval: images/val\nnames: [cat, dog]\n");
  }
  void add(const std::string& part, const std::string& name, const std::string& labels) const {
    write_image(folder / ("images/" + part + "/" + name + ".jpg"));
    write_file(folder / ("labels/" + part + "/" + name + ".txt"), labels);
  }
  void yaml(const std::string& text) const { write_file(folder / "data.yaml", text); }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder / name).string(); }
};

}  // namespace forebay::testing
