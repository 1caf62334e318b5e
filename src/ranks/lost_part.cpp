// Decides whether bad samples are spread, which a budget may allow, or are a part of the dataset
// that is gone, which no budget should hide. Candidates are the classes, folders and container
// files of the bad samples; for each of them sound samples are looked for until there are as many
// as clear it. Called collectively with the same set on all ranks, at a few moments of a run, so
// the result must not depend on the order of a hash set: parts are kept in ordered maps, and the
// samples named are the lowest.

#include "lost_part.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <string_view>

#include <forebay/error.hpp>

#include "base/text.hpp"
#include "data/guarded_dataset.hpp"

namespace forebay::ranks {
namespace {

constexpr std::int64_t kNoClass = -1;
// Examples in a message.
constexpr std::size_t kFirst = 3;
// How formats with many records per file name a sample: "FILE[record 12]".
constexpr std::string_view kRecord = "[record ";
constexpr const char* kMendOrAllow =
    "; mend it, or set max_bad (a share such as 0.05, or a count) to do without it, and run the command again";

// The container file of a record; empty for a sample that is none.
std::string_view container_of(std::string_view name) {
  const auto at = name.ends_with(']') ? name.rfind(kRecord) : std::string_view::npos;
  return at == std::string_view::npos ? std::string_view() : name.substr(0, at);
}

// The container file of a record, else the folder of a file; empty if the name has neither.
std::string place_of(std::string_view name) {
  if (const std::string_view file = container_of(name); !file.empty()) return std::string(file);
  const auto slash = name.substr(0, name.rfind("#object ")).rfind('/');
  return slash == std::string_view::npos ? std::string() : std::string(name.substr(0, slash + 1));
}

// Calls look(id) for each sample until it returns false, in steps of the golden section, made
// coprime to the number of samples so that each comes once: samples of one class or folder are
// usually adjacent, and this reaches all of them early.
template <typename Look>
void look_around(std::uint64_t samples, Look&& look) {
  std::uint64_t stride = std::max<std::uint64_t>(static_cast<std::uint64_t>(0.618 * static_cast<double>(samples)), 1);
  while (std::gcd(stride, samples) != 1) ++stride;
  std::uint64_t id = 0;
  for (std::uint64_t i = 0; i < samples && look(id); ++i) id = (id + stride) % samples;
}

}  // namespace

// A part that was cleared is examined again only when more of it is bad. Classes sort after places,
// so the last one left is the more informative.
std::optional<LostPart> LostParts::find(const std::unordered_set<std::uint64_t>& bad) {
  std::map<Part, Members> left = suspects(bad);
  std::map<Part, std::size_t> looked_at;
  for (const auto& [part, members] : left) looked_at[part] = members.bad.size();
  clear(left, bad);
  if (left.empty()) {
    for (auto& [part, count] : looked_at) cleared_[part] = count;
    return std::nullopt;
  }
  const auto& [part, members] = *left.rbegin();  // places come first, and then classes
  LostPart lost{.what = std::to_string(members.bad.size()) + " of the " +
                        std::to_string(members.bad.size() + members.whole) + " samples " + title(part) + " are bad",
                .first = members.bad};
  std::ranges::sort(lost.first);
  lost.first.resize(std::min(lost.first.size(), kFirst));
  return lost;
}

std::map<LostParts::Part, LostParts::Members> LostParts::suspects(const std::unordered_set<std::uint64_t>& bad) const {
  std::map<Part, Members> parts;
  for (const std::uint64_t id : bad) {
    const std::int64_t label = class_of(id);
    if (label != kNoClass) parts[{label, ""}].bad.push_back(id);
    if (std::string place = place_of(dataset_.name(id)); !place.empty()) {
      parts[{kNoClass, std::move(place)}].bad.push_back(id);
    }
  }
  std::erase_if(parts, [this](const auto& entry) {
    const auto& [part, members] = entry;
    const auto before = cleared_.find(part);
    return members.bad.size() < kLeast || (before != cleared_.end() && before->second == members.bad.size());
  });
  return parts;
}

void LostParts::clear(std::map<Part, Members>& suspects, const std::unordered_set<std::uint64_t>& bad) const {
  const bool has_places = std::ranges::any_of(suspects, [](const auto& each) { return each.first.first == kNoClass; });
  const auto found = [&suspects](const Part& part) {
    const auto at = suspects.find(part);
    if (at == suspects.end()) return;
    Members& members = at->second;
    const std::uint64_t enough = members.bad.size() < kLeastForHalf ? 1 : members.bad.size();
    if (++members.whole >= enough) suspects.erase(at);
  };
  look_around(selection_ ? selection_->samples() : dataset_.size(), [&](std::uint64_t number) {
    if (suspects.empty()) return false;
    const std::uint64_t id = selection_ ? selection_->id(number) : number;
    if (bad.contains(id)) return true;
    found({class_of(id), ""});
    if (has_places) found({kNoClass, place_of(dataset_.name(id))});
    return true;
  });
}

// A damaged container file loses its later samples, and only its entry among the skipped ones shows
// that in the index; so its count is compared with the mean of the sound files.
std::optional<std::string> LostParts::unreadable_file() const {
  if (dataset_.size() == 0 || container_of(dataset_.name(0)).empty()) return std::nullopt;
  std::map<std::string, std::uint64_t, std::less<>> held;  // samples by file
  std::map<std::string_view, const Skipped*> damaged;
  for (const Skipped& entry : dataset_.skipped()) {
    // "set/00000-of-00001.fbpack[cat/1.jpg]" is a sample that packing left out, and no file.
    if (!entry.bad || entry.path.ends_with(']')) continue;
    damaged.emplace(entry.path, &entry);
  }
  if (damaged.empty()) return std::nullopt;
  for (const auto& [path, entry] : damaged) held[std::string(path)] = 0;
  for (std::uint64_t id = 0; id < dataset_.size(); ++id) ++held[std::string(container_of(dataset_.name(id)))];
  const std::uint64_t files = held.size();
  const auto sound = static_cast<std::uint64_t>(
      std::ranges::count_if(held, [&](const auto& file) { return !damaged.contains(file.first); }));
  if (sound == 0) return std::nullopt;
  std::uint64_t samples = 0;  // of files that are whole
  for (const auto& [path, count] : held) samples += damaged.contains(path) ? 0 : count;
  for (const auto& [path, entry] : damaged) {
    const std::uint64_t count = held.find(path)->second;
    if (2 * count * sound >= samples) continue;
    return entry->path + ": " + entry->reason + "; the index found " + std::to_string(count) +
           " samples in it, and in each of the other " + std::to_string(files - 1) + " files " +
           std::to_string(samples / sound) + " on average";
  }
  return std::nullopt;
}

void LostParts::refuse(const std::unordered_set<std::uint64_t>& bad) {
  if (const auto file = unreadable_file()) throw Error(*file + kMendOrAllow);
  const auto lost = find(bad);
  if (lost) throw Error(lost->what + ", such as " + printable(dataset_.name(lost->first.front())) + kMendOrAllow);
}

std::string LostParts::by_class(const std::unordered_set<std::uint64_t>& bad) const {
  constexpr std::size_t kMost = 3;
  std::map<std::int64_t, std::uint64_t> counts;
  for (const std::uint64_t id : bad) ++counts[class_of(id)];
  counts.erase(kNoClass);
  std::vector<std::pair<std::int64_t, std::uint64_t>> classes(counts.begin(), counts.end());
  std::ranges::stable_sort(classes, std::ranges::greater(), [](const auto& each) { return each.second; });
  const auto text = [this](const auto& each) { return std::to_string(each.second) + " " + title({each.first, ""}); };
  return joined(std::span(classes).first(std::min(kMost, classes.size())), ", ", text) +
         (classes.size() > kMost ? ", ..." : "");
}

std::int64_t LostParts::class_of(std::uint64_t id) const {
  const std::int64_t label = dataset_.sample(id).label;
  return data::may_be_label(dataset_, label) ? label : kNoClass;
}

std::string LostParts::title(const Part& part) const {
  const auto& [label, place] = part;
  if (label == kNoClass) return "in " + place;
  const auto number = static_cast<std::size_t>(label);
  const bool is_named = label >= 0 && number < dataset_.classes().size();
  return "of class " + (is_named ? "\"" + dataset_.classes()[number] + "\"" : std::to_string(label));
}

}  // namespace forebay::ranks
