#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace forebay::measure {

// Where telemetry.prometheus wants a rank's figures: in a file, or on a port of an address.
struct MetricsPlace {
  std::filesystem::path file;  // empty = on a port
  std::string address;         // IPv4 or IPv6, in figures
  std::uint16_t port = 0;      // 0 = any that is free
};

// What the value of the key says of one rank: of several, each has its number in its file's name, FILE.RANK.prom, or
// added to the port. REQUIRES: text is not empty. Throws ConfigError naming the key.
[[nodiscard]] MetricsPlace metrics_place(const std::string& text, std::uint32_t rank, std::uint32_t ranks);

}  // namespace forebay::measure
