#include "list_labels.hpp"

#include <algorithm>
#include <charconv>
#include <forebay/error.hpp>

namespace forebay {
namespace {

bool is_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error != std::errc::invalid_argument && end == text.data() + text.size();
}

// "1 0 1": several words, each of them a number.
bool are_several_numbers(std::string_view text) {
  std::size_t words = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    if (end > 0 && !is_number(text.substr(0, end))) return false;
    words += end > 0 ? 1 : 0;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words > 1;
}

bool is_set(std::string_view label) {
  return label.find_first_of("|;") != std::string_view::npos || label.starts_with('[') || label.starts_with('{') ||
         are_several_numbers(label);
}

}  // namespace

std::optional<std::int64_t> integer_in(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool are_numbers(const Entries& entries, const std::vector<std::string>& given) {
  return std::all_of(entries.begin(), entries.end(), [&](const ListRecord& entry) {
    return entry.second.empty() ||
           (integer_in(entry.second) && std::find(given.begin(), given.end(), entry.second) == given.end());
  });
}

void refuse_labels_of_other_kinds(const Entries& entries, const std::vector<std::string>& given,
                                  const std::string& file) {
  const auto refuse = [&](const ListRecord& entry, const std::string& what) {
    throw ConfigError(
        file + ": the label \"" + std::string(entry.second) + "\" of " + std::string(entry.first) + " is " + what +
        ". Supported is one class per image: its number (0, 1, ...) or its name. Keep other targets in the "
        "trainer; ids() of a batch says which entries of the list it holds");
  };
  bool all_numbers = true;
  const ListRecord* fraction = nullptr;
  for (const auto& entry : entries) {
    const std::string_view label = entry.second;
    if (label.empty() || std::find(given.begin(), given.end(), label) != given.end()) continue;
    if (is_set(label)) refuse(entry, "a set of labels");
    const bool number = is_number(label);
    all_numbers = all_numbers && number;
    if (number && fraction == nullptr && !integer_in(label)) fraction = &entry;
  }
  if (all_numbers && fraction != nullptr) refuse(*fraction, "a number with a fraction (regression)");
}

}  // namespace forebay
