#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace forebay::cli {

// What `forebay index --fill-cache` did.
struct CacheFill {
  std::uint64_t samples = 0;     // that a run on this node reads
  std::uint64_t read = 0;        // of them; the rest has no room
  std::uint64_t unreadable = 0;  // of those: bad ones
  std::uint64_t from_store = 0;  // bytes
  std::uint64_t held = 0;        // bytes, at the end
};

struct FillArguments {
  bool is_wanted = false;
  std::optional<std::int64_t> node;  // of dataset.nodes
};
void add_fill_options(CLI::App& command, FillArguments& arguments);

// Throws ConfigError where a cache cannot be filled with what lies at `path`, naming what to set.
void require_fillable(const FillArguments& arguments, const std::string& path, const Options& options);
// Reads the samples through the cache that the options name: those of one node, or all, with their fields, until the
// cache takes no more. What is there is read from there, so that it may be called again and goes on. Nothing if it is
// not wanted. Throws Error where the cache cannot be used, or if the store keeps failing.
[[nodiscard]] std::optional<CacheFill> fill_cache(const FillArguments& arguments, const Options& options,
                                                  const Dataset& dataset);

// For people.
[[nodiscard]] std::string to_text(const CacheFill& fill);
// For programs.
[[nodiscard]] nlohmann::ordered_json to_json(const CacheFill& fill);

}  // namespace forebay::cli
