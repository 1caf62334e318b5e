#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <toml++/toml.h>

// TOML text from anywhere, made safe for the parser.
namespace forebay::config {

// "feed.toml:3:7".
[[nodiscard]] std::string place(std::string_view origin, const toml::source_position& position);

// The text of a configuration file. Throws ConfigError naming the file.
[[nodiscard]] std::string read_file(const std::filesystem::path& file);

// Throws ConfigError with the place in `origin` for text that is not TOML or is nested too deep.
[[nodiscard]] toml::table parse_document(std::string_view text, std::string_view origin);

// Whether a key has more parts, or brackets are nested deeper, than in any configuration. The parser makes a table of
// each part of a key, and parsing, freeing and printing recurse: such text must not reach it. Accepts text that is not
// TOML.
[[nodiscard]] bool is_nested_too_deep(std::string_view text) noexcept;

}  // namespace forebay::config
