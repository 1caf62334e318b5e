#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.hpp"
#include "console_log.hpp"
#include "counters.hpp"

namespace forebay::measure {

// Where telemetry.prometheus puts a rank's figures: a file, or a port of an address.
struct MetricsPlace {
  std::filesystem::path file;  // empty: a port
  std::string address;         // numeric IPv4 or IPv6
  std::uint16_t port = 0;      // 0: any free one
};

// Interprets the value of the key for one rank. With several ranks, the rank becomes part of the
// file's name, FILE.RANK.prom, or is added to the port. REQUIRES: text is not empty. Throws
// ConfigError, naming the key.
[[nodiscard]] MetricsPlace metrics_place(const std::string& text, std::uint32_t rank, std::uint32_t ranks);

// Answers HTTP requests for a rank's figures, without ever waiting for a client. For one thread.
class MetricsPort {
 public:
  // Listens. Throws ConfigError, naming telemetry.prometheus.
  explicit MetricsPort(const MetricsPlace& place);

  // The address at which it listens, for display: "http://127.0.0.1:9400/metrics".
  [[nodiscard]] std::string url() const;
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

  // Continues to serve clients; to be called every few milliseconds. `text`: the answer from now
  // on. `now_s`: on a monotonic clock; clients that take longer than a few seconds are
  // disconnected. Throws only if memory runs out.
  void serve(std::string_view text, double now_s);

 private:
  struct Client {
    FileDescriptor socket;
    double since_s = 0;
    std::string request;
    std::string answer;    // empty: the request is not complete yet
    std::size_t sent = 0;  // bytes of the answer
  };

  void accept_clients(double now_s);
  // Returns false once the client is finished.
  static bool go_on_with(Client& client, std::string_view text);

  std::string address_;
  std::uint16_t port_ = 0;
  FileDescriptor listener_;
  std::vector<Client> clients_;
};

// A rank's figures for a monitoring system.
struct RankMetrics {
  std::uint32_t rank = 0;
  Interval since_start;  // for figures that are counts
  Interval lately;       // for all others: the last complete interval of a few seconds
  bool is_running = true;
};

// The text exposition format of Prometheus, version 0.0.4: for each figure of intervals its help,
// its type, and its value with the label `rank`. A missing figure is left out.
[[nodiscard]] std::string metrics_text(const RankMetrics& metrics);

// Publishes the text where telemetry.prometheus says. Problems after the start are logged once and
// never thrown. For one thread.
class MetricsOutput {
 public:
  // Writes the file for the first time, or listens on the port. Throws ConfigError, naming
  // telemetry.prometheus.
  MetricsOutput(MetricsPlace place, std::string first_text, ConsoleLog& console);

  // Sets the text to be read from now on.
  void publish(std::string text);
  // Answers clients; does nothing if the output is a file. `now_s`: as for MetricsPort.
  void serve(double now_s);

  // None if the output is a file.
  [[nodiscard]] const std::optional<MetricsPort>& port() const noexcept { return port_; }

 private:
  MetricsPlace place_;
  ConsoleLog& console_;
  std::string text_;
  std::optional<MetricsPort> port_;
  bool has_warned_ = false;
};

}  // namespace forebay::measure
