#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.hpp"
#include "index_image.hpp"
#include "video/clip.hpp"

namespace forebay::data {

// Many strings, concatenated in one allocation. They may contain any bytes.
class StringTable {
 public:
  void reserve(std::size_t count, std::size_t bytes);
  void add(std::string_view text);
  [[nodiscard]] std::size_t size() const noexcept { return ends_.size(); }
  // REQUIRES: i < size().
  [[nodiscard]] std::string_view operator[](std::size_t i) const noexcept;

  // The end of each within the bytes, and the bytes.
  [[nodiscard]] const std::vector<std::uint64_t>& ends() const noexcept { return ends_; }
  [[nodiscard]] const std::vector<char>& bytes() const noexcept { return bytes_; }

 private:
  std::vector<std::uint64_t> ends_;
  std::vector<char> bytes_;
};

// The table that every format fills to build its index: for each sample where its bytes are, what they are, and what is
// known without reading them. A sample is a source file, a region of one, or a record: a run of bytes in one.
struct RecordTable {
  struct Region {
    Box box;
    std::uint32_t object = 0;  // number of the <object> in its annotation, from 1
    std::uint32_t flags = 0;   // kDifficult | kTruncated
  };
  static constexpr std::uint32_t kDifficult = 1;
  static constexpr std::uint32_t kTruncated = 2;
  struct Record {
    std::uint64_t offset = 0;  // in its source, or in `held`
    std::uint32_t length = 0;  // at most kLargestSampleFile
    std::uint32_t number = 0;  // in its source, from 0; for names
    // For a checked kind: bytes before and after it that the checksum also covers. At most kLargestSampleFile.
    std::uint32_t before = 0;
    std::uint32_t after = 0;
  };
  // How the bytes of a sample are to be read. The members have the same meaning as in Sample (object_samples.hpp).
  struct Kind {
    Encoding encoding = Encoding::image;
    std::int32_t width = 0;
    std::int32_t height = 0;
    std::int32_t channels = 0;
    bool planar = false;
    bool bgr = false;
    // The masked CRC-32C of the record and the bytes around it follows them.
    bool checked = false;
    // NOLINTNEXTLINE(modernize-use-nullptr): what the compiler makes of it compares with 0
    friend auto operator<=>(const Kind&, const Kind&) = default;
  };
  static constexpr std::size_t kMostKinds = 65536;
  // The frames of its source, a video, that a clip may show: [first, first + frames). If they are too few for one, it
  // begins with the first.
  struct Clip {
    std::uint64_t first = 0;
    std::uint64_t frames = 1;  // at most kLargestSampleFile
  };
  // Identifies a source of records or a video when it is opened.
  struct Stamp {
    std::uint64_t bytes = 0;    // its size
    std::uint64_t sum = 0;      // checksum of its first 8 KiB
    std::uint64_t spread = 0;   // checksum of blocks spread over it, or of all of a small file; 0: not compared
    std::int64_t modified = 0;  // in nanoseconds; 0 if unknown or too recent to tell writes apart; for an object, the
                                // bits of its identity in its store
    bool is_held = false;       // its records are in `held`: the file is compared, not read
  };

  // The stamp of a file. Throws SampleError if it cannot be read.
  [[nodiscard]] static Stamp stamp_of(const OpenFile& file);
  // The modification time, as in a stamp. Throws SampleError.
  [[nodiscard]] static std::int64_t modified_of(const OpenFile& file);
  // Whether the file is still the one that the stamp was taken from. Its blocks are read only if its modification time
  // differs: a copy of a dataset is as good as the original. Throws SampleError if it cannot be read.
  [[nodiscard]] static bool is_still(const OpenFile& file, const Stamp& stamp);

  // One field of all samples. Either values held by the index itself: the bytes that Dataset::read_field() returns
  // (elements in field.dtype, LabelledBox for boxes, a MaskDrawing), appended sample by sample with add_values(). Or
  // bytes in a file, for masks, arrays, bytes and whatever else a container has: a source per sample, and a record in
  // it unless it is the whole file. `field` is field_of() of the options.
  struct FieldColumn {
    static constexpr std::uint32_t kMissing = UINT32_MAX;  // as source: the field is missing, so the sample is bad

    Field field;
    std::vector<std::byte> values = {};
    std::vector<std::uint64_t> ends = {};    // by sample: where its values end
    std::vector<std::uint32_t> source = {};  // by sample: into `sources`, or kMissing
    std::vector<Record> record = {};         // by sample; empty: the field is the whole file

    [[nodiscard]] bool has_values() const noexcept { return source.empty(); }
    void add_values(std::span<const std::byte> sample) {
      values.insert(values.end(), sample.begin(), sample.end());
      ends.push_back(values.size());
    }
  };

  std::vector<std::string> classes;
  std::vector<Kind> kinds{Kind{}};
  StringTable sources;  // paths, below the index's root or absolute
  // By source, for those with records and for videos; one without bytes is held and never compared.
  std::vector<Stamp> stamps;
  // By source, the result of index_video(); "" if it is not a video. For all sources, or for none.
  StringTable videos;
  video::ClipRule rule{.frames = 0};  // the same for all clips
  bool are_windows = false;           // a video may have several
  // Columns, one entry per sample.
  std::vector<std::uint32_t> source;  // into `sources`
  std::vector<std::int32_t> label;    // into `classes`, or -1
  std::vector<std::uint16_t> kind;    // into `kinds`; empty: all are the first
  std::vector<Region> region;         // empty unless samples are regions
  std::vector<Record> record;         // empty unless samples are records
  std::vector<Clip> clip;             // empty unless samples are clips
  StringTable keys;                   // names of the records in their container; empty if it does not name them
  std::vector<FieldColumn> fields;    // besides image and label, in any order
  // Names that a field could come from, for messages: columns of a table, features of an Example. Empty if the format
  // has no fields of its own.
  std::vector<std::string> field_names;
  // The bytes of records whose files are compressed.
  std::vector<std::byte> held;

  // Adds a file and returns its number. Throws Error at the 2^32nd.
  std::uint32_t add_source(std::string_view path);
  // The same for a file of records; without a stamp, one whose records are held.
  std::uint32_t add_source(std::string_view path, const Stamp& stamp);
  // The same. Throws SampleError if it cannot be read.
  std::uint32_t add_source(std::string_view path, const OpenFile& file) { return add_source(path, stamp_of(file)); }
  // Adds a sample; its region or record, if it has one, is added separately.
  void add(std::uint32_t from, std::int32_t class_number) {
    source.push_back(from);
    label.push_back(class_number);
  }
};

// The name of a record in messages: "x.tar[record 5]", or "x.tar[record 5, n01/a]" if it has a key.
[[nodiscard]] std::string record_name(std::string_view path, std::uint64_t number, std::string_view key);

// The original name of a sample in a packed dataset, as given by SampleNames; nothing for other datasets. REQUIRES: id
// < size(). Any thread.
[[nodiscard]] std::optional<std::string> original_name(const Dataset& dataset, std::uint64_t id);

// Makes a dataset of a table. A sample of a folder tree takes 5 or 6 bytes besides its path; one in an idx file, or
// another file of equal records, takes 1 or 2. `state` is a serialized DataState.
[[nodiscard]] std::unique_ptr<Dataset> make_dataset(IndexRecord record, RecordTable table,
                                                    std::span<const std::byte> state = {});

}  // namespace forebay::data
