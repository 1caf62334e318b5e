#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace forebay::cli {

// The result of `forebay index --fill-cache`.
struct CacheFill {
  std::uint64_t samples = 0;     // samples that a run on this node reads
  std::uint64_t read = 0;        // how many of them were read; there was no room for the rest
  std::uint64_t unreadable = 0;  // how many of those are bad
  std::uint64_t from_store = 0;  // bytes
  std::uint64_t held = 0;        // bytes in the cache at the end
};

struct FillArguments {
  bool is_wanted = false;
  std::optional<std::int64_t> node;  // 0 to dataset.nodes - 1; nothing: all samples
};
void add_fill_options(CLI::App& command, FillArguments& arguments);

// Throws ConfigError, naming what to set, if the cache cannot be filled from what is at `path`.
void require_fillable(const FillArguments& arguments, const std::string& path, const Options& options);
// Reads the samples, with their fields, through the cache that the options name, until the cache is
// full: those of one node, or all. What is cached already is read from the cache, so a second call
// continues where the first one stopped. Returns nothing if filling was not asked for. Throws Error
// if the cache cannot be used, or if the store keeps failing.
[[nodiscard]] std::optional<CacheFill> fill_cache(const FillArguments& arguments, const Options& options,
                                                  const Dataset& dataset);

// For people.
[[nodiscard]] std::string to_text(const CacheFill& fill);
// For programs.
[[nodiscard]] nlohmann::ordered_json to_json(const CacheFill& fill);

}  // namespace forebay::cli
