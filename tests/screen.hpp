#pragma once

#include <nlohmann/json.hpp>

#include "measure/console_log.hpp"
#include "test.hpp"

namespace forebay::testing {

// A console log whose output can be read back.
struct Screen {
  explicit Screen(Live live = Live::never, std::uint32_t rank = 0) : log(rank, live, file.get()) {}

  [[nodiscard]] std::string text() const {
    std::fflush(file.get());
    std::rewind(file.get());
    std::string out;
    std::array<char, 4096> buffer{};
    for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), file.get())) > 0;) {
      out.append(buffer.data(), n);
    }
    return out;
  }
  [[nodiscard]] std::size_t count(std::string_view what) const {
    const std::string all = text();
    std::size_t found = 0;
    for (std::size_t at = 0; (at = all.find(what, at)) != std::string::npos; at += what.size()) ++found;
    return found;
  }

  struct Close {
    void operator()(std::FILE* stream) const noexcept { std::fclose(stream); }
  };
  std::unique_ptr<std::FILE, Close> file{std::tmpfile()};
  measure::ConsoleLog log;
};

// The objects of a JSON lines file; throws if a line is not JSON.
inline std::vector<nlohmann::json> read_lines(const std::filesystem::path& path) {
  std::vector<nlohmann::json> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

// Checks the figures that `expected` lists, floating-point ones approximately; there may be others.
inline void check_figures(const nlohmann::json& found, std::string_view expected) {
  const nlohmann::json figures = nlohmann::json::parse(expected);
  for (const auto& [name, figure] : figures.items()) {
    CAPTURE(name);
    if (figure.is_number_float()) {
      CHECK(found.at(name).get<double>() == doctest::Approx(figure.get<double>()));
    } else {
      CHECK(found.at(name) == figure);
    }
  }
}

}  // namespace forebay::testing
