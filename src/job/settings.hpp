#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>
#include <forebay/order.hpp>

// What a job states of itself, in states and recordings, and how two jobs differ.
namespace forebay::job {

// Values as TOML, by full name of the key; hashes, by what they are of.
using Settings = std::map<std::string, std::string>;

// The settings that determine the batches, pixels included.
[[nodiscard]] Settings batch_settings(const Options& options);

// Adds the keys of these full names.
void add_settings(Settings& settings, const Options& options, std::span<const std::string_view> names);

// Adds what determines which samples there are: a hash of the contents of files where it is known, and the selection
// (null: all samples), unless the program gave it.
void add_data(Settings& settings, const Options& options, const Dataset& dataset, const Selection* selection);

// "KEY = VALUE" of either, or that it has none.
struct Difference {
  std::string theirs;
  std::string ours;
};

// Where another job's settings and ours differ first, contents of files aside. A key that one of them does not state
// has its default; files of weights may lie elsewhere, because their contents are compared.
[[nodiscard]] std::optional<Difference> first_difference(const Settings& theirs, const Settings& ours);

// The hashes of the contents of files, if both are known and differ.
[[nodiscard]] std::optional<Difference> other_contents(const Settings& theirs, const Settings& ours);

}  // namespace forebay::job
