#include <algorithm>
#include <forebay/error.hpp>
#include <optional>

#include "base/text.hpp"
#include "path_pattern.hpp"
#include "shards.hpp"

namespace forebay {
namespace {

// The most bytes that all compressed files of a dataset together may put into its index.
constexpr std::uint64_t kMostHeld = std::uint64_t{16} << 30U;

// The deepest folder that contains all of them.
std::string common_folder(std::span<const std::string> paths) {
  std::string folder(parent_folder(paths.front()));
  for (const std::string& path : paths) {
    while (!folder.empty() && !path.starts_with(folder + "/")) folder = std::string(parent_folder(folder));
  }
  return folder.empty() ? "/" : folder;
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
  }

  IndexDraft merge() {
    IndexDraft draft;
    std::vector<std::string> paths;
    for (const ShardDraft& each : drafts_) paths.push_back(each.path_);
    draft.root = contents_.is_folder() ? contents_.root()
                 // Samples keep their names, and thus their part of a split, when files are added.
                 : contents_.is_pattern() ? folder_of_pattern(contents_.root())
                                          : common_folder(paths);
    draft.table.classes = std::move(classes_);
    draft.table.kinds.clear();
    for (const auto& wanted : wanted_.fields) draft.table.fields.push_back({.field = wanted.field});
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
  // The first class decides whether classes are numbers or names. A number far beyond the count of samples is damage,
  // not a class: one byte must not make a million classes.
  void find_classes() {
    constexpr std::int64_t kPlausible = 65536;
    std::size_t samples = 0;
    for (const ShardDraft& draft : drafts_) samples += draft.labels_.size();
    const std::int64_t most = std::max(kPlausible, 16 * static_cast<std::int64_t>(samples));
    std::int64_t largest = -1;
    bool knows = false;
    for (const ShardDraft& draft : drafts_) {
      for (const std::int64_t label : draft.labels_) {
        if (label != ShardDraft::kAbsent) has_labels_ = true;
        if (!knows && (label >= 0 || label <= ShardDraft::kTexts)) {
          knows = true;
          is_by_name_ = label < 0;
        }
        if (label < most) largest = std::max(largest, label);
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
          if (label >= 0) names.push_back(std::to_string(label));
        }
      }
      list_.emplace(std::vector<std::string>(), std::move(names));
      classes_ = list_->names();
    } else {
      for (std::int64_t i = 0; i <= largest; ++i) classes_.push_back(std::to_string(i));
      name_classes();
    }
    count_ = static_cast<std::int64_t>(classes_.size());
  }

  // Uses the container's names for them, if each has one name and no two have the same.
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
    const bool is_text = label < 0;
    const std::string text =
        is_text ? draft.texts_[static_cast<std::size_t>(ShardDraft::kTexts - label)] : std::to_string(label);
    if (is_text || is_by_name_) {
      const std::int32_t number = list_ ? list_->number_of(text) : -1;
      if (number >= 0) return number;
      throw SampleError("class \"" + printable(text) + "\" " +
                        (list_ ? "is not in dataset.classes" : "is no number, as those of others are"));
    }
    if (label < count_) return static_cast<std::int32_t>(label);
    throw SampleError("label " + text + " of " + std::to_string(count_) + " classes" +
                      (list_ ? "" : ", too large for so few samples; name all in dataset.classes if it is right"));
  }

  // Frees each part of `from` as it is taken over.
  void append(ShardDraft& from, bool has_keys, IndexDraft& draft) {
    RecordTable& table = draft.table;
    const std::vector<std::uint16_t> kinds = kinds_in(table, from.kind_list_);
    for (std::size_t i = 0; i < from.records_.size(); ++i) {
      try {
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

  static void append_fields(const ShardDraft& from, std::size_t sample, RecordTable& table) {
    for (std::size_t i = 0; i < from.fields_.size(); ++i) {
      const ShardDraft::InFields& found = from.fields_[i];
      RecordTable::FieldColumn& column = table.fields[i];
      if (from.wanted().fields[i].is_bytes()) {
        column.source.push_back(table.source.back());
        column.record.push_back(found.records[sample]);
        if (from.are_held_[sample]) column.record.back().offset += table.held.size();
      } else {
        const std::uint64_t begin = sample == 0 ? 0 : found.ends[sample - 1];
        column.add_values(std::span(found.values).subspan(begin, found.ends[sample] - begin));
      }
    }
  }

  // The draft's file as a source in the table; a separate source if its records are held.
  [[nodiscard]] std::uint32_t source_of(const ShardDraft& from, bool is_held, IndexDraft& draft) {
    auto& source = sources_[is_held ? 1 : 0];
    if (!source) {
      RecordTable::Stamp stamp = from.stamp_;
      stamp.is_held = is_held;
      // Records with checksums reveal their own damage, and the others stay usable.
      if (!is_held && std::ranges::any_of(from.kind_list_, &RecordTable::Kind::checked)) stamp.spread = 0;
      source = draft.table.add_source(below(draft.root, from.path_), stamp);
    }
    return *source;
  }

  // The table's numbers for these kinds; new ones are added.
  std::vector<std::uint16_t> kinds_in(RecordTable& table, std::span<const RecordTable::Kind> kinds) {
    std::vector<std::uint16_t> numbers;
    for (const RecordTable::Kind& kind : kinds) {
      const auto [place, is_new] = kind_numbers_.try_emplace(kind, static_cast<std::uint16_t>(table.kinds.size()));
      if (is_new && table.kinds.size() >= RecordTable::kMostKinds) {
        throw path_error(contents_.options(),
                         "raw pixels have more than " + std::to_string(RecordTable::kMostKinds) + " shapes");
      }
      if (is_new) table.kinds.push_back(kind);
      numbers.push_back(place->second);
    }
    return numbers;
  }

  PathContents& contents_;
  std::vector<ShardDraft>& drafts_;
  const WantedFields& wanted_;
  bool has_labels_ = false;
  bool is_by_name_ = false;
  std::optional<ClassList> list_;  // if samples name their classes
  std::vector<std::string> classes_;
  std::int64_t count_ = 0;  // of them
  std::map<RecordTable::Kind, std::uint16_t> kind_numbers_;
  std::array<std::optional<std::uint32_t>, 2> sources_;  // of the current file: in the file, held
};

IndexDraft merge_shards(PathContents& contents, std::vector<ShardDraft>& drafts, const WantedFields& wanted,
                        std::string_view missing) {
  IndexDraft draft = ShardMerger(contents, drafts, wanted).merge();
  if (draft.counts.images > 0) return draft;
  throw path_error(contents.options(), std::string(missing) + draft.skipped.first_bad());
}

}  // namespace forebay
