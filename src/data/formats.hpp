#pragma once

#include <array>
#include <cstdint>
#include <forebay/dataset.hpp>
#include <string_view>

// The formats that dataset.format may name, one line each: name and description. The name is also that of the Format,
// which is defined in the file that indexes it. `auto` tries them from last to first, so that files of specific kinds
// are recognised before folders and text.
#define FOREBAY_FORMATS(FORMAT)                                                       \
  FORMAT(voc, "images with Pascal VOC or ILSVRC XML, one sample per object or image") \
  FORMAT(filelist, "a text file with a path and optionally a label per line")         \
  FORMAT(table, "a table with a header (`.csv`, `.tsv`), one row per sample")         \
  FORMAT(coco, "a COCO instances file (`.json`), one sample per object or image")     \
  FORMAT(folder, "a folder of images per class")                                      \
  FORMAT(labelme, "images with labelme JSON, one sample per object or image")         \
  FORMAT(cvat, "a \"CVAT for images\" XML file, one sample per object or image")      \
  FORMAT(yolo, "images with YOLO labels (`.txt`), one sample per object or image")    \
  FORMAT(idx, "MNIST files, plain or `.gz`")                                          \
  FORMAT(cifar, "CIFAR-10 or CIFAR-100, the binary version")                          \
  FORMAT(tfrecord, "TFRecord files of tf.train.Example, plain or `.gz`")              \
  FORMAT(webdataset, "WebDataset tar archives, plain or `.gz`")                       \
  FORMAT(recordio, "MXNet RecordIO files (`.rec`)")                                   \
  FORMAT(lmdb, "LMDB environments of Caffe, Caffe2 or image files")                   \
  FORMAT(npy, "NumPy arrays of images and labels (`.npy`, `.npz`)")                   \
  FORMAT(pack, "a folder that `forebay pack` made from any of these")

namespace forebay::data {

class PathContents;
struct IndexDraft;

// A kind of dataset: how it is recognised, and how it becomes an index.
struct Format {
  enum class Path : std::uint8_t { folder, file, either };

  std::string_view needs;  // what dataset.path must name, for errors: "a folder of class folders"
  Path path = Path::either;
  // Whether `auto` chooses this format for the path. Throws ConfigError if the path could also be read in another way.
  bool (*detect)(PathContents& contents) = nullptr;
  // Throws ConfigError naming dataset.path, what was found there and what to do, if there is no usable sample.
  IndexDraft (*build)(PathContents& contents) = nullptr;

  // For a format whose index contains the contents of files, and becomes stale if they change: the hash of these files,
  // and what they are called. The hash throws ConfigError if one cannot be read.
  std::uint64_t (*hash)(const DatasetOptions& options) = nullptr;
  std::string_view hashed = {};  // "the list"
  // Whether the path may be a pattern that several files match.
  bool takes_patterns = false;
  // Samples may have several images and labels: `from` in [fields.image] and [fields.label] selects one.
  bool chooses_image = false;
  // Whether dataset.labels may name a file.
  bool takes_labels = false;
  // Whether dataset.samples may be "images".
  bool has_objects = false;
  // False: the index may name files that do not exist; the builder did not check.
  bool finds_files = true;
  // Whether samples have names of their own, such as keys, by which they are selected and weighted.
  bool keeps_names = false;
  // Whether the bytes in the index are tables of the codec with which its images are packed (Dataset::tables()).
  bool holds_tables = false;
  // Whether the path may be a URL.
  bool reads_urls = false;
  // What samples of a class are that dataset.classes leaves out: damage, or a choice that a run tells of or not.
  enum class OtherClasses : std::uint8_t { bad, told, left_out };
  OtherClasses other_classes = OtherClasses::bad;
  // Whether its samples are whole files, which may be videos if clip.frames is set.
  bool reads_videos = false;
  // Whether a file of this name is one of those that it reads together, each with many records; null: it has no such.
  bool (*is_shard)(std::string_view name) = nullptr;
};

namespace formats {
#define FOREBAY_DECLARE_FORMAT(NAME, HELP) extern const Format NAME;
FOREBAY_FORMATS(FOREBAY_DECLARE_FORMAT)
#undef FOREBAY_DECLARE_FORMAT
}  // namespace formats

struct NamedFormat {
  std::string_view name;
  std::string_view help;
  const Format* format = nullptr;
};

#define FOREBAY_NAMED_FORMAT(NAME, HELP) NamedFormat{#NAME, HELP, &formats::NAME},
inline constexpr std::array kFormats{FOREBAY_FORMATS(FOREBAY_NAMED_FORMAT)};
#undef FOREBAY_NAMED_FORMAT

// The values of dataset.format, and the same as one text, "auto | voc | ...".
#define FOREBAY_FORMAT_NAME(NAME, HELP) , std::string_view(#NAME)
inline constexpr std::array kFormatChoices{std::string_view("auto") FOREBAY_FORMATS(FOREBAY_FORMAT_NAME)};
#undef FOREBAY_FORMAT_NAME
#define FOREBAY_FORMAT_CHOICE(NAME, HELP) " | " #NAME
inline constexpr std::string_view kFormatChoicesText = "auto" FOREBAY_FORMATS(FOREBAY_FORMAT_CHOICE);
#undef FOREBAY_FORMAT_CHOICE

// Null if there is none of this name.
[[nodiscard]] const Format* find_format(std::string_view name) noexcept;

}  // namespace forebay::data
