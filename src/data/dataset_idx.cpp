// idx files such as MNIST's: a header with type and dimensions, then the elements. One file has
// images of uint8; another, found by its name, has their labels.
//
// A plain file of images stays where it is: sample i is a record at header + i * size. A compressed
// one is inflated into the index. Labels are loaded, and checked against the number of images and
// of classes. Everything runs on the calling thread.
//
// Errors name the byte in the file, because these files have no lines or keys to name.

#include <algorithm>
#include <filesystem>
#include <forebay/error.hpp>

#include "base/text.hpp"
#include "build.hpp"
#include "class_text.hpp"
#include "formats.hpp"
#include "idx_file.hpp"

namespace forebay::data {
namespace {

namespace fs = std::filesystem;

// The number and size of the images in an idx file.
struct Shape {
  std::uint32_t records = 0;
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::uint32_t channels = 0;

  [[nodiscard]] std::size_t record_bytes() const noexcept { return std::size_t{height} * width * channels; }
};

bool is_sound(const Shape& shape) {
  // A record is at most 1 GiB, and its sides fit into 32 bits.
  constexpr std::uint32_t kLargestSide = 1U << 24U;
  const bool sides = shape.height > 0 && shape.width > 0 && shape.height <= kLargestSide && shape.width <= kLargestSide;
  return sides && (shape.channels == 1 || shape.channels == 3) && shape.record_bytes() <= kLargestSampleFile;
}

Shape shape_of(const IdxHeader& header) {
  const auto& dimensions = header.dimensions;
  if (dimensions.size() < 3) {
    throw SampleError("byte 3: " + std::to_string(dimensions.size()) +
                      " dimensions, where images have 3 (number, height, width) or 4 (and channels); " +
                      "a file of labels goes into dataset.labels");
  }
  const Shape shape{dimensions[0], dimensions[1], dimensions[2], dimensions.size() == 4 ? dimensions[3] : 1};
  if (!is_sound(shape)) {
    throw SampleError("byte 8: images of " + std::to_string(shape.height) + " x " + std::to_string(shape.width) +
                      " pixels with " + std::to_string(shape.channels) +
                      " channels; height x width with 1 or 3 channels, the channels last, can be used");
  }
  return shape;
}

// The name of the labels file for an images file, without ".gz"; "" if the name does not tell.
// "train-images-idx3-ubyte" has "train-labels-idx1-ubyte": the digit is the number of dimensions,
// and labels have one.
std::string labels_name(std::string name) {
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  const auto images = name.rfind("images");
  // Offset by one, so that npos becomes 0.
  const auto dimensions = std::max(name.rfind("idx3") + 1, name.rfind("idx4") + 1);
  if (images == std::string::npos || dimensions == 0) return {};
  name[dimensions + 2] = '1';
  return name.replace(images, std::string_view("images").size(), "labels");
}

// A file beside the images that has the name of their labels up to "labels", such as QMNIST's
// "qmnist-train-labels-idx2-int"; "" if there is none. QMNIST has eight numbers per label, the
// first of which is the class; such a file is only mentioned in a message.
std::string other_labels(const fs::path& images, const std::string& labels) {
  const std::string start = labels.substr(0, labels.rfind("labels") + 6);
  std::error_code unreadable;
  std::vector<std::string> names;
  const fs::path folder = images.has_parent_path() ? images.parent_path() : fs::path(".");
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with(start)) names.push_back(std::move(name));
  }
  return names.empty() ? std::string() : *std::ranges::min_element(names);
}

// Prefers a plain file to a compressed one, as for images.
std::string find_labels(const DatasetOptions& options, const std::string& images, SkipLog& skipped) {
  if (!options.labels.empty()) return options.labels;
  const fs::path path(images);
  const std::string name = labels_name(path.filename().string());
  if (name.empty()) {
    skipped.explain_missing_labels({.why = "the file's name does not tell the name of its labels; set dataset.labels"});
    return {};
  }
  for (const auto& candidate : {name, name + ".gz"}) {
    const fs::path labels = path.parent_path() / candidate;
    std::error_code unreadable;
    if (fs::exists(labels, unreadable)) return labels.string();
  }
  const std::string other = other_labels(path, name);
  skipped.explain_missing_labels(
      {.why = "there is no " + name + " or " + name + ".gz beside it" +
              (other.empty() ? "; set dataset.labels"
                             : ", and " + other + " has other labels than one byte for each " +
                                   "image; write that into a file for dataset.labels"),
       .seem_there = !other.empty()});
  return {};
}

// The number of labels must be that of the images: mixing the files of two splits is a common
// mistake.
std::vector<std::uint8_t> load_labels(const std::string& path, std::uint32_t records, SkipLog& skipped) {
  IdxFile file(path);
  const auto& dimensions = file.header().dimensions;
  if (dimensions.size() != 1) {
    throw SampleError("byte 3: " + std::to_string(dimensions.size()) + " dimensions where labels have 1");
  }
  if (dimensions[0] != records) {
    throw SampleError("byte 4: " + std::to_string(dimensions[0]) + " labels for " + std::to_string(records) +
                      " images");
  }
  const auto values = file.load();
  if (file.trailing() > 0) skipped.add_note(path, std::to_string(file.trailing()) + " bytes after the gzip data");
  std::vector<std::uint8_t> labels(values.size());
  std::memcpy(labels.data(), values.data(), values.size());
  return labels;
}

std::vector<std::string> list_classes(const DatasetOptions& options, const std::vector<std::uint8_t>& labels,
                                      const std::string& file) {
  // The header of a file with one dimension: four bytes of magic and one 32-bit number.
  constexpr std::size_t kHeader = 8;
  const auto& given = options.classes;
  if (given.empty()) {
    return numbered_classes(labels.empty() ? 0 : std::int64_t{*std::ranges::max_element(labels)} + 1);
  }
  const auto beyond = std::find_if(labels.begin(), labels.end(), [&](unsigned label) { return label >= given.size(); });
  if (beyond != labels.end()) {
    throw ConfigError("dataset.classes has " + std::to_string(given.size()) + " names, but " + file + " has label " +
                      std::to_string(*beyond) + " at byte " +
                      std::to_string(kHeader + static_cast<std::size_t>(beyond - labels.begin())));
  }
  return ClassList(given, {}).names();
}

template <typename Load>
auto naming(const DatasetOptions& options, const std::string& file, Load&& load) {
  return naming_path(options, file == options.path ? "" : file, load);
}

// Adds the images as records. Those of a compressed file are decompressed into the index; they need
// no stamp of their file, because the hash of the options covers it (hash_idx).
Shape add_images(const std::string& path, RecordTable& table, SkipLog& skipped) {
  IdxFile file(path);
  const Shape shape = shape_of(file.header());
  if (shape.records == 0) throw SampleError("holds 0 images");
  std::uint64_t offset = 0;
  if (file.is_compressed()) {
    table.held = file.load();
    if (file.trailing() > 0) skipped.add_note(path, std::to_string(file.trailing()) + " bytes after the gzip data");
    (void)table.add_source(base_name(path));
  } else {
    file.check_size();
    offset = file.header().size();
    (void)table.add_source(base_name(path), file.file());
  }
  table.kinds = {{.encoding = Encoding::raw,
                  .width = static_cast<std::int32_t>(shape.width),
                  .height = static_cast<std::int32_t>(shape.height),
                  .channels = static_cast<std::int32_t>(shape.channels)}};
  const auto length = static_cast<std::uint32_t>(shape.record_bytes());
  for (std::uint32_t i = 0; i < shape.records; ++i) {
    table.add(0, -1);
    table.record.push_back({.offset = offset + std::uint64_t{i} * length, .length = length, .number = i});
  }
  return shape;
}

// Whether the bytes begin an idx file (two zero bytes, the type of elements, 0x08 to 0x0E, and the
// number of dimensions) or a gzip file. That is taken for a compressed idx file, because formats
// that recognise their own files are asked earlier.
bool starts_as_idx(std::span<const std::byte> head) {
  if (starts_as_gzip(head)) return true;
  return head.size() >= 4 && head[0] == std::byte{0} && head[1] == std::byte{0} && head[2] >= std::byte{0x08} &&
         head[2] <= std::byte{0x0E} && head[3] >= std::byte{1} && head[3] <= std::byte{4};
}

// The images file of a folder of idx files, that of the training set if there is one; "" if there
// is no images file.
std::string find_images(PathContents& contents) {
  // By name without ".gz": a plain file is preferred to its compressed twin.
  std::map<std::string, std::string> found;
  for (const auto path : contents.listing().others) {
    const std::string name(path);
    if (labels_name(name).empty()) continue;
    const bool is_compressed = name.ends_with(".gz");
    const std::string plain = is_compressed ? name.substr(0, name.size() - 3) : name;
    if (!found.contains(plain) || !is_compressed) found[plain] = join_path(contents.root(), name);
  }
  if (found.empty()) return {};
  for (const auto& [name, path] : found) {
    if (found.size() == 1 || name.starts_with("train")) return path;
  }
  throw path_error(contents.options(), "several idx files of images (" + joined(found, ", ", [](const auto& each) {
                                         return each.first;
                                       }) + "); name one of them");
}

bool is_idx(PathContents& contents) {
  return contents.is_folder() ? !find_images(contents).empty() : starts_as_idx(contents.head());
}

std::string images_of(PathContents& contents) {
  std::string images = contents.is_folder() ? find_images(contents) : contents.options().path;
  if (!images.empty()) return images;
  throw path_error(contents.options(), "no idx file of images there (such as train-images-idx3-ubyte or its .gz)");
}

// Covers what the index holds of the files: the labels, and the images of a compressed file. A plain file is checked
// when it is opened for reading.
std::uint64_t hash_idx(const DatasetOptions& options) {
  const BuildContext context{.options = options, .progress = {}, .threads = 1};
  PathContents contents(context);
  const std::string images = images_of(contents);
  SkipLog unused;
  const std::string labels = find_labels(options, images, unused);
  const std::uint64_t hash = labels.empty() ? 0 : hash_file(labels, "dataset.labels", 0);
  const bool is_held = naming(options, images, [&] { return IdxFile(images).is_compressed(); });
  return is_held ? hash_file(images, "dataset.path", hash) : hash;
}

IndexDraft build_idx(PathContents& contents) {
  const DatasetOptions& options = contents.options();
  const std::string images = images_of(contents);
  IndexDraft draft;
  draft.root = fs::path(absolute_path(images)).parent_path().string();
  const Shape shape = naming(options, images, [&] { return add_images(images, draft.table, draft.skipped); });
  std::vector<std::uint8_t> labels;
  const std::string labels_file = find_labels(options, images, draft.skipped);
  if (!labels_file.empty()) {
    labels = naming(options, labels_file, [&] { return load_labels(labels_file, shape.records, draft.skipped); });
    draft.table.label.assign(labels.begin(), labels.end());
  }
  if (const auto& progress = contents.context().progress) progress(shape.records, shape.records);
  draft.table.classes = list_classes(options, labels, labels_file);
  draft.counts.images = shape.records;
  return draft;
}

}  // namespace

const Format formats::idx{.needs = "an idx file of images",
                          .detect = is_idx,
                          .build = build_idx,
                          .hash = hash_idx,
                          .hashed = "the idx files",
                          .takes_labels = true};

}  // namespace forebay::data
