#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <forebay/options.hpp>

// One table of every key of the configuration. Reading, checking, writing, suggestions and the tables of
// docs/configuration.md are all based on it: a new key is a member in options.hpp, which has its default, and an entry
// in schema.cpp. That page also has the rest of the documentation of a key.
namespace forebay::config {

// The member of Options that holds a key's value.
template <typename T>
struct Place {
  const T& (*get)(const Options&);
  T& (*in)(Options&);
};

// Permitted values, both ends included unless `above_low`. No range contains NaN.
template <typename T>
struct Range {
  T low;
  T high;
  bool above_low = false;

  [[nodiscard]] constexpr bool contains(T value) const noexcept {
    return (above_low ? value > low : value >= low) && value <= high;
  }
};

// The kinds of value a key can have.
struct Flag {
  Place<bool> field;
};
struct Seed {  // an integer, or its digits as a string: TOML integers end at 2^63 - 1
  Place<std::uint64_t> field;
};
struct Integer {
  Place<std::int64_t> field;
  Range<std::int64_t> range;
};
struct Bytes {  // an integer, or text such as "256MiB"
  Place<std::int64_t> field;
  Range<std::int64_t> range;
};
struct Automatic {  // an integer, or "auto"
  Place<std::int64_t> field;
  Range<std::int64_t> range;   // of the integer
  std::int64_t automatic = 0;  // the value of "auto" in the options; outside of the range
};
struct Real {  // integers are also accepted
  Place<double> field;
  Range<double> range;
};
template <typename T, std::size_t N>
struct Tuple {
  Place<std::array<T, N>> field;
  Range<T> range;
};
struct RealList {
  Place<std::vector<double>> field;
  Range<double> range;
};
struct Text {
  Place<std::string> field;
  std::span<const std::string_view> choices;  // empty: any text
};
struct WholeList {
  Place<std::vector<std::int64_t>> field;
  Range<std::int64_t> range;
};
struct TextList {
  Place<std::vector<std::string>> field;
};
struct Choice {  // an enum whose enumerators are the indices of their names
  std::span<const std::string_view> names;
  std::size_t (*get)(const Options&);
  void (*set)(Options&, std::size_t);
};
struct Budget {  // "auto", an integer counts, a float is a share
  Place<BadBudget> field;
};

using Kind = std::variant<Flag, Seed, Integer, Bytes, Automatic, Real, Tuple<std::int64_t, 2>, Tuple<double, 2>,
                          Tuple<double, 3>, RealList, WholeList, Text, TextList, Choice, Budget>;

struct Key {
  std::string_view section;  // "" = top of the file
  std::string_view name;
  Kind kind;
  std::string_view help;  // one line, the comment in a written configuration
};

struct Section {
  std::string_view name;
  std::string_view help;    // may be empty
  bool of_samples = false;  // affects a sample's bytes in a batch, so a saved job resumes only with the same value
};

// In the order of the file; keys of one section follow each other.
[[nodiscard]] std::span<const Key> keys() noexcept;
[[nodiscard]] std::span<const Section> sections() noexcept;

// Null if there is none.
[[nodiscard]] const Key* find_key(std::string_view section, std::string_view name) noexcept;
[[nodiscard]] const Section* find_section(std::string_view name) noexcept;

// The keys of every section [fields.NAME]. They apply to the last of options.dataset.fields. REQUIRES: there is one.
[[nodiscard]] std::span<const Key> field_keys() noexcept;
// Null if there is none.
[[nodiscard]] const Key* find_field_key(std::string_view name) noexcept;
// Moves the field of this name to the end; adds it if there is none.
void select_field(Options& options, std::string_view name);

// "policy.low"; "seed" for a key at the top.
[[nodiscard]] std::string full_name(std::string_view section, std::string_view name);
[[nodiscard]] inline std::string full_name(const Key& key) { return full_name(key.section, key.name); }

// Messages for unknown names: what was probably meant, or else what exists. In suggest.cpp. "unknown key policy.beto:
// did you mean policy.beta?"; a key of a known section ("" = top of the file).
[[nodiscard]] std::string unknown_key(std::string_view section, std::string_view name);
// "unknown section [polcy]: did you mean [policy]?"
[[nodiscard]] std::string unknown_section(std::string_view name);
// "; did you mean index?": the closest of the known words. "" if none is close.
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> words);

// Distinguishes the kinds: std::visit(Overloaded{...}, key.kind).
template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

}  // namespace forebay::config
