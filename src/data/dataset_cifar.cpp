#include <algorithm>
#include <forebay/error.hpp>

#include "base/retry.hpp"
#include "base/text.hpp"
#include "build.hpp"
#include "file_nature.hpp"
#include "formats.hpp"
#include "store/files.hpp"

// The binary versions of CIFAR-10 and CIFAR-100: files of records, each of one label byte
// (CIFAR-100: a coarse and a fine label) and 32 x 32 pixels, first all red values, then green, then
// blue. The layouts are those of https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version".
namespace forebay::data {
namespace {

// The files that are read, and their layout.
struct CifarFiles {
  static constexpr std::uint32_t kPixelBytes = 32 * 32 * 3;
  static constexpr std::string_view kFineNames = "fine_label_names.txt";

  std::string folder;
  std::vector<std::string> names = {};  // in the folder
  bool is_hundred = false;

  [[nodiscard]] std::uint32_t label_bytes() const noexcept { return is_hundred ? 2 : 1; }  // the last label is served
  [[nodiscard]] std::uint32_t record_bytes() const noexcept { return label_bytes() + kPixelBytes; }
  [[nodiscard]] std::string class_list() const {
    return join_path(folder, is_hundred ? kFineNames : "batches.meta.txt");
  }
};

// A folder's training set, or its test set if that is all there is; no names if there is neither.
CifarFiles cifar_folder(PathContents& contents) {
  const auto& others = contents.listing().others;
  const auto has = [&](std::string_view name) { return std::ranges::find(others, name) != others.end(); };
  CifarFiles files{.folder = contents.root(), .is_hundred = has(CifarFiles::kFineNames)};
  for (const auto name : others) {
    const bool is_batch = name.starts_with("data_batch_") && name.ends_with(".bin");
    if (files.is_hundred ? name == "train.bin" : is_batch) files.names.emplace_back(name);
  }
  const std::string_view test = files.is_hundred ? "test.bin" : "test_batch.bin";
  if (files.names.empty() && has(test)) files.names.emplace_back(test);
  return files;
}

// A single file is CIFAR-100 if that dataset's class list is beside it, or if its size is a
// multiple of CIFAR-100's record size (3074 bytes) but not of CIFAR-10's (3073).
CifarFiles cifar_file(PathContents& contents) {
  const auto [folder, name] = place_in_parent(contents.root());
  const CifarFiles ten{.folder = folder, .names = {name}};
  const CifarFiles hundred{.folder = folder, .names = {name}, .is_hundred = true};
  const bool has_names = store::problem_of_file(hundred.class_list()).empty();
  const bool fits_no_other = contents.size() % hundred.record_bytes() == 0 && contents.size() % ten.record_bytes() != 0;
  return has_names || fits_no_other ? hundred : ten;
}

bool is_cifar(PathContents& contents) {
  if (contents.is_folder()) return !cifar_folder(contents).names.empty();
  if (!contents.root().ends_with(".bin") || contents.size() == 0) return false;
  return contents.size() % cifar_file(contents).record_bytes() == 0;
}

// A list that is shorter than the number of classes is extended by numbers, so that every label has
// a name.
std::vector<std::string> cifar_classes(const DatasetOptions& options, const CifarFiles& files) {
  if (!options.classes.empty()) return ClassList(options.classes, {}).names();
  std::vector<std::string> names;
  if (store::problem_of_file(files.class_list()).empty()) {
    names = store::lines_of_file(files.class_list(), std::size_t{64} << 10U);
  }
  while (names.size() < (files.is_hundred ? 100 : 10)) names.push_back(std::to_string(names.size()));
  return names;
}

// One small read per label, mostly from the page cache. The label is the byte before the pixels, in
// CIFAR-100 the fine label.
void add_cifar_file(const CifarFiles& files, const std::string& name, RecordTable& table, SkipLog& skipped) {
  const std::string path = join_path(files.folder, name);
  refuse_foreign(path);
  const OpenFile file = store::open_patiently(path);
  const std::uint32_t source = table.add_source(name, file);
  const std::uint64_t length = files.record_bytes();
  for (std::uint64_t i = 0; i < file.size / length; ++i) {
    std::uint8_t label = 0;
    const std::uint64_t pixels = i * length + files.label_bytes();
    read_at_patiently(file, pixels - 1, std::as_writable_bytes(std::span(&label, 1)));
    if (label >= table.classes.size()) {
      skipped.add_bad(path + "[record " + std::to_string(i) + "]",
                      "label " + std::to_string(label) + " of " + std::to_string(table.classes.size()) + " classes");
      continue;
    }
    table.add(source, label);
    table.record.push_back({pixels, CifarFiles::kPixelBytes, static_cast<std::uint32_t>(i)});
  }
  if (file.size % length != 0) skipped.add_bad(path, "byte " + std::to_string(file.size) + ": it ends within a record");
}

CifarFiles files_of(PathContents& contents) {
  return contents.is_folder() ? cifar_folder(contents) : cifar_file(contents);
}

// Covers what the index holds: the names of the files, and the names of the classes.
std::uint64_t hash_cifar(const DatasetOptions& options) {
  const BuildContext context{.options = options, .progress = {}, .threads = 1};
  PathContents contents(context);
  const CifarFiles files = files_of(contents);
  std::uint64_t hash = 0;
  for (const std::string& name : files.names) hash = hash_name(name, hash);
  const bool has_names = options.classes.empty() && store::problem_of_file(files.class_list()).empty();
  return has_names ? hash_file(files.class_list(), "dataset.path", hash) : hash;
}

IndexDraft build_cifar(PathContents& contents) {
  const CifarFiles files = files_of(contents);
  IndexDraft draft;
  draft.root = files.folder;
  draft.table.classes = cifar_classes(contents.options(), files);
  draft.table.kinds = {{.encoding = Encoding::raw, .width = 32, .height = 32, .channels = 3, .planar = true}};
  for (const std::string& name : files.names) {
    naming_path(contents.options(), name, [&] { add_cifar_file(files, name, draft.table, draft.skipped); });
  }
  const std::uint64_t images = draft.counts.images = draft.table.source.size();
  if (const auto& progress = contents.context().progress) progress(images, images);
  if (images > 0) return draft;
  throw path_error(contents.options(),
                   "no record of CIFAR in data_batch_1.bin, train.bin or the like" + draft.skipped.first_bad());
}

}  // namespace

const Format formats::cifar{.needs = "a .bin file of CIFAR",
                            .detect = is_cifar,
                            .build = build_cifar,
                            .hash = hash_cifar,
                            .hashed = "the CIFAR files"};

}  // namespace forebay::data
