#include "metrics_place.hpp"

#include <arpa/inet.h>

#include <charconv>
#include <optional>
#include <string_view>

#include <forebay/error.hpp>

#include "base/text.hpp"

namespace forebay::measure {
namespace {

constexpr std::uint32_t kLastPort = 65535;

[[noreturn]] void refuse_place(const std::string& text, const std::string& why) {
  throw ConfigError("telemetry.prometheus = \"" + printable(text) + "\": " + why);
}

std::optional<std::uint32_t> port_in(std::string_view digits) {
  std::uint32_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return port;
}

bool is_address(const std::string& text) {
  in6_addr parsed{};
  return ::inet_pton(AF_INET, text.c_str(), &parsed) == 1 || ::inet_pton(AF_INET6, text.c_str(), &parsed) == 1;
}

}  // namespace

// A file, a port, or an address and a port. Each rank has its own: its number goes into the file's
// name, or is added to the port.
MetricsPlace metrics_place(const std::string& text, std::uint32_t rank, std::uint32_t ranks) {
  if (text.ends_with(".prom")) {
    std::filesystem::path file = text;
    if (ranks > 1) file.replace_extension("." + std::to_string(rank) + ".prom");
    return {.file = file, .address = {}, .port = 0};
  }
  const std::size_t colon = text.rfind(':');
  std::string address = colon == std::string::npos ? "127.0.0.1" : text.substr(0, colon);
  if (address.starts_with('[') && address.ends_with(']')) address = address.substr(1, address.size() - 2);
  const std::optional<std::uint32_t> port = port_in(std::string_view(text).substr(colon + 1));
  if (!port || !is_address(address)) {
    refuse_place(text,
                 R"(expected a file that ends in ".prom", a port such as "9400", which is bound to 127.0.0.1, or an )"
                 R"(address and a port such as "0.0.0.0:9400" or "[::]:9400")");
  }
  const std::uint32_t mine = *port == 0 ? 0 : *port + rank;
  if (*port > kLastPort || mine > kLastPort) {
    refuse_place(text, *port > kLastPort ? "ports end at 65535"
                                         : "rank " + std::to_string(rank) + " would have port " + std::to_string(mine) +
                                               ", and ports end at 65535: choose a lower one");
  }
  return {.file = {}, .address = address, .port = static_cast<std::uint16_t>(mine)};
}

}  // namespace forebay::measure
