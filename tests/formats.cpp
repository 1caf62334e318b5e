#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include <forebay/config.hpp>
#include <forebay/error.hpp>

#include "data/formats.hpp"
#include "dataset_support.hpp"
#include "support.hpp"

// The registry of dataset formats, and what is made from it.

using namespace forebay;
using namespace forebay::testing;

TEST_CASE("every format is complete, and found by its name") {
  for (const auto& [name, help, format] : kFormats) {
    CAPTURE(name);
    CHECK(find_format(name) == format);
    CHECK_FALSE(help.empty());
    CHECK_FALSE(format->needs.empty());
    const bool has_functions = format->detect != nullptr && format->build != nullptr;
    CHECK(has_functions);
    const bool has_hash = format->hash != nullptr;
    CHECK(has_hash == !format->hashed.empty());
  }
  CHECK(find_format("auto") == nullptr);
  CHECK(find_format("") == nullptr);
  CHECK(kFormatChoices.size() == kFormats.size() + 1);
}

TEST_CASE("a configuration may name each format, and nothing else") {
  for (const auto name : kFormatChoices) {
    const std::string text = "[dataset]\nformat = \"" + std::string(name) + "\"\n";
    CHECK(parse_options(text, "test", {}).dataset.format == name);
  }
  const std::string message = error_of([] { (void)parse_options("[dataset]\nformat = \"parquet\"\n", "test", {}); });
  for (const auto name : kFormatChoices) CHECK(contains(message, "\"" + std::string(name) + "\""));
}

TEST_CASE("docs/configuration.md says of each format what the registry says") {
  const std::string page = read_text(source_dir() / "docs" / "configuration.md");
  for (const auto& [name, help, format] : kFormats) {
    CHECK(contains(page, "| `" + std::string(name) + "` | " + std::string(help) + " |"));
  }
}
