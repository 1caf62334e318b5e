// Merges the drafts of all files of a container dataset into one index draft. Runs on one thread,
// after all files have been read.
//
// First find_classes() examines the labels of all files together, because one file alone does not
// say whether "7" is a class number or a name. Then the drafts are appended in the order of files.
// Each label becomes a class or -1, and each draft is freed once it is appended, so that memory
// holds one copy of the records plus one file.
//
// Some labels may not be classes. If they are at most a tenth of all, they count as damage, and
// their samples are left out as bad. If there are more, the dataset is for another task; these
// samples are served with label -1, and the log says so.

#include <algorithm>
#include <forebay/error.hpp>
#include <optional>

#include "base/text.hpp"
#include "class_text.hpp"
#include "object_samples.hpp"
#include "path_pattern.hpp"
#include "shards.hpp"

namespace forebay::data {
namespace {

// The most bytes that all compressed files of a dataset together may put into its index. Chosen:
// what a node has to spare; docs/data.md says so.
constexpr std::uint64_t kMostHeld = std::uint64_t{16} << 30U;

// Up to one label in so many may be damaged, as in LabelCensus.
constexpr std::uint64_t kNearlyAll = 10;

// The deepest folder that contains all paths.
std::string folder_of_all(std::span<const std::string> paths) {
  const std::string_view folder = common_folder(paths);
  return folder.size() > 1 ? std::string(folder.substr(0, folder.size() - 1)) : "/";
}

std::string below(const std::string& root, const std::string& path) {
  const std::string folder = root.ends_with('/') ? root : root + "/";
  return path.starts_with(folder) ? path.substr(folder.size()) : path;
}

}  // namespace

// Merges drafts: decides what the classes are, and labels the samples.
class ShardMerger {
 public:
  ShardMerger(PathContents& contents, std::vector<ShardDraft>& drafts, const WantedFields& wanted)
      : contents_(contents), drafts_(drafts), wanted_(wanted) {
    find_classes();
    find_sets();
  }

  IndexDraft merge() {
    IndexDraft draft;
    std::vector<std::string> paths;
    for (const ShardDraft& each : drafts_) paths.push_back(each.path_);
    draft.root = contents_.is_folder() ? contents_.root()
                 // Sample names begin at the pattern's fixed folder, so that samples keep their
                 // names, and thus their part of a split, when files are added.
                 : contents_.is_pattern() ? folder_of_pattern(contents_.root())
                                          : folder_of_all(paths);
    draft.table.classes = std::move(classes_);
    draft.table.kinds.clear();
    for (const auto& wanted : wanted_.fields) draft.table.fields.push_back({.field = wanted.field});
    report_odd(draft.skipped);
    const bool has_keys = std::ranges::any_of(drafts_, [](const auto& each) { return !each.keys_.bytes().empty(); });
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      if (i == 0 || paths[i] != paths[i - 1]) sources_ = {};
      append(drafts_[i], has_keys, draft);
    }
    if (draft.table.kinds.empty()) draft.table.kinds = {{}};
    draft.counts.images = draft.table.source.size();
    return draft;
  }

 private:
  // Decides what the classes are. A number far beyond the number of samples is damage and not a
  // class: otherwise one damaged byte could make a million classes. Chosen: numbers below 65536 are
  // always plausible, and beyond that up to 16 per sample.
  void find_classes() {
    constexpr std::int64_t kPlausible = 65536;
    count_labels();
    const std::int64_t most = std::max(kPlausible, 16 * static_cast<std::int64_t>(samples_));
    std::int64_t largest = -1;
    for (const ShardDraft& draft : drafts_) {
      for (const std::int64_t label : draft.labels_) {
        const std::int64_t number = is_by_name_ ? label : number_of(draft, label).value_or(-1);
        if (number < most) largest = std::max(largest, number);
      }
    }
    const auto& given = contents_.options().classes;
    if (!given.empty()) {
      list_.emplace(given, std::vector<std::string>());
      classes_ = list_->names();
    } else if (is_by_name_) {
      std::vector<std::string> names;
      for (const ShardDraft& draft : drafts_) {
        names.insert(names.end(), draft.texts_.begin(), draft.texts_.end());
        for (const std::int64_t label : draft.labels_) {
          if (label >= 0 && label < ShardDraft::kOneHot) names.push_back(std::to_string(label));
        }
      }
      list_.emplace(std::vector<std::string>(), std::move(names));
      classes_ = list_->names();
    } else {
      if (one_hot_ > 0) largest = std::int64_t{one_hot_} - 1;
      classes_ = numbered_classes(largest + 1);
      name_classes();
    }
    count_ = static_cast<std::int64_t>(classes_.size());
    if (one_hot_ > 0 && count_ != std::int64_t{one_hot_}) {
      throw path_error(contents_.options(), "its labels are one-hot, of " + std::to_string(one_hot_) +
                                                " classes, but dataset.classes has " + std::to_string(count_) +
                                                " names");
    }
  }

  // All labels together decide what they are, whatever the order of files: class numbers, names, or
  // one-hot if there are no others. Texts are taken for names only if they are not numbers with a
  // few exceptions (LabelCensus, which lists and tables use too).
  void count_labels() {
    LabelCensus census(contents_.options().classes);
    std::uint64_t texts = 0;
    std::uint64_t numbers = 0;
    std::uint64_t hot = 0;
    for (const ShardDraft& draft : drafts_) {
      samples_ += draft.labels_.size();
      texts += draft.texts_.empty() ? 0 : 1;
      if (draft.one_hot_ > 0)
        one_hot_ = one_hot_ == 0 || one_hot_ == draft.one_hot_ ? draft.one_hot_ : ShardDraft::kSeveral;
    }
    for (const ShardDraft& draft : drafts_) {
      for (const std::int64_t label : draft.labels_) {
        if (label != ShardDraft::kAbsent) has_labels_ = true;
        if (label <= ShardDraft::kOdd) ++odd_;
        if (label >= ShardDraft::kOneHot) ++hot;
        if (label >= 0 && label < ShardDraft::kOneHot) ++numbers;
        if (texts == 0) continue;
        if (ShardDraft::is_text(label)) census.add(draft.text_of(label));
        if (ShardDraft::is_text(label) && is_missing_value(draft.text_of(label))) ++missing_;
        if (label >= 0 && label < ShardDraft::kOneHot) census.add(std::to_string(label));
      }
    }
    is_by_name_ = texts > 0 && !census.are_numbers("dataset.path = \"" + contents_.options().path + "\"");
    if (texts + numbers + odd_ > 0 || one_hot_ == ShardDraft::kSeveral) {
      odd_ += hot;
      one_hot_ = 0;
    }
    if (is_by_name_) missing_ = 0;
    are_odd_bad_ = odd_ * kNearlyAll <= samples_;
  }

  // Whether the lists of a multilabel field are class numbers. If few are what zeros and ones
  // cannot be, those are damage.
  void find_sets() {
    for (std::size_t i = 0; i < wanted_.fields.size(); ++i) {
      std::uint64_t numbers = 0;
      std::uint64_t bits = 0;
      for (const ShardDraft& draft : drafts_) {
        for (const SetForm form : draft.fields_[i].forms) {
          numbers += form == SetForm::numbers ? 1 : 0;
          bits += form > SetForm::numbers ? 1 : 0;
        }
      }
      are_numbers_.push_back(numbers * kNearlyAll > numbers + bits);
      if (!are_numbers_.back() || numbers >= bits) continue;
      mixed_sets_.push_back("field \"" + wanted_.fields[i].field.name + "\": " + std::to_string(bits) +
                            " lists of zeros and ones, one for each class, are taken for class numbers, as " +
                            std::to_string(numbers) + " others can be nothing else; mend those if they are damaged");
    }
  }

  void require_sets(const ShardDraft& from, std::size_t sample) const {
    for (std::size_t i = 0; i < wanted_.fields.size(); ++i) {
      if (are_numbers_[i] || from.fields_[i].forms[sample] != SetForm::numbers) continue;
      throw SampleError("field \"" + wanted_.fields[i].field.name +
                        "\" has class numbers, where others have a zero or a one for each class");
    }
  }

  // The label as a class number; -1 for a word such as "none"; nothing if it is neither.
  [[nodiscard]] static std::optional<std::int64_t> number_of(const ShardDraft& draft, std::int64_t label) {
    if (ShardDraft::is_text(label) && is_missing_value(draft.text_of(label))) return -1;
    if (ShardDraft::is_text(label)) return class_number_in(draft.text_of(label));
    return label < 0 || label >= ShardDraft::kOneHot ? std::nullopt : std::optional(label);
  }

  // Uses the container's class names if each number has one name and no two numbers share one.
  // Names are used for all numbers or for none: a list that mixes names and numbers as text would
  // mislead more than help.
  void name_classes() {
    std::map<std::int64_t, std::string> names;
    for (const ShardDraft& draft : drafts_) {
      for (const auto& [number, name] : draft.class_names_) {
        if (names.try_emplace(number, name).first->second != name) return;
      }
    }
    std::vector<std::string> named = classes_;
    for (const auto& [number, name] : names) {
      if (name.empty()) return;
      if (number >= static_cast<std::int64_t>(named.size())) continue;
      named[static_cast<std::size_t>(number)] = name;
    }
    std::vector<std::string> sorted = named;
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) == sorted.end()) classes_ = std::move(named);
  }

  // The label of a sample. Throws SampleError if it has no usable label.
  [[nodiscard]] std::int32_t label_of(const ShardDraft& draft, std::int64_t label) const {
    if (label == ShardDraft::kUnlabelled) return -1;
    if (label == ShardDraft::kAbsent) {
      if (has_labels_) throw SampleError("has no class, where others have one");
      return -1;
    }
    const bool is_hot = label >= ShardDraft::kOneHot;
    if (is_hot && one_hot_ > 0) return static_cast<std::int32_t>(label - ShardDraft::kOneHot);
    if (is_hot || label <= ShardDraft::kOdd) {
      if (are_odd_bad_) throw SampleError("its label is no class: " + odd_text(draft, label));
      return -1;
    }
    const bool is_text = ShardDraft::is_text(label);
    const std::string text = is_text ? draft.text_of(label) : std::to_string(label);
    if (is_by_name_) {
      const std::int32_t number = list_->number_of(text);
      if (number >= 0) return number;
      throw SampleError("class \"" + printable(text) + "\" is not in dataset.classes");
    }
    const auto number = number_of(draft, label);
    if (!number) throw SampleError(problem_of_class(text));
    if (*number < count_) return static_cast<std::int32_t>(*number);
    throw SampleError("label " + text + " of " + std::to_string(count_) + " classes" +
                      (list_ ? "" : ", too large for so few samples; name all in dataset.classes if it is right"));
  }

  [[nodiscard]] static std::string odd_text(const ShardDraft& draft, std::int64_t label) {
    return label >= ShardDraft::kOneHot ? "it is one-hot, and others are not" : draft.odd_of(label);
  }

  // Reports labels that exist but are served as -1.
  void report_odd(SkipLog& skipped) const {
    if (missing_ > 0) {
      skipped.add_warning(
          contents_.root(),
          std::to_string(missing_) + " of " + std::to_string(samples_) +
              R"( samples are served with label -1: theirs is a word for none, such as "none" or "nan")");
    }
    for (const std::string& warning : mixed_sets_) skipped.add_warning(contents_.root(), warning);
    if (odd_ == 0 || are_odd_bad_) return;
    std::string first;  // of those that are not one-hot, if there are any
    for (const ShardDraft& draft : drafts_) {
      if (first.empty() && !draft.odd_.empty()) first = draft.odd_.front();
    }
    const std::string example =
        first.empty() ? " (one-hot, of several lengths or among others)" : " (the first: " + first + ")";
    const std::string advice =
        example + R"(; a field of kind "numbers" or "multilabel" serves other labels than classes)";
    skipped.explain_missing_labels({.why = "labels are there and are no classes" + advice});
    if (odd_ == samples_) return;
    const std::string note = std::to_string(odd_) + " of " + std::to_string(samples_) +
                             " samples are served with label -1: theirs is no class" + advice;
    wanted_.fields.empty() ? skipped.add_warning(contents_.root(), note) : skipped.add_note(contents_.root(), note);
  }

  // Appends a draft to the index draft, then frees it. The draft's held bytes come after those
  // already held, which is why the offsets of its held records are shifted.
  void append(ShardDraft& from, bool has_keys, IndexDraft& draft) {
    RecordTable& table = draft.table;
    const std::vector<std::uint16_t> kinds = kinds_in(table, from.kind_list_);
    for (std::size_t i = 0; i < from.records_.size(); ++i) {
      try {
        require_sets(from, i);
        const std::int32_t label = label_of(from, from.labels_[i]);
        table.add(source_of(from, from.are_held_[i], draft), label);
      } catch (const SampleError& error) {
        const RecordTable::Record& record = from.records_[i];
        const std::string place = from.are_held_[i] ? "" : "byte " + std::to_string(record.offset) + ": ";
        from.skipped_.add_bad(record_name(from.path_, record.number, from.keys_[i]), place + error.what());
        continue;
      }
      RecordTable::Record record = from.records_[i];
      if (from.are_held_[i]) record.offset += table.held.size();
      table.record.push_back(record);
      table.kind.push_back(kinds[from.kinds_[i]]);
      if (has_keys) table.keys.add(from.keys_[i]);
      append_fields(from, i, table);
    }
    if (from.held_.size() > kMostHeld - table.held.size()) {
      throw path_error(contents_.options(),
                       from.path_ + ": " + "what is compressed inflates to more than an index holds; decompress it");
    }
    table.held.insert(table.held.end(), from.held_.begin(), from.held_.end());
    from.add_uncounted();
    draft.skipped.append(std::move(from.skipped_));
    from = ShardDraft({}, {}, *from.progress_);
  }

  void append_fields(const ShardDraft& from, std::size_t sample, RecordTable& table) const {
    for (std::size_t i = 0; i < from.fields_.size(); ++i) {
      const ShardDraft::InFields& found = from.fields_[i];
      RecordTable::FieldColumn& column = table.fields[i];
      if (from.wanted().fields[i].is_bytes()) {
        column.source.push_back(table.source.back());
        column.record.push_back(found.records[sample]);
        if (from.are_held_[sample]) column.record.back().offset += table.held.size();
      } else if (are_numbers_[i] && found.forms[sample] > SetForm::numbers) {
        column.add_values(elements_if_numbers(wanted_.fields[i], found.forms[sample]));
      } else {
        const std::uint64_t begin = sample == 0 ? 0 : found.ends[sample - 1];
        column.add_values(std::span(found.values).subspan(begin, found.ends[sample] - begin));
      }
    }
  }

  // The number of the draft's file among the table's sources. A file has at most two: one for
  // records that are read from it, and one for its records that the index holds.
  [[nodiscard]] std::uint32_t source_of(const ShardDraft& from, bool is_held, IndexDraft& draft) {
    auto& source = sources_[is_held ? 1 : 0];
    if (!source) {
      RecordTable::Stamp stamp = from.stamp_;
      stamp.is_held = is_held;
      // Records with checksums reveal their own damage, so the blocks need not be compared, and
      // undamaged records stay usable.
      if (!is_held && std::ranges::any_of(from.kind_list_, &RecordTable::Kind::checked)) stamp.spread = 0;
      source = draft.table.add_source(below(draft.root, from.path_), stamp);
    }
    return *source;
  }

  // The table's numbers for these kinds; new ones are added.
  std::vector<std::uint16_t> kinds_in(RecordTable& table, std::span<const RecordTable::Kind> kinds) {
    std::vector<std::uint16_t> numbers;
    for (const RecordTable::Kind& kind : kinds) {
      const auto number = number_of_kind(kind, table.kinds, kind_numbers_);
      if (!number) {
        throw path_error(contents_.options(),
                         "raw pixels have more than " + std::to_string(RecordTable::kMostKinds) + " shapes");
      }
      numbers.push_back(*number);
    }
    return numbers;
  }

  PathContents& contents_;
  std::vector<ShardDraft>& drafts_;
  const WantedFields& wanted_;
  std::size_t samples_ = 0;
  std::uint64_t odd_ = 0;      // labels that are not classes
  std::uint64_t missing_ = 0;  // words such as "none" among class numbers
  bool has_labels_ = false;
  bool is_by_name_ = false;
  bool are_odd_bad_ = false;             // few enough to be damage
  std::vector<bool> are_numbers_;        // the lists of each field
  std::vector<std::string> mixed_sets_;  // warnings of fields most of whose lists look like zeros and ones
  std::uint32_t one_hot_ = 0;            // the number of classes, if all labels are one-hot
  std::optional<ClassList> list_;        // if samples or dataset.classes name the classes
  std::vector<std::string> classes_;
  std::int64_t count_ = 0;  // number of classes
  std::map<RecordTable::Kind, std::uint16_t> kind_numbers_;
  // The current file's sources: [0] for records in the file, [1] for held ones.
  std::array<std::optional<std::uint32_t>, 2> sources_;
};

IndexDraft merge_shards(PathContents& contents, std::vector<ShardDraft>& drafts, const WantedFields& wanted,
                        std::string_view missing) {
  IndexDraft draft = ShardMerger(contents, drafts, wanted).merge();
  if (draft.counts.images > 0) return draft;
  throw path_error(contents.options(), std::string(missing) + draft.skipped.first_bad());
}

}  // namespace forebay::data
