#include "size_text.hpp"

#include <array>
#include <charconv>
#include <limits>

namespace forebay::config {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t bytes;
};

// The larger first.
constexpr std::array<Unit, 11> kUnits{{{"TiB", std::int64_t{1} << 40},
                                       {"TB", 1'000'000'000'000},
                                       {"GiB", std::int64_t{1} << 30},
                                       {"GB", 1'000'000'000},
                                       {"MiB", std::int64_t{1} << 20},
                                       {"MB", 1'000'000},
                                       {"KiB", std::int64_t{1} << 10},
                                       {"kB", 1'000},
                                       {"KB", 1'000},
                                       {"B", 1},
                                       {"", 1}}};

}  // namespace

std::optional<std::int64_t> parse_size(std::string_view text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || number < 0) return std::nullopt;
  std::string_view name(rest, static_cast<std::size_t>(end - rest));
  if (name.starts_with(' ')) name.remove_prefix(1);
  for (const Unit& unit : kUnits) {
    if (unit.name != name) continue;
    if (number > std::numeric_limits<std::int64_t>::max() / unit.bytes) return std::nullopt;
    return number * unit.bytes;
  }
  return std::nullopt;
}

std::string exact_size(std::int64_t bytes) {
  if (bytes <= 0) return "";
  for (const Unit& unit : kUnits) {
    if (unit.bytes == 1) break;
    if (bytes % unit.bytes == 0) return std::to_string(bytes / unit.bytes) + std::string(unit.name);
  }
  return "";
}

}  // namespace forebay::config
