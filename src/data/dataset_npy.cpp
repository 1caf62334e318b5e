// NumPy arrays: one of images (N, H, W) or (N, H, W, C) or (N, C, H, W) of uint8, and others of
// labels and fields, in one .npz archive or in .npy files of one folder.
//
// The images stay where they are: a sample is a record of H*W*C bytes in the file, at a computed
// offset. Labels and fields are loaded into the index while it is built, and so are the images of a
// compressed archive, which cannot be read from the middle. Everything runs on the calling thread.
// It is fast except for compressed archives, because only headers, labels and fields are read.
//
// Common names decide which array is which; [fields.image] and [fields.label] name others.

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <forebay/error.hpp>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

#include "array_files.hpp"
#include "base/text.hpp"
#include "build.hpp"
#include "fields.hpp"
#include "formats.hpp"
#include "index_image.hpp"
#include "npy.hpp"
#include "sample_fields.hpp"

namespace forebay::data {
namespace {

// Common names of image arrays, the likeliest first: those of Keras's archives, of MedMNIST, and of
// numpy.savez, which calls unnamed arrays arr_0, arr_1.
constexpr std::array<std::string_view, 12> kImageArrays{
    "x_train", "X_train", "train_images", "train_x", "images", "image", "x", "X", "imgs", "data", "train", "arr_0"};
// The part of a name that stands for images, and its counterparts for labels, the likeliest first.
constexpr std::array<std::pair<std::string_view, std::string_view>, 15> kLabelNames{std::pair{"images", "labels"},
                                                                                    {"images", "label"},
                                                                                    {"images", "targets"},
                                                                                    {"images", "target"},
                                                                                    {"image", "label"},
                                                                                    {"imgs", "labels"},
                                                                                    {"data", "labels"},
                                                                                    {"data", "label"},
                                                                                    {"data", "target"},
                                                                                    {"data", "targets"},
                                                                                    {"x", "y"},
                                                                                    {"X", "y"},
                                                                                    {"X", "Y"},
                                                                                    {"arr_0", "arr_1"},
                                                                                    {"train", "labels"}};
// Usual names of label arrays in an archive, tried if none goes with the name of the images.
constexpr std::array<std::string_view, 8> kLabelArrays{"labels", "label",   "targets", "target",
                                                       "y",      "y_train", "Y",       "classes"};

std::string image_array(ArrayFiles& arrays, const WantedFields& wanted) {
  if (!wanted.image.empty()) return wanted.image;
  if (!arrays.own_name().empty()) return arrays.own_name();
  const std::vector<std::string> names = arrays.names();
  for (const std::string_view usual : kImageArrays) {
    if (std::ranges::find(names, usual) != names.end()) return std::string(usual);
  }
  if (names.size() == 1) return names.front();
  throw SampleError("which of its arrays has the images? Say from = \"NAME\" in [fields.image]; it has " +
                    (names.empty() ? "none" : joined(names, ", ")));
}

// The array of labels that belongs to an array of images; "" if there is none. An array that a
// field uses for something other than classes is never guessed. The last occurrence of a part is
// replaced, so that a folder in the name may contain it, too: "images/train_images" has
// "images/train_labels".
std::string label_array(const ArrayFiles& arrays, const WantedFields& wanted, const std::string& images) {
  if (!wanted.label.empty()) return wanted.label;
  const auto is_other = [&](const std::string& name) {
    return std::ranges::any_of(wanted.fields, [&](const WantedFields::Wanted& each) {
      return each.from == name && each.field.kind != FieldKind::class_number;
    });
  };
  for (const auto& [image, label] : kLabelNames) {
    const std::size_t at = images.rfind(image);
    if (at == std::string::npos) continue;
    std::string name = images;
    name.replace(at, image.size(), label);
    if (name != images && arrays.has(name) && !is_other(name)) return name;
  }
  for (const std::string_view usual : kLabelArrays) {
    std::string name(usual);
    if (arrays.archive() && name != images && arrays.has(name) && !is_other(name)) return name;
  }
  return {};
}

// The layout of the images in an array. The bytes of one image fit into 32 bits, because they are
// at most kLargestSampleFile.
struct ImageEntries {
  RecordTable::Kind kind;
  std::uint32_t count = 0;
  std::uint32_t bytes = 0;  // of one image
};

// Channels last is tried first, because it is likelier where both fit, as for (N, 3, H, 3).
ImageEntries entries_of(const ArrayFiles::Found& found) {
  const NpyArray& array = found.array;
  const auto refuse = [&](const std::string& what) {
    throw SampleError("array \"" + found.name + "\" of " + array.dtype() + " " + array.shape_text() + ": " + what);
  };
  if (array.kind != 'u' || array.element_bytes != 1) {
    refuse("images are uint8. Scale them to that, save one file for each, or serve them as a field of kind \"array\"");
  }
  const auto& shape = array.shape;
  const auto is_channels = [](std::int64_t extent) { return extent == 1 || extent == 3; };
  const bool is_last = array.dimensions == 4 && is_channels(shape[3]);
  const bool is_first = array.dimensions == 4 && !is_last && is_channels(shape[1]);
  if (array.dimensions != 3 && !is_last && !is_first) {
    refuse("images are (number, height, width), (number, height, width, 1 or 3) or (number, 1 or 3, height, width)");
  }
  if (array.fortran_order) refuse("its images do not lie side by side; save it in C order (numpy.ascontiguousarray)");
  const std::int64_t height = shape[is_first ? 2 : 1];
  const std::int64_t width = shape[is_first ? 3 : 2];
  const std::int64_t channels = is_last ? shape[3] : is_first ? shape[1] : 1;
  // Keeps height times width within 64 bits, whatever the header says.
  constexpr std::int64_t kMostSide = 1 << 24;
  const bool fits = height >= 1 && width >= 1 && height <= kMostSide && width <= kMostSide &&
                    height * width <= static_cast<std::int64_t>(kLargestSampleFile) / channels;
  if (!fits) refuse("an image has sides of 1 or more, and 1 GiB at most");
  if (shape[0] < 1 || shape[0] > std::numeric_limits<std::uint32_t>::max())
    refuse("1 to 2^32 - 1 images can be served");
  return {.kind = {.encoding = Encoding::raw,
                   .width = static_cast<std::int32_t>(width),
                   .height = static_cast<std::int32_t>(height),
                   .channels = static_cast<std::int32_t>(channels),
                   .planar = is_first && channels == 3},
          .count = static_cast<std::uint32_t>(shape[0]),
          .bytes = static_cast<std::uint32_t>(height * width * channels)};
}

// The images of an array, and which of them are served. Entries keep their numbers if others are
// left out, because names of samples contain them.
class ImageArray {
 public:
  ImageArray(ArrayFiles& arrays, ArrayFiles::Found found)
      : arrays_(arrays), found_(std::move(found)), entries_(entries_of(found_)) {
    kept_.resize(entries_.count);
    std::iota(kept_.begin(), kept_.end(), 0U);
    label_.assign(entries_.count, -1);
  }
  [[nodiscard]] std::uint32_t count() const noexcept { return entries_.count; }
  // The entries that are served, in order.
  [[nodiscard]] const std::vector<std::uint32_t>& kept() const noexcept { return kept_; }

  // Sets the labels, and leaves out entries whose label is unusable. REQUIRES: one label per entry.
  void label(const ArrayLabels& labels) {
    label_ = labels.numbers;
    for (const auto& [entry, problem] : labels.bad) kept_[entry] = kDropped;
    std::erase(kept_, kDropped);
  }

  // The index holds a compressed array as one block, in which offsets begin at 0.
  void add_to(RecordTable& table, const std::string& path) const {
    std::uint64_t offset = 0;
    RecordTable::Stamp stamp = RecordTable::stamp_of(*found_.file);
    if (found_.is_compressed()) {
      table.held = arrays_.load(found_).elements;
      stamp.is_held = true;
    } else {
      offset = arrays_.offset_of(found_);
    }
    const std::uint32_t source = table.add_source(path, stamp);
    table.kinds = {entries_.kind};
    for (const std::uint32_t i : kept_) {
      table.add(source, label_[i]);
      table.record.push_back(
          {.offset = offset + std::uint64_t{i} * entries_.bytes, .length = entries_.bytes, .number = i});
    }
  }

 private:
  static constexpr std::uint32_t kDropped = UINT32_MAX;

  ArrayFiles& arrays_;
  ArrayFiles::Found found_;
  ImageEntries entries_;
  std::vector<std::uint32_t> kept_;
  std::vector<std::int32_t> label_;
};

// The numbers or texts of one entry. whole() gives the bits, so an unsigned number above 2^63 - 1
// shows as a negative one.
FieldValue value_of_entry(const ArrayFiles::Loaded& loaded, std::uint64_t i) {
  const NpyArray& array = loaded.array;
  const std::size_t count = loaded.entry_bytes() / array.element_bytes;
  FieldValue value;
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t at = static_cast<std::size_t>(i) * count + k;
    if (array.has_texts()) {
      value.texts.push_back(array.text(at));
    } else if (array.kind == 'f') {
      value.floats.push_back(array.real(at));
    } else {
      const std::int64_t whole = array.whole(at);
      if (array.kind == 'u' && whole < 0) {
        throw SampleError("has " + std::to_string(static_cast<std::uint64_t>(whole)) +
                          ", which a signed number of 64 bits does not hold");
      }
      value.integers.push_back(whole);
    }
  }
  return value;
}

void require_entries(const ArrayFiles::Found& found, std::size_t samples) {
  if (found.array.dimensions >= 1 && std::cmp_equal(found.array.shape[0], samples)) return;
  throw UnfitArray("array \"" + found.name + "\" of shape " + found.array.shape_text() + " for " +
                   std::to_string(samples) + " images");
}

// Throws UnfitArray if the array does not hold labels.
ArrayLabels labels_of(const DatasetOptions& options, ArrayFiles& arrays, const std::string& name, std::size_t images) {
  const ArrayFiles::Found found = arrays.find(name);
  require_entries(found, images);
  const ArrayFiles::Loaded loaded = arrays.load(found);
  try {
    return labels_of_array(loaded, options.classes);
  } catch (const UnfitArray& error) {
    throw UnfitArray("array \"" + name + "\": " + error.what());
  }
}

// The column of a field. If its data are the bytes of a file, each entry becomes an npy file,
// because decoders of masks and arrays take files, whatever they come from; for kind bytes it is
// the entry itself.
RecordTable::FieldColumn column_of_array(ArrayFiles& arrays, const WantedFields::Wanted& wanted,
                                         const ImageArray& images) {
  const ArrayFiles::Found found = arrays.find(wanted.from);
  require_entries(found, images.count());
  if (found.array.has_texts() && wanted.is_bytes()) {
    throw UnfitArray("array \"" + found.name + "\" has texts, which a field of kind \"" +
                     std::string(to_string(wanted.field.kind)) + "\" is not made of");
  }
  const ArrayFiles::Loaded loaded = arrays.load(found);
  RecordTable::FieldColumn column{.field = wanted.field};
  const std::string header = wanted.field.kind == FieldKind::bytes ? std::string() : header_of_entry(loaded.array);
  for (const std::uint32_t i : images.kept()) {
    if (!wanted.is_bytes()) {
      try {
        column.add_values(elements_of(wanted, value_of_entry(loaded, i)));
      } catch (const SampleError& error) {
        throw SampleError("array \"" + found.name + "\": entry " + std::to_string(i) + " " + error.what());
      }
      continue;
    }
    const auto start = std::as_bytes(std::span(header));
    const auto entry = loaded.entry(i);
    std::vector<std::byte> file(start.begin(), start.end());
    file.insert(file.end(), entry.begin(), entry.end());
    column.add_values(file);
  }
  return column;
}

// Whether the file is .npy, or a ZIP archive whose first member is. In a member's local header,
// bytes 26 and 27 are the length of the name, which begins at byte 30 (PKWARE's APPNOTE, 4.3.7).
bool is_array_file(PathContents& contents) {
  if (contents.is_folder()) return false;
  const auto head = contents.head();
  if (starts_as_npy(head)) return true;
  constexpr std::size_t kNameAt = 30;
  if (!starts_as_zip(head) || head.size() < kNameAt) return false;
  const auto length = std::to_integer<std::size_t>(head[26]) | std::to_integer<std::size_t>(head[27]) << 8U;
  const std::string_view text = as_text(head);
  return text.substr(kNameAt, length).ends_with(".npy");
}

std::string label_file(const DatasetOptions& options) {
  return options.labels.empty() ? std::string() : absolute_path(options.labels);
}

// The labels in the file that dataset.labels names; "labels.npz/y" is an array in an archive
// (array_place).
ArrayLabels labels_of_file(const DatasetOptions& options, std::size_t images) {
  const std::string path = label_file(options);
  const auto place = array_place(path);
  try {
    ArrayFiles arrays(place ? place->archive : path);
    return labels_of(options, arrays, place ? place->array : arrays.own_name(), images);
  } catch (const SampleError& error) {
    throw ConfigError("dataset.labels = \"" + options.labels + "\": " + error.what());
  }
}

std::string list_arrays(const ArrayFiles& arrays) {
  const std::string names = joined(arrays.names(), ", ", printable);
  return names.empty() ? "" : "; it has " + names;
}

// The labels, or nothing if there are none. An array that was only guessed and does not fit is not
// the labels after all, unless dataset.classes says that there must be labels.
std::optional<ArrayLabels> find_labels(const DatasetOptions& options, ArrayFiles& arrays, const std::string& images,
                                       std::size_t count, SkipLog& skipped) {
  const WantedFields wanted(options);
  if (!options.labels.empty()) return labels_of_file(options, count);
  const std::string name = label_array(arrays, wanted, images);
  if (!wanted.label.empty()) return labels_of(options, arrays, name, count);
  const std::string_view advice = "dataset.labels, or from in [fields.label], names the array of labels";
  if (name.empty()) {
    skipped.explain_missing_labels({.why = "no array beside the fields has the name that goes with \"" + images + "\"" +
                                           list_arrays(arrays) + ". " + std::string(advice),
                                    .seem_there = arrays.names().size() > 1 + wanted.fields.size()});
    return std::nullopt;
  }
  try {
    return labels_of(options, arrays, name, count);
  } catch (const UnfitArray& error) {
    if (!options.classes.empty()) throw;
    skipped.explain_missing_labels({.why = std::string(error.what()) + ". " + std::string(advice), .seem_there = true});
    return std::nullopt;
  }
}

// The index holds labels, fields and compressed images. An archive's directory has the checksums of
// all of them. The images of plain files are not hashed, because their file has a stamp in the
// index.
std::uint64_t hash_npy(const DatasetOptions& options) {
  return naming_path(options, "", [&] {
    ArrayFiles arrays(options.path);
    const WantedFields wanted(options);
    std::uint64_t hash = arrays.archive() ? chunk_sum(arrays.archive()->directory()) : 0;
    const auto place = array_place(options.labels);
    if (!options.labels.empty()) hash = hash_file(place ? place->archive : options.labels, "dataset.labels", hash);
    if (arrays.archive()) return hash;
    const std::string labels = label_array(arrays, wanted, image_array(arrays, wanted));
    if (options.labels.empty() && !labels.empty()) hash = hash_file(arrays.path_of(labels), "dataset.path", hash);
    for (const auto& field : wanted.fields) hash = hash_file(arrays.path_of(field.from), "fields", hash);
    return hash;
  });
}

IndexDraft build_npy(PathContents& contents) {
  const DatasetOptions& options = contents.options();
  const std::string& path = contents.root();
  IndexDraft draft;
  draft.root = std::filesystem::path(path).parent_path().string();
  naming_path(options, "", [&] {
    const WantedFields wanted(options);
    ArrayFiles arrays(path);
    const std::string images = image_array(arrays, wanted);
    ImageArray entries(arrays, arrays.find(images));
    if (const auto labels = find_labels(options, arrays, images, entries.count(), draft.skipped)) {
      entries.label(*labels);
      draft.table.classes = labels->classes;
      for (const auto& [entry, problem] : labels->bad) draft.skipped.add_bad(record_name(path, entry, {}), problem);
    }
    draft.counts.images = entries.count();
    entries.add_to(draft.table, std::filesystem::path(path).filename().string());
    for (const auto& field : wanted.fields) {
      if (arrays.has(field.from)) draft.table.fields.push_back(column_of_array(arrays, field, entries));
    }
    draft.table.field_names = arrays.names();
  });
  if (const auto& progress = contents.context().progress) progress(draft.counts.images, draft.counts.images);
  return draft;
}

}  // namespace

const Format formats::npy{.needs = "NumPy arrays",
                          .path = Format::Path::file,
                          .detect = is_array_file,
                          .build = build_npy,
                          .hash = hash_npy,
                          .hashed = "the arrays",
                          .chooses_image = true,
                          .takes_labels = true,
                          .reads_urls = true};

}  // namespace forebay::data
