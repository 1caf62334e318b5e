#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include <forebay/options.hpp>

// Settings that two runs must have in common.
namespace forebay {

// By full name of the key, as TOML: what decides which batches there are, pixels included.
[[nodiscard]] std::map<std::string, std::string> batch_settings(const Options& options);

// Adds the keys of these full names.
void add_settings(std::map<std::string, std::string>& settings, const Options& options,
                  std::span<const std::string_view> names);

}  // namespace forebay
