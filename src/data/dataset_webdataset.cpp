// WebDataset: tar archives. Members whose paths are equal up to the first dot of the file name
// belong to one sample: "n01/0001.jpg" and "n01/0001.cls". The part after the dot says what a
// member is.
//
// One thread reads a shard in two passes. read_tar goes through the headers of all members, without
// their contents, and groups them by sample. Then add_groups looks for image, label and fields of
// each group and reads the few bytes of labels and JSON. There are two passes because the members
// of a sample need not be neighbours. A shard that is damaged in the middle gives the samples
// before the damage.
//
// Errors of a group cost only that sample, except for a failing store, which ends the build
// (shards.cpp). Usual names of members are tried in turn; [fields.NAME] names any other.

#include <algorithm>
#include <cmath>
#include <forebay/error.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "file_nature.hpp"
#include "formats.hpp"
#include "image_kinds.hpp"
#include "object_samples.hpp"
#include "shards.hpp"
#include "tar_file.hpp"

namespace forebay::data {
namespace {

// The endings in a list such as ".jpg, .png", without their dots.
constexpr auto members_of(std::string_view endings) {
  std::array<std::string_view, std::ranges::count(kImageEndings, '.')> all{};
  for (std::string_view& each : all) {
    endings.remove_prefix(endings.find('.') + 1);
    each = endings.substr(0, endings.find(','));
  }
  return all;
}
// Members that may be the image, the likeliest first: "jpg", "jpeg", ...
constexpr auto kImageMembers = members_of(kImageEndings);
constexpr std::array<std::string_view, 4> kImagePrefixes{"image.", "img.", "input.", "rgb."};
// Names under which the class is found, as a text member or as a key in the JSON.
constexpr std::array<std::string_view, 3> kClassMembers{"cls", "class", "label"};
constexpr std::array<std::string_view, 7> kClassKeys{"label",       "cls",    "class",     "class_id",
                                                     "category_id", "target", "class_name"};

bool is_tar_name(std::string_view given) {
  const std::string name = lower_case(given);
  return name.ends_with(".tar") || name.ends_with(".tgz") || name.ends_with(".tar.gz");
}

// The parts before and after the first dot of the file name; no key if the member belongs to no sample.
struct MemberName {
  std::string_view key;
  std::string kind;  // in lower case
};
// The first dot, not the last, as in the webdataset library: "0001.seg.png" is the member "seg.png"
// of "0001".
MemberName split_member_name(std::string_view name) {
  const std::string_view last = base_name(name);
  const auto dot = last.find('.');
  // As in the webdataset library, a member or folder whose name begins and ends with two underscores is metadata.
  const std::string underscores(2, '_');
  const auto is_meta = [&](std::string_view part) {
    return part.size() >= 2 * underscores.size() && part.starts_with(underscores) && part.ends_with(underscores);
  };
  const std::string_view first = name.substr(0, name.find('/'));
  const bool is_none = dot == std::string_view::npos || dot == 0 || is_meta(first) || is_meta(last);
  if (is_none) return {};
  std::string kind(last.substr(dot + 1));
  std::ranges::transform(kind, kind.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return {.key = name.substr(0, name.size() - last.size() + dot), .kind = std::move(kind)};
}

// The members of a shard, by sample.
class TarSamples {
 public:
  struct Member {
    std::uint32_t kind = 0;  // into kinds_
    Extent contents;
  };
  struct Group {
    std::string_view key;      // in numbers_
    std::uint64_t offset = 0;  // of its first member
    std::vector<Member> members;
  };

  // If a name comes again after others, with a kind that its sample already has, it begins another
  // sample, as in joined archives.
  void add(const TarMember& member, const MemberName& name) {
    const auto [kind, is_new_kind] = kind_numbers_.try_emplace(name.kind, static_cast<std::uint32_t>(kinds_.size()));
    if (is_new_kind) kinds_.push_back(name.kind);
    // Keys live in the map, whose nodes do not move, so that groups can hold views of them.
    const auto [place, is_new] = numbers_.try_emplace(std::string(name.key), groups_.size());
    const bool is_earlier = !is_new && place->second + 1 != groups_.size();
    if (is_earlier && seen_.contains({place->second, kind->second})) place->second = groups_.size();
    if (place->second == groups_.size())
      groups_.push_back({.key = place->first, .offset = member.header, .members = {}});
    seen_.emplace(place->second, kind->second);
    groups_[place->second].members.push_back({.kind = kind->second, .contents = member.contents});
  }

  [[nodiscard]] const std::vector<Group>& groups() const noexcept { return groups_; }

  // The member of this kind; null if there is none. Throws SampleError if there are two. A linear
  // search, because a sample has a handful of members.
  [[nodiscard]] const Extent* find(const Group& group, std::string_view kind) const {
    const Extent* found = nullptr;
    for (const Member& member : group.members) {
      if (kinds_[member.kind] != kind) continue;
      if (found != nullptr) throw SampleError("has two members ." + std::string(kind));
      found = &member.contents;
    }
    return found;
  }
  // Whether a member's name ends in this kind after a further dot: ".0.jpg" for "jpg". Only for a
  // hint at names that have dots where WebDataset expects none.
  [[nodiscard]] bool has_ending(const Group& group, std::string_view kind) const {
    return std::ranges::any_of(
        group.members, [&](const Member& member) { return kinds_[member.kind].ends_with("." + std::string(kind)); });
  }
  // ".cls, .txt"
  [[nodiscard]] std::string list(const Group& group) const {
    constexpr std::size_t kNamed = 8;
    std::string text = joined(std::span(group.members).first(std::min(kNamed, group.members.size())), ", ",
                              [&](const Member& member) { return "." + kinds_[member.kind]; });
    if (group.members.size() > kNamed) text += ", ... (" + std::to_string(group.members.size()) + " members)";
    return text;
  }

 private:
  std::vector<Group> groups_;
  std::unordered_map<std::string, std::size_t> numbers_;
  std::vector<std::string> kinds_;
  std::map<std::string, std::uint32_t, std::less<>> kind_numbers_;
  std::set<std::pair<std::size_t, std::uint32_t>> seen_;  // kinds of each group
};

// Where an image would be found if names ended at their last dot: "Track 2.0.jpg" is the member .0.jpg of "Track 2".
std::string hint_of_dots(const TarSamples& samples, const TarSamples::Group& group, std::string_view wanted) {
  const auto is_behind_dot = [&](std::string_view kind) { return samples.has_ending(group, kind); };
  const bool is_there = wanted.empty() ? std::ranges::any_of(kImageMembers, is_behind_dot) : is_behind_dot(wanted);
  return is_there
             ? ". A sample's name ends at the first dot of the file's: rename files that have dots before the ending"
             : "";
}

// Tries plain names before prefixed ones, and in each the likeliest first, so that ".jpg" wins over
// ".input.jpg".
const Extent& image_of_group(const TarSamples& samples, const TarSamples::Group& group, const std::string& wanted) {
  if (!wanted.empty()) {
    if (const Extent* found = samples.find(group, wanted)) return *found;
    throw SampleError("has no image ." + wanted + ", only " + samples.list(group) +
                      hint_of_dots(samples, group, wanted));
  }
  for (const auto kind : kImageMembers) {
    if (const Extent* found = samples.find(group, kind)) return *found;
  }
  for (const auto prefix : kImagePrefixes) {
    for (const auto kind : kImageMembers) {
      if (const Extent* found = samples.find(group, std::string(prefix) + std::string(kind))) return *found;
    }
  }
  throw SampleError("has no image (.jpg, .png and the like), only " + samples.list(group) +
                    hint_of_dots(samples, group, {}));
}

// The JSON of a sample; null if it has none. Depth and size are limited before parsing, because the
// parser recurses and shards may come from anywhere.
nlohmann::json json_of_group(ContainerBytes& bytes, const TarSamples& samples, const TarSamples::Group& group) {
  // Chosen: far more than metadata has, far less than a stack holds.
  constexpr std::size_t kDeepest = 64;
  const Extent* member = samples.find(group, "json");
  if (member == nullptr) return {};
  if (member->length > kLargestAnnotationFile) throw SampleError("its .json has more than 16 MiB");
  const std::string_view text = bytes.text(*member);
  if (json_depth(text) > kDeepest) throw SampleError("its .json is nested too deeply");
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) {
    throw SampleError("its .json is no JSON" + nature_as_cause(std::as_bytes(std::span(text))));
  }
  return json;
}

// Throws SampleError for a number above 2^63 - 1, which the JSON library would convert to a
// negative one.
std::int64_t whole_of_json(const nlohmann::json& json) {
  if (json.is_number_unsigned() && !std::in_range<std::int64_t>(json.get<std::uint64_t>())) {
    throw SampleError("has " + json.dump() + ", which a signed number of 64 bits does not hold");
  }
  return json.get<std::int64_t>();
}

// A one-hot list, or one with a single class. A single whole number is not read as a float, which
// would round it above 2^24.
FoundLabel label_of_json_list(const nlohmann::json& json) {
  if (json.size() == 1 && json[0].is_string()) return label_of_text(json[0].get<std::string>());
  std::vector<float> numbers;
  for (const auto& each : json) {
    if (!each.is_number()) return FoundLabel::odd("it is a list of other things than numbers");
    numbers.push_back(each.get<float>());
  }
  if (json.size() == 1 && json[0].is_number_integer()) return FoundLabel::of(whole_of_json(json[0]));
  return label_of_list(numbers);
}

// The first key that exists decides, whatever it holds: if "label" is odd, "class" is not tried.
FoundLabel label_of_json(const nlohmann::json& json, std::span<const std::string_view> keys) {
  if (!json.is_object()) return {};
  for (const auto key : keys) {
    const auto found = json.find(key);
    if (found == json.end()) continue;
    if (found->is_number_integer()) return FoundLabel::of(whole_of_json(*found));
    if (found->is_number()) return label_of_float(found->get<double>());
    if (found->is_string()) return label_of_text(found->get<std::string>());
    if (found->is_array()) return label_of_json_list(*found);
    if (found->is_boolean()) return FoundLabel::of(found->get<bool>() ? 1 : 0);
    if (found->is_null()) return FoundLabel::none();
    return FoundLabel::odd("it is " + printable(found->dump().substr(0, 40)));
  }
  return {};
}

// The key of a sample's JSON that a section names: "age" for "json.age"; "" if it names another
// member.
std::string_view json_key(std::string_view from) { return from.starts_with("json.") ? from.substr(5) : ""; }

// Tries members before keys of the JSON, because a ".cls" can only be meant as the label.
FoundLabel label_of_group(ContainerBytes& bytes, const TarSamples& samples, const TarSamples::Group& group,
                          const std::string& wanted) {
  const std::array<std::string_view, 1> given{json_key(wanted)};
  if (!given[0].empty()) return label_of_json(json_of_group(bytes, samples, group), given);
  const std::array<std::string_view, 1> only{wanted};
  for (const auto kind : wanted.empty() ? std::span<const std::string_view>(kClassMembers) : std::span(only)) {
    const Extent* found = samples.find(group, kind);
    if (found == nullptr) continue;
    if (found->length > kLongestClassName) {
      throw SampleError("its ." + std::string(kind) + " has " + std::to_string(found->length) +
                        " bytes, too many for a class");
    }
    return label_of_text(bytes.text(*found));
  }
  return wanted.empty() ? label_of_json(json_of_group(bytes, samples, group), kClassKeys) : FoundLabel{};
}

// ", and its .json has category, uid". Chosen: a line of 20 keys can still be read.
std::string keys_of_group(ContainerBytes& bytes, const TarSamples& samples, const TarSamples::Group& group) {
  constexpr std::size_t kNamed = 20;
  const nlohmann::json json = json_of_group(bytes, samples, group);
  std::string keys;
  std::size_t named = 0;
  for (auto each = json.begin(); json.is_object() && each != json.end() && named < kNamed; ++each, ++named) {
    keys += (keys.empty() ? ", and its .json has " : ", ") + printable(each.key());
  }
  return keys;
}

// Adds the numbers and texts in a JSON value. Nested lists become one row of numbers, in order; the
// field's section says the shape.
void add_json(const nlohmann::json& json, FieldValue& value) {
  if (json.is_array()) {
    for (const auto& each : json) add_json(each, value);
  } else if (json.is_number_integer()) {
    add_number(value, whole_of_json(json));
  } else if (json.is_number()) {
    add_number(value, json.get<double>());
  } else if (json.is_boolean()) {
    add_number(value, std::int64_t{json.get<bool>() ? 1 : 0});
  } else if (json.is_string()) {
    value.texts.push_back(json.get<std::string>());
  } else {
    throw SampleError("is neither a number, a text nor a list of them");
  }
}

// A row of left, top, right, bottom in pixels, and optionally a class. A class that is neither a number nor a name of
// `classes` becomes -2, which the check below refuses; the negated comparison refuses NaN, too.
LabelledBox box_of_json(const nlohmann::json& row, const std::vector<std::string>& classes) {
  if (!row.is_array() || row.size() < 4 || row.size() > 5) {
    throw SampleError("has a row that is no list of left, top, right, bottom, class");
  }
  BoxSides sides{};
  for (std::size_t i = 0; i < sides.size(); ++i) {
    if (!row[i].is_number()) throw SampleError("has a row whose sides are not all numbers");
    sides[i] = row[i].get<double>();
  }
  if (seems_to_be_shares(sides)) {
    throw SampleError(
        "has a box that does not reach beyond 1, as if its sides were shares of the image; multiply them "
        "by its width and height");
  }
  if (row.size() == 4) return labelled_box(sides, -1);
  double label = row[4].is_number() ? row[4].get<double>() : -2;
  if (row[4].is_string()) {
    const auto named = std::ranges::find(classes, row[4].get<std::string>());
    if (named != classes.end()) label = static_cast<double>(named - classes.begin());
  }
  if (!(label >= -1 && label < 2147483648.0) || std::floor(label) != label) {
    throw SampleError("has a box whose class is " + printable(row[4].dump()) + ", no class number" +
                      (row[4].is_string() ? " and not in its `classes`" : ""));
  }
  return labelled_box(sides, static_cast<std::int32_t>(label));
}

// The boxes in a list of rows, or in one row alone.
std::vector<LabelledBox> boxes_of_json(const nlohmann::json& json, const std::vector<std::string>& classes) {
  if (!json.is_array()) throw SampleError("is no list of rows of left, top, right, bottom, class");
  const bool is_row = !json.empty() && json.front().is_number();
  if (is_row) return {box_of_json(json, classes)};
  std::vector<LabelledBox> boxes;
  for (const auto& row : json) boxes.push_back(box_of_json(row, classes));
  return boxes;
}

// The kind of an image whose size is stated beside its boxes, which are then in pixels of that
// size. Without one they are in pixels of the image as it is.
RecordTable::Kind kind_of_json(const nlohmann::json& json) {
  const auto side = [&](const char* key) -> std::int64_t {
    if (!json.is_object()) return 0;
    const auto found = json.find(key);
    return found != json.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
  };
  return kind_of_size(side("width"), side("height"));
}

// A field's value in a sample: the member of that name.
FieldValue value_of_member(ContainerBytes& bytes, const TarSamples& samples, const TarSamples::Group& group,
                           const WantedFields::Wanted& wanted) {
  const Extent* member = samples.find(group, wanted.from);
  if (member != nullptr && wanted.is_bytes()) return {.bytes = *member};
  if (member != nullptr && wanted.field.kind != FieldKind::boxes) {
    if (member->length > kLargestAnnotationFile) throw SampleError("has more than 16 MiB");
    return value_of_text(bytes.text(*member), wanted.field.kind);
  }
  const std::string_view key = json_key(wanted.from);
  const nlohmann::json json = key.empty() ? nlohmann::json() : json_of_group(bytes, samples, group);
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (key.empty() || !json.is_object() || found == json.end()) {
    throw SampleError("is no member ." + wanted.from + " of the sample (it has " + samples.list(group) + ")");
  }
  if (wanted.field.kind == FieldKind::boxes) return {.boxes = boxes_of_json(*found, wanted.field.classes)};
  FieldValue value;
  add_json(*found, value);
  return value;
}

// Boxes can only come from JSON, because a text member has no rows.
bool may_have_member(const WantedFields::Wanted& wanted) {
  return wanted.field.kind != FieldKind::boxes || !json_key(wanted.from).empty();
}

void add_groups(ContainerBytes& bytes, const TarSamples& samples, ShardDraft& draft) {
  for (const TarSamples::Group& group : samples.groups()) {
    draft.begin(group.offset, group.key);
    try {
      const WantedFields& wanted = draft.wanted();
      FoundSample sample{.image = image_of_group(samples, group, wanted.image)};
      sample.label = label_of_group(bytes, samples, group, wanted.label);
      if (sample.label.kind == FoundLabel::Kind::absent && draft.needs_label_hint()) {
        draft.give_label_hint("the first sample has " + samples.list(group) + keys_of_group(bytes, samples, group) +
                              R"(; [fields.label] from = "MEMBER" or "json.KEY" says which is the class)");
      }
      if (wanted.has_boxes()) sample.kind = kind_of_json(json_of_group(bytes, samples, group));
      sample.fields =
          fields_of_sample(wanted, [&](const auto& each) { return value_of_member(bytes, samples, group, each); });
      draft.add(bytes, sample);
    } catch (const SampleError& error) {
      if (error.is_transient()) throw;
      draft.add_bad("byte " + std::to_string(group.offset) + ": " + error.what());
    }
  }
}

// After damage, the groups found so far are added before the error is rethrown, so that the file's
// report follows its samples.
void read_tar(ContainerBytes& bytes, ShardDraft& draft) {
  TarSamples samples;
  std::uint64_t left_out = 0;
  std::uint64_t links = 0;
  TarReader reader(bytes);
  try {
    for (TarMember member; reader.next(member);) {
      draft.reach(member.header);
      if (!member.problem.empty()) draft.add_bad_file(member.problem + "; the member after it is left out");
      if (member.kind == TarMember::Kind::link) ++links;
      const bool is_file = member.kind == TarMember::Kind::file || member.kind == TarMember::Kind::sparse;
      if (!is_file || !member.problem.empty()) continue;
      const MemberName name = split_member_name(member.name);
      if (name.key.empty() || member.kind == TarMember::Kind::sparse) {
        ++left_out;
      } else {
        samples.add(member, name);
      }
    }
  } catch (const SampleError& error) {
    if (!error.is_transient()) add_groups(bytes, samples, draft);
    throw;
  }
  add_groups(bytes, samples, draft);
  if (const std::string problem = reader.problem_of_end(); !problem.empty()) draft.add_warning(problem);
  if (left_out > 0) draft.add_note(std::to_string(left_out) + " members that belong to no sample");
  if (links > 0) draft.add_note(std::to_string(links) + " links, which are not followed");
}

bool is_webdataset(PathContents& contents) {
  if (contents.is_folder()) return is_folder_of_shards(contents, is_tar_name);
  return is_tar_name(contents.files().front()) || starts_as_tar(contents.contents_head());
}

IndexDraft build_webdataset(PathContents& contents) {
  return build_from_shards(contents, {.is_name = is_tar_name,
                                      .read = read_tar,
                                      .may_have = may_have_member,
                                      .missing = "no sample with an image in a tar archive"});
}

std::uint64_t hash_webdataset(const DatasetOptions& options) { return hash_shards(options, is_tar_name); }

}  // namespace

const Format formats::webdataset{.needs = "a tar archive",
                                 .detect = is_webdataset,
                                 .build = build_webdataset,
                                 .hash = hash_webdataset,
                                 .hashed = "the compressed files, or other files",
                                 .takes_patterns = true,
                                 .chooses_image = true,
                                 .reads_urls = true,
                                 .is_shard = is_tar_name};

}  // namespace forebay::data
