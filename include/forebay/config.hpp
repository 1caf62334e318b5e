#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/options.hpp>

namespace forebay {

class Communicator;

// Reads a TOML configuration file; `overrides` are "section.key=value" strings applied on top, in order. Relative paths
// in the file are relative to the working directory, as on a command line. The file may be a pipe that is written to
// and closed (`<(...)`, /dev/stdin). A FIFO without a writer, a terminal, more than 4 MiB, and a pipe that delivers
// nothing for a minute are refused, so this never waits forever. Keys set by neither keep their values in `defaults`.
// Throws ConfigError naming file, line and key: unknown keys (with the nearest known key), wrong types (with what was
// expected), and values out of range.
[[nodiscard]] Options load_options(const std::string& file, std::span<const std::string> overrides = {},
                                   const Options& defaults = {});

// The same for the ranks of a job: each reads the file, and if one of them cannot, all throw its ConfigError, which
// names the rank. (If that rank alone threw, the others would wait in their next collective call.) Collective and
// blocking.
[[nodiscard]] Options load_options(const std::string& file, const Communicator& communicator,
                                   std::span<const std::string> overrides = {}, const Options& defaults = {});

// Like the first load_options(), for text in memory; messages have `origin` in place of the file name.
[[nodiscard]] Options parse_options(std::string_view toml, std::string_view origin = "config",
                                    std::span<const std::string> overrides = {}, const Options& defaults = {});

// Checks every value and every combination of values that does not need the file system. Throws ConfigError naming the
// key. load_options() and parse_options() call it at the end; the Feeder calls it for Options filled in by code.
void validate(const Options& options);

// The effective configuration, every key with its value, as TOML from which parse_options() reads the same Options.
[[nodiscard]] std::string to_toml(const Options& options);

// A configuration key, for programs that offer keys under names of their own.
struct ConfigKey {
  std::string section;  // "" = at the top of the file
  std::string name;
  std::string expected;       // what its value must be: "a whole number from 1 to 4096"
  std::string default_value;  // as TOML
  std::string help;           // one line
};

// Every key except those of [fields.NAME], in the order of a written file.
[[nodiscard]] std::vector<ConfigKey> config_keys();

}  // namespace forebay
