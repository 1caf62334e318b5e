#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <forebay/config.hpp>
#include <forebay/error.hpp>

#include "base/file_io.hpp"
#include "support.hpp"

// Configurations that are meant to do harm, or are not files.
namespace forebay {
namespace {

namespace fs = std::filesystem;
using testing::contains;

TEST_CASE("deep nesting is refused with its place, and never reaches the parser") {
  const auto refusal = [](const std::string& toml) {
    try {
      static_cast<void>(parse_options(toml, "f"));
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto dotted = [](std::size_t parts) {
    std::string key = "a";
    for (std::size_t i = 1; i < parts; ++i) key += i % 3 == 0 ? " . a" : (i % 3 == 1 ? ".a" : ".\"a\"");
    return key;
  };
  const std::string deep = ": nested too deep: a key is section.key, and a list holds values";
  for (const std::size_t parts : {17U, 40'000U}) {
    CAPTURE(parts);
    CHECK(refusal("seed = 1\n" + dotted(parts) + " = 1\n").starts_with("f:2:"));
    CHECK(refusal(dotted(parts) + " = 1\n").ends_with(deep));
    CHECK(refusal("[" + dotted(parts) + "]\n").ends_with(deep));
    CHECK(refusal("[[" + dotted(parts) + "]]\n").ends_with(deep));
    CHECK(refusal("x = {" + dotted(parts) + " = 1}\n").ends_with(deep));
    CHECK(refusal("x = " + std::string(parts, '[') + std::string(parts, ']')).ends_with(deep));
    CHECK(refusal("x = \"stray\n" + dotted(parts) + " = 1\n").ends_with(deep));
    const std::vector<std::string> overrides{"seed={" + dotted(parts) + "=1}"};
    CHECK_THROWS_AS(static_cast<void>(parse_options("", "f", overrides)), ConfigError);
  }
  CHECK(contains(refusal(dotted(16) + " = 1\n"), "unknown"));
  // Dots outside keys.
  const std::string dots(100, '.');
  CHECK(refusal("# " + dots + "\n[dataset]\npath = \"a\\\"" + dots + "\"\nlabels = \'" + dots + "\'\nindex = \"\"\"\n" +
                dots + "\"\"\"\n[transform]\nmean = [0.1, 0.2,\n0.3]\n") == "");
}

TEST_CASE("a long string whose text ends in quotes does not hide the rest of its line") {
  std::string key = "a";
  for (int i = 1; i < 40'000; ++i) key += ".a";
  for (const char quote : {'"', '\''}) {
    const std::string three(3, quote);
    for (const std::size_t own : {0U, 1U, 2U}) {
      CAPTURE(quote);
      CAPTURE(own);
      const std::string text = "a" + std::string(own, quote);
      const std::string value = "[" + three + text + three + ", {" + key + " = 1}]";
      CHECK_THROWS_WITH_AS(static_cast<void>(parse_options("x = " + value + "\n", "f")),
                           doctest::Contains(": nested too deep"), ConfigError);
      const std::vector<std::string> overrides{"transform.mean=" + value};
      CHECK_THROWS_WITH_AS(static_cast<void>(parse_options("", "f", overrides)),
                           doctest::Contains("transform.mean: expected"), ConfigError);
      CHECK(parse_options("[dataset]\nindex = " + three + text + three + "\n", "f").dataset.index == text);
    }
  }
}

TEST_CASE("a configuration may come from a pipe that ends; one that never ends, or never begins, is refused") {
  const testing::TemporaryDirectory dir;
  const auto refusal = [](const fs::path& file) {
    try {
      static_cast<void>(load_options(file));
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const fs::path fifo = dir / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(refusal(fifo) ==
        "the configuration " + fifo.string() + " is a FIFO that nobody writes to, or that nothing was written to");
  CHECK(contains(refusal("/dev/zero"), "the configuration /dev/zero has more than 4194304 bytes"));
  CHECK(load_options("/dev/null").seed == Options().seed);

  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const fs::path reading = "/dev/fd/" + std::to_string(ends[0]);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_text_file(reading, 100, 1)), doctest::Contains("gave nothing for 1 s"),
                       Error);
  std::jthread writer([&] {
    const std::string text = "seed = 77\n";
    CHECK(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    ::close(ends[1]);
  });
  CHECK(load_options(reading).seed == 77);
  writer.join();
  ::close(ends[0]);
}

}  // namespace
}  // namespace forebay
