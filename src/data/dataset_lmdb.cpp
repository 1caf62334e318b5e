// LMDB environments: Caffe's, whose values are Datums, Caffe2's, whose values are TensorProtos, and
// others, whose values are image files. Datums and TensorProtos are Protocol Buffers messages,
// which wire_format.cpp reads without the library.
//
// The file is read without LMDB's library (docs/decisions/0013). On the calling thread, open_lmdb
// walks the branch pages of the tree and lists its leaf pages. Then threads take groups of leaves,
// and read keys and the beginnings of values into one ShardDraft per group. merge_shards puts these
// together in the order of keys. Samples are later read from the file like any record, without the
// tree.
//
// A damaged page loses its own entries, and those of pages to which only it leads.

#include <algorithm>
#include <filesystem>
#include <forebay/error.hpp>

#include "base/retry.hpp"
#include "file_nature.hpp"
#include "formats.hpp"
#include "lmdb_tree.hpp"
#include "parallel.hpp"
#include "shards.hpp"
#include "store/files.hpp"
#include "wire_format.hpp"

namespace forebay::data {
namespace {

using ValueWire = WireField::Type;

constexpr std::string_view kLmdbData = "data.mdb";

// Whether an entry describes others: "__len__", "__keys__" and the like, and the counts and texts
// of scene text datasets, "num-samples" and "label-000000001".
bool is_about_others(std::string_view key) {
  constexpr std::string_view kLabel = "label-";
  const std::string underscores(2, '_');
  const bool is_meta = key.size() > 4 && key.starts_with(underscores) && key.ends_with(underscores);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool is_label = key.starts_with(kLabel) && key.size() == kLabel.size() + 9 &&
                        std::ranges::all_of(key.substr(kLabel.size()), is_digit);
  return is_meta || key == "num-samples" || is_label;
}

// caffe.Datum: raw pixels, all blue ones first, or an encoded image.
struct Datum {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::optional<Extent> data;
  FoundLabel label;
  bool has_floats = false;
  bool is_encoded = false;
};

// Fields of caffe.proto: channels 1, height 2, width 3, data 4, label 5, float_data 6, encoded 7.
// If a field occurs more than once, the last value counts, as Protocol Buffers require.
Datum read_datum(ContainerBytes& bytes, const Extent& value) {
  Datum datum;
  WireReader reader(bytes, value);
  for (WireField field; reader.next(field);) {
    const auto number = static_cast<std::int64_t>(field.value);
    if (field.is(1, ValueWire::varint)) datum.channels = number;
    if (field.is(2, ValueWire::varint)) datum.height = number;
    if (field.is(3, ValueWire::varint)) datum.width = number;
    if (field.is(4, ValueWire::bytes)) datum.data = field.extent;
    if (field.is(5, ValueWire::varint)) datum.label = FoundLabel::of(number);
    if (field.number == 6) datum.has_floats = true;
    if (field.is(7, ValueWire::varint)) datum.is_encoded = field.value != 0;
  }
  return datum;
}

// Encoded images are recognised by their first bytes, whatever the message says, because "encoded"
// is often not set.
bool is_picture(ContainerBytes& bytes, const Extent& value) {
  constexpr std::uint64_t kMagic = 16;
  return starts_as_picture(bytes.at(value.offset, static_cast<std::size_t>(std::min(value.length, kMagic))));
}

// Caffe stores one channel after the other, blue first, as OpenCV decodes them.
FoundSample sample_of_datum(ContainerBytes& bytes, const Datum& datum) {
  FoundSample sample{.image = *datum.data};
  sample.label = datum.label;
  if (datum.is_encoded || is_picture(bytes, *datum.data)) return sample;
  const auto kind = raw_kind(datum.height, datum.width, datum.channels, datum.data->length);
  if (!kind) {
    throw SampleError("has " + std::to_string(datum.data->length) + " bytes for " + std::to_string(datum.channels) +
                      " channels of " + std::to_string(datum.height) + " x " + std::to_string(datum.width) + " pixels");
  }
  sample.kind = *kind;
  sample.kind.planar = kind->channels == 3;
  sample.kind.bgr = kind->channels == 3;
  return sample;
}

// caffe2.TensorProtos: an image in string_data (6) or byte_data (5), a class in int32_data (4; 5 in some) or int64_data
// (10), packed or not.
FoundSample sample_of_tensors(ContainerBytes& bytes, const Extent& value) {
  FoundSample sample;
  WireReader reader(bytes, value);
  for (WireField tensor; reader.next(tensor);) {
    if (!tensor.is(1, ValueWire::bytes)) continue;
    WireReader fields(bytes, tensor.extent);
    for (WireField field; fields.next(field);) {
      const bool is_text = field.is(6, ValueWire::bytes) || field.is(5, ValueWire::bytes);
      if (is_text && sample.image.length == 0) sample.image = field.extent;
      const bool is_number = field.number == 4 || field.number == 5 || field.number == 10;
      if (is_number && field.type == ValueWire::varint) {
        sample.label = FoundLabel::of(static_cast<std::int64_t>(field.value));
      }
      if (field.number == 5 || !is_number || field.type != ValueWire::bytes) continue;
      WireReader packed(bytes, field.extent);
      std::vector<std::int64_t> numbers;
      for (std::uint64_t number = 0; numbers.size() < kMostOneHot && packed.next_varint(number);) {
        numbers.push_back(static_cast<std::int64_t>(number));
      }
      if (!numbers.empty()) sample.label = label_of_list(numbers);
    }
  }
  if (sample.image.length == 0 || !is_picture(bytes, sample.image)) throw SampleError("no image");
  return sample;
}

// Tries an image file first, because its bytes could by chance be a message. A message with neither
// data nor floats is tried as Caffe2's.
FoundSample sample_of_value(ContainerBytes& bytes, const Extent& value) {
  if (value.length == 0) throw SampleError("has no bytes");
  if (is_picture(bytes, value)) return {.image = value};
  std::optional<Datum> datum;
  try {
    datum = read_datum(bytes, value);
    if (!datum->data && !datum->has_floats) return sample_of_tensors(bytes, value);
  } catch (const SampleError& error) {
    if (error.is_transient()) throw;
    throw SampleError("is neither an image file nor a Datum of Caffe");
  }
  if (datum->data && datum->data->length > 0) return sample_of_datum(bytes, *datum);
  throw SampleError(datum->has_floats ? "a Datum of floating-point numbers, where bytes are read"
                                      : "a Datum without data");
}

// A data file and its leaf pages.
struct LmdbFile {
  std::string path;
  RecordTable::Stamp stamp;
  OpenFile file;
  std::vector<std::uint64_t> leaves;
  std::vector<std::uint32_t> first_entries;  // by leaf: the number of its first entry
  std::uint64_t entries = 0;
  std::vector<std::string> problems;
};

// Counts the entries before each leaf, so that record numbers do not depend on how leaves are
// grouped.
LmdbFile open_lmdb(PathContents& contents, const std::string& path) {
  LmdbFile lmdb{.path = path, .stamp = {}, .file = {}, .leaves = {}, .first_entries = {}, .entries = 0, .problems = {}};
  naming_path(contents.options(), path == contents.root() ? "" : path, [&] {
    refuse_foreign(path);
    lmdb.file = store::open_patiently(path);
    lmdb.stamp = RecordTable::stamp_of(lmdb.file);
    ContainerBytes bytes(lmdb.file);
    LmdbTree tree(bytes);
    tree.enter_database();
    const auto leaves = tree.leaves([&](const SampleError& error) { lmdb.problems.emplace_back(error.what()); });
    for (const std::uint64_t leaf : leaves) {
      lmdb.leaves.push_back(leaf);
      lmdb.first_entries.push_back(static_cast<std::uint32_t>(lmdb.entries));
      lmdb.entries += tree.entries(leaf);
      if (lmdb.entries > std::numeric_limits<std::int32_t>::max()) throw SampleError("has more than 2^31 entries");
    }
  });
  return lmdb;
}

// A group of leaf pages, read by one thread.
struct LmdbPart {
  const LmdbFile* lmdb = nullptr;
  std::size_t begin = 0;
  std::size_t end = 0;
};
// Chosen: a thread takes some thousand entries at a time.
constexpr std::size_t kLeavesAtOnce = 64;

// Uses two windows on one file, because values lie far from the leaves and one window would move
// back and forth. Problems of the file are reported once, with its first part.
ShardDraft read_lmdb_part(PathContents& contents, const LmdbPart& part, ShardDraft::Progress& progress) {
  const LmdbFile& lmdb = *part.lmdb;
  ShardDraft draft(lmdb.path, lmdb.stamp, progress, lmdb.leaves.empty() ? 0 : lmdb.first_entries[part.begin]);
  if (part.begin == 0) {
    for (const std::string& problem : lmdb.problems) draft.add_bad_file(problem + "; the entries after it are lost");
  }
  ContainerBytes tree_bytes(lmdb.file);
  ContainerBytes value_bytes(lmdb.file);
  LmdbTree tree(tree_bytes);
  std::uint64_t about_others = 0;
  for (std::size_t leaf = part.begin; leaf < part.end; ++leaf) {
    const std::size_t entries = tree.entries(lmdb.leaves[leaf]);
    for (std::size_t i = 0; i < entries; ++i) {
      draft.begin(tree.place(lmdb.leaves[leaf]));
      try {
        const std::string key = tree.key(lmdb.leaves[leaf], i);
        draft.call(key);
        const LmdbEntry entry = tree.entry(lmdb.leaves[leaf], i);
        if (entry.is_database || is_about_others(key)) {
          ++about_others;
          continue;
        }
        draft.add(value_bytes, sample_of_value(value_bytes, entry.value));
      } catch (const SampleError& error) {
        if (error.is_transient()) throw path_error(contents.options(), lmdb.path + ": " + error.what());
        draft.add_bad(error.what());
      }
    }
  }
  if (about_others > 0) draft.add_note(std::to_string(about_others) + " entries that are about others");
  return draft;
}

std::vector<std::string> lmdb_files(PathContents& contents) {
  if (!contents.is_folder()) return contents.files();
  return {join_path(contents.root(), kLmdbData)};
}

bool is_lmdb(PathContents& contents) {
  if (!contents.is_folder()) return starts_as_lmdb(contents.head()) || base_name(contents.files().front()) == kLmdbData;
  return is_folder_of_shards(contents, [](std::string_view name) { return name == kLmdbData; });
}

// A file without leaves still has one part, which reports it.
IndexDraft build_lmdb(PathContents& contents) {
  std::vector<LmdbFile> files;
  std::uint64_t entries = 0;
  for (const std::string& path : lmdb_files(contents)) {
    files.push_back(open_lmdb(contents, path));
    entries += files.back().entries;
  }
  std::vector<LmdbPart> parts;
  for (const LmdbFile& lmdb : files) {
    for (std::size_t begin = 0; begin == 0 || begin < lmdb.leaves.size(); begin += kLeavesAtOnce) {
      parts.push_back({.lmdb = &lmdb, .begin = begin, .end = std::min(begin + kLeavesAtOnce, lmdb.leaves.size())});
    }
  }
  ShardDraft::Progress progress;
  std::vector<std::optional<ShardDraft>> read(parts.size());
  const auto report = [&](std::uint64_t, std::uint64_t) {
    if (const auto& tell = contents.context().progress)
      tell(progress.records, std::max(entries, progress.records.load()));
  };
  run_parallel({parts.size(), contents.context().threads, report},
               [&](std::size_t i) { read[i] = read_lmdb_part(contents, parts[i], progress); });
  std::vector<ShardDraft> drafts;
  drafts.reserve(read.size());
  for (auto& draft : read) drafts.push_back(*std::move(draft));
  return merge_shards(contents, drafts, {}, "no entry with an image in an LMDB environment");
}

}  // namespace

const Format formats::lmdb{
    .needs = "an LMDB environment", .detect = is_lmdb, .build = build_lmdb, .takes_patterns = true};

}  // namespace forebay::data
