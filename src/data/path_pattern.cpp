// Expands paths that stand for several files: braces as in the shell, "{000..146}" and "{a,b}", and
// the wildcards of glob(7).
//
// As in the shell, braces are expanded first, and give names whether or not the files exist, so
// that a missing shard is an error rather than silently left out; wildcards give only what exists.
// Names are in the order of the braces, and sorted bytewise within a wildcard, so that the same
// files are always in the same order.

#include "path_pattern.hpp"

#include <glob.h>
#include <algorithm>
#include <cstdint>
#include <forebay/error.hpp>
#include <optional>
#include <unordered_set>

#include "base/text.hpp"
#include "scan.hpp"
#include "store/url.hpp"

namespace forebay::data {
namespace {

// Chosen: far more shards than a dataset has.
constexpr std::size_t kMostNames = 1'000'000;

bool has_wildcard(std::string_view text) noexcept {
  return !store::is_url(text) && text.find_first_of("*?[") != std::string_view::npos;
}

struct PatternNumber {
  std::uint64_t value = 0;
  std::size_t digits = 0;
};

std::optional<PatternNumber> pattern_number(std::string_view text) {
  const auto value = parse_number<std::uint64_t>(text);
  return value ? std::optional(PatternNumber{*value, text.size()}) : std::nullopt;
}

// As in bash: "0000..0009" is padded to the width of the wider number if either end has a leading
// zero.
std::vector<std::string> expand_range(std::string_view inside, std::size_t dots) {
  const auto first = pattern_number(inside.substr(0, dots));
  const auto last = pattern_number(inside.substr(dots + 2));
  if (!first || !last || first->value > last->value || last->value - first->value >= kMostNames) {
    throw ConfigError("{" + std::string(inside) + "} is no range of numbers that rises by less than a million");
  }
  const bool is_padded = (inside.front() == '0' && first->digits > 1) || (inside[dots + 2] == '0' && last->digits > 1);
  const std::size_t digits = is_padded ? std::max(first->digits, last->digits) : 0;
  std::vector<std::string> names;
  for (std::uint64_t i = 0; i <= last->value - first->value; ++i) {
    const std::string text = std::to_string(first->value + i);
    names.push_back(std::string(digits - std::min(digits, text.size()), '0') + text);
  }
  return names;
}

// Expands the text between two braces: a range, or alternatives separated by commas.
std::vector<std::string> expand_braces(std::string_view inside) {
  const auto dots = inside.find("..");
  if (inside.find(',') == std::string_view::npos && dots != std::string_view::npos) return expand_range(inside, dots);
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= inside.size();) {
    const std::size_t end = std::min(inside.find(',', begin), inside.size());
    names.emplace_back(inside.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

// Appends the existing files that match, sorted bytewise, because glob() itself sorts by locale.
// With GLOB_ERR, a folder that cannot be listed is an error; otherwise it would look empty.
void add_matches(const std::string& pattern, std::vector<std::string>& names) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found);
  const auto first = static_cast<std::ptrdiff_t>(names.size());
  for (std::size_t i = 0; result == 0 && i < found.gl_pathc; ++i) names.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  std::sort(names.begin() + first, names.end());
  if (result == GLOB_NOSPACE) throw ConfigError("there is no memory for the files that match " + pattern);
  if (result == GLOB_ABORTED) throw ConfigError("a folder of " + pattern + " cannot be listed");
}

}  // namespace

// The folder above the first part that varies; sample names are relative to it.
std::string folder_of_pattern(std::string_view pattern) {
  const std::size_t varies = store::is_url(pattern) ? pattern.find('{') : pattern.find_first_of("*?[{");
  const std::string folder(parent_folder(pattern.substr(0, varies)));
  return folder.empty() ? "/" : folder;
}

bool is_path_pattern(std::string_view path) noexcept {
  return has_wildcard(path) || path.find('{') != std::string_view::npos;
}

std::vector<std::string> expand_path_pattern(const std::string& pattern) {
  std::vector<std::string> heads{""};
  std::string_view rest = pattern;
  for (;;) {
    const auto open = rest.find('{');
    const auto close = rest.find('}', open);
    if (open == std::string_view::npos) break;
    if (close == std::string_view::npos) throw ConfigError("a { is not closed");
    const auto choices = expand_braces(rest.substr(open + 1, close - open - 1));
    if (choices.size() > kMostNames / heads.size()) throw ConfigError("it stands for more than a million names");
    std::vector<std::string> longer;
    for (const auto& head : heads) {
      for (const auto& choice : choices) longer.emplace_back(head).append(rest.substr(0, open)).append(choice);
    }
    heads = std::move(longer);
    rest = rest.substr(close + 1);
  }
  std::vector<std::string> names;
  for (const auto& head : heads) {
    const std::string name = head + std::string(rest);
    has_wildcard(name) ? add_matches(name, names) : names.push_back(name);
  }
  std::unordered_set<std::string_view> seen;
  std::vector<std::string> distinct;
  for (const auto& name : names) {
    if (seen.insert(name).second) distinct.push_back(name);
  }
  return distinct;
}

// The pattern of the first is tried. A folder that may not be listed, where none was expected, ends that.
std::string pattern_of_files(const std::string& folder, std::span<const std::string> read,
                             std::vector<std::string> below) {
  const std::string within = folder.ends_with('/') ? folder : folder + "/";
  const std::string_view first = std::string_view(below.front()).substr(within.size());
  const std::string_view name = base_name(first);
  std::string pattern = within + "{,";
  for (auto levels = std::ranges::count(first, '/'); levels > 0; --levels) pattern += "*/";
  pattern.append("}*").append(name.substr(std::min(name.find('.'), name.size())));
  below.insert(below.end(), read.begin(), read.end());
  std::ranges::sort(below);
  try {
    std::vector<std::string> named = expand_path_pattern(pattern);
    std::ranges::sort(named);
    return named == below && !is_path_pattern(folder) ? pattern : "";
  } catch (const ConfigError&) {
    return "";
  }
}

}  // namespace forebay::data
