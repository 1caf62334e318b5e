#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "build.hpp"
#include "container_bytes.hpp"
#include "record_table.hpp"
#include "sample_fields.hpp"

namespace forebay::data {

// A sample's class, as found in a container.
struct FoundLabel {
  enum class Kind : std::uint8_t {
    absent,      // no entry, which is an error if other samples have a class
    unlabelled,  // explicitly none: -1, an empty list
    odd,         // not a class: several numbers, a fraction
    number,
    text,     // a class number as text, or a name: all labels together decide
    one_hot,  // the place of the only 1 among 0s
  };

  Kind kind = Kind::absent;
  std::int64_t number = 0;
  std::string text = {};      // odd: a description, such as "it has 3 numbers"
  std::uint32_t classes = 0;  // one_hot: how many there are

  [[nodiscard]] static FoundLabel of(std::int64_t number) {
    return {.kind = number == -1 ? Kind::unlabelled : Kind::number, .number = number};
  }
  [[nodiscard]] static FoundLabel none() { return {.kind = Kind::unlabelled}; }
  [[nodiscard]] static FoundLabel odd(std::string what) { return {.kind = Kind::odd, .text = std::move(what)}; }
  [[nodiscard]] static FoundLabel named(std::string text) { return {.kind = Kind::text, .text = std::move(text)}; }
};
// A class as written in text files and JSON. Throws SampleError if it is empty or too long.
[[nodiscard]] FoundLabel label_of_text(std::string_view text);
// A class as a floating-point number, which must be whole.
[[nodiscard]] FoundLabel label_of_float(double number);
// A class as a list of numbers: none, one, or one-hot. Only the first kMostOneHot numbers are needed.
inline constexpr std::size_t kMostOneHot = 65536;
[[nodiscard]] FoundLabel label_of_list(std::span<const std::int64_t> numbers);
[[nodiscard]] FoundLabel label_of_list(std::span<const float> numbers);

// A longer text is not a class name.
inline constexpr std::size_t kLongestClassName = 256;

// The kind of raw pixels of this shape, channels interleaved; nothing if the shape is invalid or does not match the
// number of bytes.
[[nodiscard]] std::optional<RecordTable::Kind> raw_kind(std::int64_t height, std::int64_t width, std::int64_t channels,
                                                        std::uint64_t bytes);

// A sample found in a container.
struct FoundSample {
  Extent image = {};
  RecordTable::Kind kind = {};
  FoundLabel label = {};
  std::string_view class_name = {};  // the name of its class number, if the container has it
  // The bytes, including the image, that are followed by their masked CRC-32C; empty if there is no checksum.
  Extent checked = {};
  // Per wanted field: its elements, or where its bytes are.
  struct InField {
    std::vector<std::byte> elements = {};
    SetForm form = SetForm::other;
    Extent bytes = {};
  };
  std::vector<InField> fields = {};
};
// Makes the fields of a sample from value_of(wanted) for each. Throws SampleError naming the field.
template <typename ValueOf>
[[nodiscard]] std::vector<FoundSample::InField> fields_of_sample(const WantedFields& wanted, ValueOf&& value_of) {
  std::vector<FoundSample::InField> fields;
  for (const WantedFields::Wanted& each : wanted.fields) {
    try {
      const FieldValue value = value_of(each);
      FoundSample::InField& field = fields.emplace_back();
      if (!each.is_bytes()) {
        field.elements = elements_of(each, value);
        field.form = form_of_set(each.field, value);
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

// The records found in one file of a container, or in a part of it, in order. One thread at a time.
class ShardDraft {
 public:
  // What all threads together have read so far.
  struct Progress {
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> records{0};
  };

  // Record numbers begin with `first`.
  ShardDraft(std::string path, const RecordTable::Stamp& stamp, Progress& progress, std::uint32_t first = 0)
      : path_(std::move(path)), stamp_(stamp), progress_(&progress), next_(first) {}

  // Sets the fields that samples must have besides image and label. Call before adding samples.
  void want(const WantedFields& wanted) {
    wanted_ = &wanted;
    fields_.resize(wanted.fields.size());
  }
  // REQUIRES: want() has been called.
  [[nodiscard]] const WantedFields& wanted() const noexcept { return *wanted_; }

  // Begins the next record, at this offset. It takes a number whether it is usable or not.
  void begin(std::uint64_t offset, std::string_view key = {});
  // Sets the container's name for the record.
  void call(std::string_view key) { key_ = key; }
  // Where a label would have been found, for a sample without one: "the first sample has .jpg, .txt". Only the first
  // counts, so that it is worth making only if `needs_label_hint()`.
  [[nodiscard]] bool needs_label_hint() const noexcept { return skipped_.missing_labels().why.empty(); }
  void give_label_hint(std::string hint) { skipped_.explain_missing_labels({.why = std::move(hint)}); }
  // Reports that the file has been read up to this offset.
  void reach(std::uint64_t offset);
  // Adds the record's sample. Bytes that are only in memory are kept for the index. Throws SampleError if its image has
  // no bytes or too many, or is in memory and fails its checksum.
  void add(ContainerBytes& bytes, const FoundSample& sample);
  // Marks the record as unusable. The reason begins with the byte of the damage, or at least of the record. The first
  // ten thousand are kept, others only counted.
  void add_bad(std::string reason);
  // Reports a problem of the file itself.
  void add_bad_file(std::string reason) { skipped_.add_bad(path_, std::move(reason)); }
  void add_note(std::string reason) { skipped_.add_note(path_, std::move(reason)); }
  void add_warning(std::string reason) { skipped_.add_warning(path_, std::move(reason)); }

 private:
  friend class ShardMerger;

  // Labels of records without a class number. A text is kTexts minus its index in `texts_`, an odd label is kOdd minus
  // its index in `odd_`, and a one-hot label is kOneHot plus its position.
  static constexpr std::int64_t kUnlabelled = -1;
  static constexpr std::int64_t kAbsent = -2;
  static constexpr std::int64_t kTexts = -3;
  static constexpr std::int64_t kOdd = -(std::int64_t{1} << 40U);
  static constexpr std::int64_t kOneHot = std::int64_t{1} << 40U;
  static constexpr std::uint32_t kSeveral = UINT32_MAX;  // one-hot labels of different numbers of classes
  [[nodiscard]] static bool is_text(std::int64_t label) noexcept { return label <= kTexts && label > kOdd; }
  [[nodiscard]] const std::string& text_of(std::int64_t label) const {
    return texts_[static_cast<std::size_t>(kTexts - label)];
  }
  [[nodiscard]] const std::string& odd_of(std::int64_t label) const {
    return odd_[static_cast<std::size_t>(kOdd - label)];
  }

  // Adds an entry that counts the bad records beyond those kept.
  void add_uncounted();
  [[nodiscard]] std::uint32_t number() const noexcept { return next_ - 1; }
  [[nodiscard]] std::uint16_t kind_number(const RecordTable::Kind& kind);
  [[nodiscard]] std::int64_t label_number(const FoundLabel& label);
  [[nodiscard]] std::int64_t odd_number(const std::string& what);

  std::string path_;
  RecordTable::Stamp stamp_;
  Progress* progress_;
  std::uint32_t next_;
  std::uint64_t begins_ = 0;  // where the current record begins
  std::uint64_t bad_ = 0;
  std::uint64_t reached_ = 0;
  std::string key_;
  // By sample.
  std::vector<RecordTable::Record> records_;
  std::vector<std::uint16_t> kinds_;
  std::vector<std::int64_t> labels_;
  std::vector<bool> are_held_;
  StringTable keys_;

  // For each field: elements, or extents.
  struct InFields {
    std::vector<std::byte> values;
    std::vector<std::uint64_t> ends;
    std::vector<SetForm> forms;
    std::vector<RecordTable::Record> records;
  };
  const WantedFields* wanted_ = nullptr;
  std::vector<InFields> fields_;

  std::vector<RecordTable::Kind> kind_list_;
  std::map<RecordTable::Kind, std::uint16_t> kind_numbers_;
  std::vector<std::string> texts_;
  std::map<std::string, std::int64_t, std::less<>> text_numbers_;
  std::vector<std::string> odd_;
  std::uint32_t one_hot_ = 0;  // number of classes of the one-hot labels; 0: there are none
  std::map<std::int64_t, std::string> class_names_;
  std::vector<std::byte> held_;
  SkipLog skipped_;
};

// A format whose files can be read independently of each other.
struct ShardFormat {
  bool (*is_name)(std::string_view name) = nullptr;  // of its files in a folder
  // Adds the records of a file. A SampleError ends the file; records before it are kept.
  void (*read)(ContainerBytes& bytes, ShardDraft& draft) = nullptr;
  // Whether samples may have a field; null: only image and label.
  bool (*may_have)(const WantedFields::Wanted& wanted) = nullptr;
  std::string_view missing;  // what to report as missing if there is no sample: "no record with an image"
};

// Whether a folder consists of the format's files: it contains some, and no images or annotations in or below it.
// REQUIRES: contents.is_folder().
[[nodiscard]] bool is_folder_of_shards(PathContents& contents, bool (*is_name)(std::string_view));

// The files of the format at the path, absolute: those of a folder, sorted, those that a pattern matches, or the one
// file. If some names in a folder have a word that begins with "train", only those are used, and `others` receives the
// rest.
[[nodiscard]] std::vector<std::string> shards_of(PathContents& contents, bool (*is_name)(std::string_view),
                                                 std::vector<std::string>* others = nullptr);

// Merges the drafts into one, with these fields. Drafts of one file are adjacent.
[[nodiscard]] IndexDraft merge_shards(PathContents& contents, std::vector<ShardDraft>& drafts,
                                      const WantedFields& wanted, std::string_view missing);

// Hashes the names of the format's files, and the contents of those with the name of a compressed file; for
// Format::hash.
[[nodiscard]] std::uint64_t hash_shards(const DatasetOptions& options, bool (*is_name)(std::string_view));

// Reads the files in parallel, plain or compressed, and merges them in order.
[[nodiscard]] IndexDraft build_from_shards(PathContents& contents, const ShardFormat& format);

}  // namespace forebay::data
