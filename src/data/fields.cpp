// The sections [fields.NAME]: what a section means (field_of), files beside each image
// ("masks/{stem}.png"), and which of the fields that a format has are served.
//
// After a format has built its draft, complete_fields puts the fields into the order of the
// options: those that the format filled, and those that are files beside images, which are made
// here for every format. Anything else is an error that names the existing fields. Everything runs
// on the thread that builds the index.

#include "fields.hpp"

#include <algorithm>
#include <filesystem>
#include <forebay/error.hpp>
#include <set>
#include <utility>

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "colour_table.hpp"
#include "file_nature.hpp"
#include "formats.hpp"
#include "npy.hpp"
#include "store/url.hpp"

namespace forebay::data {
namespace {

constexpr std::uint32_t kNotYet = UINT32_MAX;
// How many of a pattern's files are looked for when an index is built. Chosen: a single missing
// mask is a bad sample, but if all of a few are missing, the pattern is wrong.
constexpr std::uint64_t kLookedAt = 8;
constexpr const char* kTakesOff = "; {stem-ENDING} takes an ending off the image's name";

[[noreturn]] void refuse(const FieldOptions& field, std::string_view key, const std::string& problem) {
  throw ConfigError("fields." + field.name + (key.empty() ? "" : ".") + std::string(key) + ": " + problem);
}

// The default types are those that loss functions expect: classes are int64, as for PyTorch's cross
// entropy.
DType usual_type(FieldKind kind) {
  switch (kind) {
    case FieldKind::mask:
    case FieldKind::bytes: return DType::uint8;
    case FieldKind::class_number: return DType::int64;
    case FieldKind::image:
    case FieldKind::multilabel:
    case FieldKind::numbers:
    case FieldKind::boxes:
    case FieldKind::array: break;
  }
  return DType::float32;
}

// "{stem}" or "{stem-ENDING}" at the start of a pattern: the placeholder; "" if none is there.
std::string_view stem_placeholder(std::string_view pattern) {
  if (!pattern.starts_with("{stem}") && !pattern.starts_with("{stem-")) return {};
  const std::size_t end = pattern.find('}');
  return end == std::string_view::npos ? std::string_view{} : pattern.substr(0, end + 1);
}

// What it takes off the stem: "" for "{stem}".
std::string_view ending_of(std::string_view placeholder) {
  constexpr std::string_view kBegin = "{stem-";
  return placeholder.starts_with(kBegin) ? placeholder.substr(kBegin.size(), placeholder.size() - kBegin.size() - 1)
                                         : std::string_view{};
}

// The first {stem} or {stem-ENDING} of a pattern; "" if it has none.
std::string_view stem_in(std::string_view pattern) {
  for (std::size_t at = pattern.find("{stem"); at != std::string_view::npos; at = pattern.find("{stem", at + 1)) {
    if (const std::string_view placeholder = stem_placeholder(pattern.substr(at)); !placeholder.empty())
      return placeholder;
  }
  return {};
}

// {stem} says one file for each image. If images of one name in several folders share theirs, {folder} was probably
// forgotten. Sorting numbers takes 4 bytes for each image, and there may be 100 million.
void warn_of_shared_files(const FieldOptions& options, const std::vector<std::uint32_t>& file_of, IndexDraft& draft) {
  if (stem_in(options.from).empty() || options.from.find("{folder}") != std::string::npos) return;
  const auto& sources = draft.table.sources;
  std::vector<std::uint32_t> images;
  for (std::uint32_t image = 0; image < file_of.size(); ++image) {
    if (file_of[image] != kNotYet) images.push_back(image);
  }
  std::ranges::sort(images, {}, [&](std::uint32_t image) {
    return std::pair(std::string_view(sources[file_of[image]]), std::string_view(sources[image]));
  });
  std::uint64_t shared = 0;
  std::string first;
  for (std::size_t i = 1; i < images.size(); ++i) {
    const std::string_view file = sources[file_of[images[i]]];
    const std::string_view before = sources[images[i - 1]];
    const std::string_view image = sources[images[i]];
    if (file != sources[file_of[images[i - 1]]] || image == before) continue;  // a list may repeat an image
    if (shared++ == 0) first = printable(before) + " and " + printable(image) + " have " + printable(file);
  }
  if (shared == 0) return;
  draft.skipped.add_warning(draft.root, "fields." + options.name + ": no file of its own for " +
                                            counted(shared, "image") + ", as another has the same name: " + first +
                                            "; {folder} in `from` stands for the image's folder");
}

// Without its ending an image's name leads to no file.
void warn_of_other_stems(const FieldOptions& options, const std::vector<std::uint32_t>& file_of, IndexDraft& draft) {
  const std::string_view ending = ending_of(stem_in(options.from));
  if (ending.empty()) return;
  std::uint64_t others = 0;
  std::string first;
  for (std::uint32_t image = 0; image < file_of.size(); ++image) {
    if (file_of[image] == kNotYet || stem_of(draft.table.sources[image]).ends_with(ending)) continue;
    if (others++ == 0) first = printable(draft.table.sources[image]);
  }
  if (others == 0) return;
  draft.skipped.add_warning(draft.root, "fields." + options.name + ": " + counted(others, "image") +
                                            " will be bad: the name does not end in \"" + printable(ending) +
                                            "\", as {stem-...} says, the first: " + first);
}

// Throws if none of a few files of the pattern can be used, because a wrong pattern would make
// every sample bad.
void look_for_files(const FieldOptions& options, const IndexDraft& draft, const RecordTable::FieldColumn& column) {
  std::string first;
  const std::uint64_t samples = column.source.size();
  for (std::uint64_t look = 0; look < std::min(kLookedAt, samples); ++look) {
    const std::uint64_t sample = look * (samples / std::min(kLookedAt, samples));
    const std::string_view path = draft.table.sources[column.source[sample]];
    const std::string file = store::is_absolute(path) ? std::string(path) : join_path(draft.root, path);
    std::string problem = problem_of_source(file);
    if (problem.empty() && is_lfs_pointer(file)) problem = nature_of_file(file);
    if (problem.empty()) return;
    if (first.empty()) first.append(file).append(": ").append(problem);
  }
  if (!first.empty())
    refuse(options, "from",
           "\"" + options.from + "\" names no file that can be used; the first is " + first +
               (stem_in(options.from) == "{stem}" ? kTakesOff : ""));
}

// Samples that are objects of one image share the file beside it.
RecordTable::FieldColumn files_beside(const FieldOptions& options, IndexDraft& draft) {
  RecordTable& table = draft.table;
  RecordTable::FieldColumn column{.field = field_of(options)};
  if (!is_of_bytes(column.field.kind)) {
    refuse(options, "from",
           "a file beside each image is an image, a mask, an array or bytes, not a field of kind \"" +
               std::string(to_string(column.field.kind)) + "\"");
  }
  std::vector<std::uint32_t> file_of(table.sources.size(), kNotYet);  // by source number of the image
  column.source.reserve(table.source.size());
  for (const std::uint32_t image : table.source) {
    if (file_of[image] == kNotYet) {
      file_of[image] = table.add_source(path_beside(options.from, std::string(table.sources[image])));
    }
    column.source.push_back(file_of[image]);
  }
  look_for_files(options, draft, column);
  warn_of_shared_files(options, file_of, draft);
  warn_of_other_stems(options, file_of, draft);
  return column;
}

}  // namespace

// Refuses every key that is set although the kind does not use it, because it would silently have
// no effect.
Field field_of(const FieldOptions& options) {
  if (!options.kind) {
    refuse(options, "kind", "say what it is: image, mask, class, multilabel, numbers, boxes, array or bytes");
  }
  Field field{.name = options.name,
              .kind = *options.kind,
              .dtype = options.dtype.value_or(usual_type(*options.kind)),
              .classes = options.classes,
              .min_visible = 0};  // the value in indexes and packed files if there are no boxes
  const auto refuse_shape = [&] {
    if (!options.shape.empty()) refuse(options, "shape", "only arrays and numbers have one");
  };
  if (field.kind != FieldKind::image) {
    const FieldOptions plain;
    if (options.channels != 0) refuse(options, "channels", "only images have it");
    if (options.mean != plain.mean || options.std != plain.std)
      refuse(options, "mean", "only images have mean and std");
  }
  if (!options.colours.empty()) {
    if (field.kind != FieldKind::mask) refuse(options, "colours", "only masks have them");
    if (const std::string problem = ColourTable::problem_of(options.colours); !problem.empty())
      refuse(options, "colours", problem);
    field.colours = options.colours;
  }
  if (field.kind != FieldKind::boxes && options.min_visible != kMinVisible) {
    refuse(options, "min_visible", "only boxes have it");
  }
  if (!options.classes.empty() && (field.kind == FieldKind::image || field.kind == FieldKind::numbers ||
                                   field.kind == FieldKind::array || field.kind == FieldKind::bytes)) {
    refuse(options, "classes", "only classes, multilabels, boxes and masks have them");
  }
  const bool has_most = is_ragged(field.kind);
  if (has_most != (options.most > 0)) {
    refuse(options, "most", has_most ? "say how many a sample has at most" : "only boxes and bytes have it");
  }
  switch (field.kind) {
    case FieldKind::image:
      refuse_shape();
      if (options.channels == 2) refuse(options, "channels", "a picture has 1 or 3");
      if (field.dtype > DType::uint8) refuse(options, "dtype", "a picture is float32, float16, bfloat16 or uint8");
      field.shape = {options.channels == 0 ? 3 : options.channels};
      field.mean = options.mean;
      field.std = options.std;
      return field;
    case FieldKind::boxes:
      field.shape = {options.most, 4};
      field.min_visible = options.min_visible;
      break;
    case FieldKind::bytes: field.shape = {options.most}; break;
    case FieldKind::multilabel:
      if (!options.classes.empty()) field.shape = {static_cast<std::int64_t>(options.classes.size())};
      break;
    case FieldKind::array:
      if (options.shape.empty()) refuse(options, "shape", "say the extents of one sample");
      [[fallthrough]];
    case FieldKind::numbers:
      for (const std::int64_t extent : options.shape) field.shape.push_back(extent);
      return field;
    case FieldKind::class_number:
      if (field.dtype != DType::int32 && field.dtype != DType::int64) {
        refuse(options, "dtype", "a class is int32 or int64");
      }
      break;
    case FieldKind::mask: break;
  }
  refuse_shape();
  return field;
}

bool is_pattern(std::string_view from) noexcept {
  return !stem_in(from).empty() || from.find("{folder}") != std::string_view::npos;
}

bool is_of_bytes(FieldKind kind) noexcept {
  return kind == FieldKind::image || kind == FieldKind::mask || kind == FieldKind::array || kind == FieldKind::bytes;
}

bool is_image_or_label(std::string_view name) noexcept { return name == "image" || name == "label"; }

const std::string& place_of(const FieldOptions& options) noexcept {
  return options.from.empty() ? options.name : options.from;
}

const FieldOptions* find_field(const DatasetOptions& options, std::string_view name) noexcept {
  const auto found = std::ranges::find(options.fields, name, &FieldOptions::name);
  return found == options.fields.end() ? nullptr : &*found;
}

// A file beside an image needs an image that is a file: records of containers have none.
void complete_fields(const DatasetOptions& options, std::string_view format, IndexDraft& draft) {
  std::vector<RecordTable::FieldColumn> built = std::move(draft.table.fields);
  draft.table.fields.clear();
  const auto choices = [&] {
    return draft.table.field_names.empty() ? std::string(
                                                 "; give a pattern of files beside the images, such as "
                                                 "from = \"masks/{stem}.png\"")
                                           : "; it has \"" + joined(draft.table.field_names, "\", \"") + "\"";
  };
  for (const FieldOptions& wanted : options.fields) {
    const auto filled = std::ranges::find(built, wanted.name, [](const auto& column) { return column.field.name; });
    if (is_image_or_label(wanted.name)) {
      if (!find_format(format)->chooses_image) {
        refuse(wanted, "",
               "the format \"" + std::string(format) + "\" has one " + wanted.name +
                   " for each sample; leave this section out");
      }
    } else if (filled != built.end()) {
      draft.table.fields.push_back(std::move(*filled));
    } else if (is_pattern(wanted.from) && draft.table.record.empty()) {
      draft.table.fields.push_back(files_beside(wanted, draft));
    } else {
      refuse(wanted, "from",
             "the format \"" + std::string(format) + "\" has no \"" + place_of(wanted) + "\"" + choices());
    }
  }
}

std::string path_beside(std::string_view pattern, std::string_view image) {
  std::string path;
  while (!pattern.empty()) {
    if (const std::string_view placeholder = stem_placeholder(pattern); !placeholder.empty()) {
      // Without the ending the placeholder stays: no file has that name, so the sample is bad and says why.
      const std::string_view stem = stem_of(image);
      const std::string_view ending = ending_of(placeholder);
      path += stem.ends_with(ending) ? stem.substr(0, stem.size() - ending.size()) : placeholder;
      pattern.remove_prefix(placeholder.size());
    } else if (pattern.starts_with("{folder}")) {
      const std::string_view folder = parent_folder(image);
      path += folder;
      pattern.remove_prefix(8);
      // "{folder}/x" for an image in the root is "x", not "/x".
      if (folder.empty() && !image.starts_with('/') && pattern.starts_with('/')) pattern.remove_prefix(1);
    } else {
      path += pattern.front();
      pattern.remove_prefix(1);
    }
  }
  return path;
}

// Paths are normalized, because patterns may contain "..". An image that is its own field stays.
void leave_out_fields(const std::vector<FieldOptions>& fields, Scan& scan) {
  std::set<std::string> beside;
  for (const FieldOptions& field : fields) {
    if (is_image_or_label(field.name) || !is_pattern(field.from)) continue;
    for (const auto image : scan.images) {
      std::string path = std::filesystem::path(path_beside(field.from, image)).lexically_normal().string();
      if (path != image) beside.insert(std::move(path));
    }
  }
  if (beside.empty()) return;
  PathList images;
  for (const auto image : scan.images) {
    if (!beside.contains(std::string(image))) {
      images.add(image);
      continue;
    }
    scan.unusable.push_back({.path = std::string(image), .reason = "a field of another image", .bad = false});
  }
  scan.images = std::move(images);
}

// Part of a saved index's origin, so every option that affects the index must be in it.
std::vector<std::string> describe_fields(const std::vector<FieldOptions>& fields) {
  std::vector<std::string> lines;
  for (const FieldOptions& field : fields) {
    std::string line = field.name + " from " + place_of(field);
    if (field.kind) line.append(", ").append(to_string(*field.kind));
    if (field.dtype) line.append(" of ").append(to_string(*field.dtype));
    for (const std::int64_t extent : field.shape) line += ", " + std::to_string(extent);
    line += "; most " + std::to_string(field.most) + ", visible " + shortest(field.min_visible);
    for (const std::string& name : field.classes) line += ", " + name;
    for (const std::string& colour : field.colours) line += "; colour " + colour;
    if (field.kind == FieldKind::image) {
      line += "; channels " + std::to_string(field.channels);
      for (std::size_t i = 0; i < 3; ++i) line += ", " + shortest(field.mean[i]) + ", " + shortest(field.std[i]);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace forebay::data
