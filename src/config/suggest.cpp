#include "schema.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace forebay::config {
namespace {

// Edits (insert, delete, replace, swap neighbours; each place at most once) that turn one word into another:
// the "optimal string alignment" distance.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before_last;
  std::vector<std::size_t> last(to.size() + 1);
  for (std::size_t j = 0; j < last.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::vector<std::size_t> row(to.size() + 1, i);
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, std::move(row));
  }
  return last.back();
}

// Beyond this a suggestion is a guess rather than a correction.
std::size_t most_edits(std::string_view word) { return 1 + word.size() / 4; }

// Of equally near ones, one of the same section.
const Key* nearest_key(std::string_view section, std::string_view name) {
  const Key* best = nullptr;
  std::pair<std::size_t, bool> least{most_edits(name) + 1, false};
  for (const Key& key : keys()) {
    const std::pair distance{edit_distance(name, key.name), key.section != section};
    if (distance < least) {
      best = &key;
      least = distance;
    }
  }
  return best;
}

const Key* key_elsewhere(std::string_view name) {
  const auto all = keys();
  const auto found = std::ranges::find(all, name, &Key::name);
  return found == all.end() ? nullptr : &*found;
}

std::string place_of(const Key& key) {
  if (key.section.empty()) return "at the top of the file, before the first [section]";
  return "in [" + std::string(key.section) + "]";
}

template <typename Items, typename Wanted>
std::string listed(const Items& items, Wanted wanted) {
  std::vector<std::string_view> names;
  for (const auto& item : items) {
    if (wanted(item)) names.push_back(item.name);
  }
  return joined(names, ", ");
}

}  // namespace

// A key that exists in another section is the likeliest mistake; then a misspelling; then the list
// of what there is.
std::string unknown_key(std::string_view section, std::string_view name) {
  const std::string sentence = "unknown key " + full_name(section, name) + ": ";
  if (const Key* key = key_elsewhere(name)) return sentence + "`" + std::string(name) + "` belongs " + place_of(*key);
  if (const Key* key = nearest_key(section, name)) return sentence + "did you mean " + full_name(*key) + "?";
  const std::string known = listed(keys(), [&](const Key& key) { return key.section == section; });
  return sentence + (section.empty() ? "the keys outside sections" : "the keys of [" + std::string(section) + "]") +
         " are " + known;
}

std::string unknown_section(std::string_view name) {
  const std::string sentence = "unknown section [" + std::string(name) + "]: ";
  const auto all = sections();
  const auto nearest =
      std::ranges::min_element(all, {}, [&](const Section& section) { return edit_distance(name, section.name); });
  if (edit_distance(name, nearest->name) <= most_edits(name)) {
    return sentence + "did you mean [" + std::string(nearest->name) + "]?";
  }
  return sentence + "the sections are " + listed(all, [](const Section&) { return true; });
}

std::string did_you_mean(std::string_view word, std::span<const std::string> words) {
  const auto nearest =
      std::ranges::min_element(words, {}, [word](const std::string& each) { return edit_distance(word, each); });
  if (nearest == words.end() || edit_distance(word, *nearest) > most_edits(word)) return "";
  return "; did you mean " + *nearest + "?";
}

}  // namespace forebay::config
