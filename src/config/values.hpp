#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/options.hpp>

#include "measure/run_log.hpp"
#include "schema.hpp"

// The permitted values of keys, and values as text.
namespace forebay::config {

// A description of values of this kind, to follow the word "expected": "a whole number from 1 to 4096".
[[nodiscard]] std::string expectation(const Kind& kind);

// The shortest text that reads back to the same double, always with a point, an exponent, or inf/nan: a TOML float.
[[nodiscard]] std::string to_text(double value);

// A key's value as TOML: 16, "256MiB", [0.08, 1.0].
[[nodiscard]] std::string value_text(const Key& key, const Options& options);

// The keys of a field that differ from the defaults, since most are for other kinds, and their values as TOML.
[[nodiscard]] std::vector<std::pair<const Key*, std::string>> field_values(const FieldOptions& field);

// Appends the section of a field, as TOML.
void append_field(std::string& out, const FieldOptions& field);

// Bytes from "4096", "64 MB" (10^6) or "256MiB" (2^20); units up to T. Nothing if it is not a size or does not fit.
[[nodiscard]] std::optional<std::int64_t> parse_size(std::string_view text);

struct Problem {
  std::string key;      // full name of the key to change
  std::string message;  // includes the name of the key
};

// The first value, or combination of values, that cannot be honoured; nothing if all are valid.
[[nodiscard]] std::optional<Problem> find_problem(const Options& options);

// Every key with its value, in which the runs of a comparison may differ. In values.cpp.
[[nodiscard]] measure::Settings settings_of(const Options& options);

}  // namespace forebay::config
