#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "build.hpp"
#include "container_bytes.hpp"
#include "record_table.hpp"
#include "sample_fields.hpp"

namespace forebay {

// What a container says of a sample's class.
struct FoundLabel {
  enum class Kind : std::uint8_t {
    absent,      // nothing, which is an error where other samples have a class
    unlabelled,  // that it has none, or not one: a negative number, an empty list, several numbers
    number,
    text,
  };

  Kind kind = Kind::absent;
  std::int64_t number = 0;
  std::string text = {};

  // A negative number means none.
  [[nodiscard]] static FoundLabel of(std::int64_t number) {
    return {.kind = number < 0 ? Kind::unlabelled : Kind::number, .number = number};
  }
  [[nodiscard]] static FoundLabel none() { return {.kind = Kind::unlabelled}; }
  [[nodiscard]] static FoundLabel named(std::string text) { return {.kind = Kind::text, .text = std::move(text)}; }
};
// A class as text files and JSON give it: a whole number, else a name. Throws SampleError for neither.
[[nodiscard]] FoundLabel label_of_text(std::string_view text);
// A class as a floating-point number, which must be whole to be one.
[[nodiscard]] FoundLabel label_of_float(float number);

// Names of classes that are longer are none.
inline constexpr std::size_t kLongestClassName = 256;

// The kind of raw pixels of this shape, channels interleaved; nothing when the shape is none or has not so many bytes.
[[nodiscard]] std::optional<RecordTable::Kind> raw_kind(std::int64_t height, std::int64_t width, std::int64_t channels,
                                                        std::uint64_t bytes);

// A sample that a container holds.
struct FoundSample {
  Extent image = {};
  RecordTable::Kind kind = {};
  FoundLabel label = {};
  std::string_view class_name = {};  // of its class number, where the container says
  // The bytes whose masked CRC-32C stands right behind them, the image among them; none where there is no checksum.
  Extent checked = {};
  // By wanted field: its elements, or where its bytes are.
  struct InField {
    std::vector<std::byte> elements = {};
    Extent bytes = {};
  };
  std::vector<InField> fields = {};
};
// The fields of a sample, of what value_of(wanted) says of each. Throws SampleError that names the field.
template <typename ValueOf>
[[nodiscard]] std::vector<FoundSample::InField> fields_of_sample(const WantedFields& wanted, ValueOf&& value_of) {
  std::vector<FoundSample::InField> fields;
  for (const WantedFields::Wanted& each : wanted.fields) {
    try {
      const FieldValue value = value_of(each);
      FoundSample::InField& field = fields.emplace_back();
      if (!each.is_bytes()) {
        field.elements = elements_of(each, value);
      } else if (value.bytes && value.bytes->length <= kLargestSampleFile) {
        field.bytes = *value.bytes;
      } else {
        throw SampleError(value.bytes ? "has more than the 1 GiB that it may have" : "has numbers, no bytes");
      }
    } catch (const SampleError& error) {
      if (error.is_transient()) throw;
      throw SampleError("field \"" + each.field.name + "\" " + error.what());
    }
  }
  return fields;
}

// What is found in one file of a container, or in a part of it, in order. Not for several threads.
class ShardDraft {
 public:
  // What all threads have looked at together.
  struct Progress {
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> records{0};
  };

  // Its records are numbered from `first`.
  ShardDraft(std::string path, const RecordTable::Stamp& stamp, Progress& progress, std::uint32_t first = 0)
      : path_(std::move(path)), stamp_(stamp), progress_(&progress), next_(first) {}

  // What samples must have beside image and label; before the first of them.
  void want(const WantedFields& wanted) {
    wanted_ = &wanted;
    fields_.resize(wanted.fields.size());
  }
  // REQUIRES: want() has been called.
  [[nodiscard]] const WantedFields& wanted() const noexcept { return *wanted_; }

  // The next record begins at this place. It has a number, whether it can be used or not.
  void begin(std::uint64_t offset, std::string_view key = {});
  // What the container calls the record.
  void call(std::string_view key) { key_ = key; }
  // The file has been looked at up to there.
  void reach(std::uint64_t offset);
  // The sample of the record. What lies in memory only is kept for the index. Throws SampleError when its image has no
  // bytes or too many, or lies in memory and fails its checksum.
  void add(ContainerBytes& bytes, const FoundSample& sample);
  // The record cannot be used. The reason begins with the byte where that stands, at least that of the record. Of the
  // first ten thousand each is kept, others are counted.
  void add_bad(std::string reason);
  // Something is wrong with the file itself, or worth saying.
  void add_bad_file(std::string reason) { skipped_.add_bad(path_, std::move(reason)); }
  void add_note(std::string reason) { skipped_.add_note(path_, std::move(reason)); }

 private:
  friend class ShardMerger;

  // Of a record without a class number: what there is instead. A text is kTexts less its place among `texts_`.
  static constexpr std::int64_t kUnlabelled = -1;
  static constexpr std::int64_t kAbsent = -2;
  static constexpr std::int64_t kTexts = -3;

  // Says how many more records are bad than were kept.
  void add_uncounted();
  [[nodiscard]] std::uint32_t number() const noexcept { return next_ - 1; }
  [[nodiscard]] std::uint16_t kind_number(const RecordTable::Kind& kind);
  [[nodiscard]] std::int64_t label_number(const FoundLabel& label);

  std::string path_;
  RecordTable::Stamp stamp_;
  Progress* progress_;
  std::uint32_t next_;
  std::uint64_t begins_ = 0;  // the record at hand
  std::uint64_t bad_ = 0;
  std::uint64_t reached_ = 0;
  std::string key_;
  // By sample.
  std::vector<RecordTable::Record> records_;
  std::vector<std::uint16_t> kinds_;
  std::vector<std::int64_t> labels_;
  std::vector<bool> are_held_;
  StringTable keys_;

  // The same for each field: elements, or places.
  struct InFields {
    std::vector<std::byte> values;
    std::vector<std::uint64_t> ends;
    std::vector<RecordTable::Record> records;
  };
  const WantedFields* wanted_ = nullptr;
  std::vector<InFields> fields_;

  std::vector<RecordTable::Kind> kind_list_;
  std::map<RecordTable::Kind, std::uint16_t> kind_numbers_;
  std::vector<std::string> texts_;
  std::map<std::string, std::int64_t, std::less<>> text_numbers_;
  std::map<std::int64_t, std::string> class_names_;
  std::vector<std::byte> held_;
  SkipLog skipped_;
};

// A format whose files can be read independently of each other.
struct ShardFormat {
  bool (*is_name)(std::string_view name) = nullptr;  // of its files in a folder
  // Adds what a file holds. A SampleError ends the file: what came before it stays.
  void (*read)(ContainerBytes& bytes, ShardDraft& draft) = nullptr;
  // Whether samples may have a field; null: they have none but image and label.
  bool (*may_have)(const WantedFields::Wanted& wanted) = nullptr;
  std::string_view missing;  // what was not found when no sample comes out: "no record with an image"
};

// Whether a folder is one of the format's files: it has some, and neither images nor annotations in it or below it, of
// which such a file would only stand beside. REQUIRES: contents.is_folder().
[[nodiscard]] bool is_folder_of_shards(PathContents& contents, bool (*is_name)(std::string_view));

// The files of the format at the path, absolute: those of a folder, sorted, those that a pattern stands for, or the one
// file. Where some names in a folder have a part that begins with "train", only those are its files, and `others` tells
// which it leaves out.
[[nodiscard]] std::vector<std::string> shards_of(PathContents& contents, bool (*is_name)(std::string_view),
                                                 std::vector<std::string>* others = nullptr);

// What the drafts hold, as one, with these fields. Those of one file follow each other.
[[nodiscard]] IndexDraft merge_shards(PathContents& contents, std::vector<ShardDraft>& drafts,
                                      const WantedFields& wanted, std::string_view missing);

// Of the names of the format's files, and of the contents of those that are named as compressed ones; for Format::hash.
[[nodiscard]] std::uint64_t hash_shards(const DatasetOptions& options, bool (*is_name)(std::string_view));

// Reads the files in parallel, plain or compressed, and puts them together in their order.
[[nodiscard]] IndexDraft build_from_shards(PathContents& contents, const ShardFormat& format);

}  // namespace forebay
