#pragma once

// Images with objects: writes their files, and describes what a dataset reads from them.
#include <forebay/dataset.hpp>
#include <forebay/field.hpp>

#include "dataset_support.hpp"
#include "support.hpp"

namespace forebay::testing {

// A .npy of grey pixels: an image file that needs no library.
inline std::string grey_npy(int width, int height, int grey) {
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + std::to_string(height) + ", " +
                       std::to_string(width) + "), }";
  header.resize(117, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header +
         std::string(static_cast<std::size_t>(width * height), static_cast<char>(grey));
}

inline FieldOptions field_options(std::string name, FieldKind kind, std::string from = "") {
  FieldOptions field{.name = std::move(name)};
  field.kind = kind;
  field.from = std::move(from);
  return field;
}

inline FieldOptions boxes_field(std::int64_t most = 8, std::string from = "") {
  FieldOptions field = field_options("boxes", FieldKind::boxes, std::move(from));
  field.most = most;
  return field;
}

// Options for whole images with all their boxes, as the first field.
inline DatasetOptions images_options(const std::filesystem::path& path, const std::string& format = "auto") {
  DatasetOptions options = options_for(path, format);
  options.samples = SampleUnit::images;
  options.fields = {boxes_field()};
  return options;
}

template <typename Element>
std::vector<Element> field_elements(const Dataset& dataset, std::uint64_t id, std::size_t number = 0) {
  Reading reading;
  dataset.read_field(id, number, reading);
  std::vector<Element> elements(reading.bytes.size() / sizeof(Element));
  if (!elements.empty()) std::memcpy(elements.data(), reading.bytes.data(), reading.bytes.size());
  return elements;
}

// "NAME CLASS: CLASS LEFT TOP RIGHT BOTTOM; ..." of each sample, the name without folders.
inline std::vector<std::string> describe_boxes(const Dataset& dataset, std::size_t number = 0) {
  std::vector<std::string> lines;
  for (std::uint64_t id = 0; id < dataset.size(); ++id) {
    const std::string name = dataset.name(id);
    std::ostringstream line;
    line << name.substr(name.rfind('/') + 1) << ' ' << dataset.sample(id).label << ':';
    for (const auto& box : field_elements<LabelledBox>(dataset, id, number)) {
      line << ' ' << box.label << ' ' << box.left << ' ' << box.top << ' ' << box.right << ' ' << box.bottom << ';';
    }
    lines.push_back(line.str());
  }
  return lines;
}

inline void write_image(const std::filesystem::path& path, int width = 100, int height = 50) {
  write_file(path, grey_npy(width, height, 7));
}

// A dataset in the layout of ultralytics: images/PART/x.jpg, labels/PART/x.txt, data.yaml.
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
