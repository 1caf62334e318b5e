#include <algorithm>
#include <forebay/error.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/file_io.hpp"
#include "formats.hpp"
#include "shards.hpp"
#include "tar_file.hpp"

// WebDataset: tar archives. Members whose paths are equal up to the first dot of the file name belong together:
// "n01/0001.jpg" and "n01/0001.cls". The part after the dot says what a member is.
namespace forebay {
namespace {

// Members that may be the image, the likeliest first.
constexpr std::array<std::string_view, 8> kImageMembers{"jpg", "jpeg", "jpe", "png", "webp", "tif", "tiff", "npy"};
constexpr std::array<std::string_view, 4> kImagePrefixes{"image.", "img.", "input.", "rgb."};
// Names of the class, as a member with a text or a key in the JSON.
constexpr std::array<std::string_view, 3> kClassMembers{"cls", "class", "label"};
constexpr std::array<std::string_view, 5> kClassKeys{"label", "cls", "class", "class_id", "category_id"};

bool is_tar_name(std::string_view name) {
  return name.ends_with(".tar") || name.ends_with(".tgz") || name.ends_with(".tar.gz");
}

// The parts before and after the first dot of the file name; no key if the member belongs to no sample.
struct MemberName {
  std::string_view key;
  std::string kind;  // in lower case
};
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

  // A name that reappears after others with a kind that its sample already has begins another sample, as in joined
  // archives.
  void add(const TarMember& member, const MemberName& name) {
    const auto [kind, is_new_kind] = kind_numbers_.try_emplace(name.kind, static_cast<std::uint32_t>(kinds_.size()));
    if (is_new_kind) kinds_.push_back(name.kind);
    const auto [place, is_new] = numbers_.try_emplace(std::string(name.key), groups_.size());
    const bool is_earlier = !is_new && place->second + 1 != groups_.size();
    if (is_earlier && seen_.contains({place->second, kind->second})) place->second = groups_.size();
    if (place->second == groups_.size())
      groups_.push_back({.key = place->first, .offset = member.header, .members = {}});
    seen_.emplace(place->second, kind->second);
    groups_[place->second].members.push_back({.kind = kind->second, .contents = member.contents});
  }

  [[nodiscard]] const std::vector<Group>& groups() const noexcept { return groups_; }

  // The member of this kind; null if there is none. Throws SampleError if there are two.
  [[nodiscard]] const Extent* find(const Group& group, std::string_view kind) const {
    const Extent* found = nullptr;
    for (const Member& member : group.members) {
      if (kinds_[member.kind] != kind) continue;
      if (found != nullptr) throw SampleError("has two members ." + std::string(kind));
      found = &member.contents;
    }
    return found;
  }
  // ".cls, .txt"
  [[nodiscard]] std::string list(const Group& group) const {
    std::string text;
    constexpr std::size_t kNamed = 8;
    for (const Member& member : std::span(group.members).first(std::min(kNamed, group.members.size()))) {
      text += (text.empty() ? "." : ", .") + kinds_[member.kind];
    }
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

const Extent& image_of_group(const TarSamples& samples, const TarSamples::Group& group, const std::string& wanted) {
  if (!wanted.empty()) {
    if (const Extent* found = samples.find(group, wanted)) return *found;
    throw SampleError("has no image ." + wanted + ", only " + samples.list(group));
  }
  for (const auto kind : kImageMembers) {
    if (const Extent* found = samples.find(group, kind)) return *found;
  }
  for (const auto prefix : kImagePrefixes) {
    for (const auto kind : kImageMembers) {
      if (const Extent* found = samples.find(group, std::string(prefix) + std::string(kind))) return *found;
    }
  }
  throw SampleError("has no image (.jpg, .png and the like), only " + samples.list(group));
}

// The JSON of a sample; null if it has none.
nlohmann::json json_of_group(ContainerBytes& bytes, const TarSamples& samples, const TarSamples::Group& group) {
  constexpr std::size_t kDeepest = 64;
  const Extent* member = samples.find(group, "json");
  if (member == nullptr) return {};
  if (member->length > kLargestAnnotationFile) throw SampleError("its .json has more than 16 MiB");
  const std::string_view text = bytes.text(*member);
  if (json_depth(text) > kDeepest) throw SampleError("its .json is nested too deeply");
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) throw SampleError("its .json is no JSON");
  return json;
}

FoundLabel label_of_json(const nlohmann::json& json, std::span<const std::string_view> keys) {
  if (!json.is_object()) return {};
  for (const auto key : keys) {
    const auto found = json.find(key);
    if (found == json.end()) continue;
    if (found->is_number_unsigned() && found->get<std::uint64_t>() > std::uint64_t{1} << 62U) break;
    if (found->is_number_integer()) return FoundLabel::of(found->get<std::int64_t>());
    if (found->is_number()) return label_of_float(found->get<float>());
    if (found->is_string()) return label_of_text(found->get<std::string>());
    return FoundLabel::none();
  }
  return {};
}

// A member of a sample's JSON that a section names: "json.age" is "age"; "" for another member.
std::string_view json_key(std::string_view from) { return from.starts_with("json.") ? from.substr(5) : ""; }

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

// The numbers and texts in a JSON value, nested arrays included.
void add_json(const nlohmann::json& json, FieldValue& value) {
  if (json.is_array()) {
    for (const auto& each : json) add_json(each, value);
  } else if (json.is_number_integer() && value.floats.empty()) {
    value.integers.push_back(json.get<std::int64_t>());
  } else if (json.is_number() || json.is_boolean()) {
    // If one is a float, all become floats.
    value.floats.insert(value.floats.end(), value.integers.begin(), value.integers.end());
    value.integers.clear();
    value.floats.push_back(json.is_boolean() ? (json.get<bool>() ? 1 : 0) : json.get<double>());
  } else if (json.is_string()) {
    value.texts.push_back(json.get<std::string>());
  } else {
    throw SampleError("is neither a number, a text nor a list of them");
  }
}

// Rows of left, top, right, bottom in pixels, and optionally a class.
std::vector<LabelledBox> boxes_of_json(const nlohmann::json& json) {
  std::vector<LabelledBox> boxes;
  for (const auto& row : json) {
    FieldValue value;
    add_json(row, value);
    value.floats.insert(value.floats.begin(), value.integers.begin(), value.integers.end());
    const auto& numbers = value.floats;
    if (numbers.size() < 4 || numbers.size() > 5)
      throw SampleError("has a row that is no left, top, right, bottom, class");
    const double label = numbers.size() == 5 ? numbers[4] : -1;
    if (!(label >= -1 && label < 2147483648.0)) throw SampleError("has a class that is none");
    boxes.push_back({.left = static_cast<float>(numbers[0]),
                     .top = static_cast<float>(numbers[1]),
                     .right = static_cast<float>(numbers[2]),
                     .bottom = static_cast<float>(numbers[3]),
                     .label = static_cast<std::int32_t>(label)});
  }
  return boxes;
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
  if (wanted.field.kind == FieldKind::boxes) return {.boxes = boxes_of_json(*found)};
  FieldValue value;
  add_json(*found, value);
  return value;
}

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
      sample.fields =
          fields_of_sample(wanted, [&](const auto& each) { return value_of_member(bytes, samples, group, each); });
      draft.add(bytes, sample);
    } catch (const SampleError& error) {
      if (error.is_transient()) throw;
      draft.add_bad("byte " + std::to_string(group.offset) + ": " + error.what());
    }
  }
}

void read_tar(ContainerBytes& bytes, ShardDraft& draft) {
  TarSamples samples;
  std::uint64_t left_out = 0;
  std::uint64_t links = 0;
  TarReader reader(bytes);
  try {
    for (TarMember member; reader.next(member);) {
      draft.reach(member.header);
      if (!member.problem.empty()) draft.add_bad_file(member.problem + "; the member behind it is left out");
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
                                 .chooses_image = true};

}  // namespace forebay
