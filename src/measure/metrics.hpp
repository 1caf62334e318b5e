#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "console_log.hpp"
#include "counters.hpp"
#include "metrics_place.hpp"
#include "metrics_port.hpp"

namespace forebay::measure {

// What a rank tells a monitoring system.
struct RankMetrics {
  std::uint32_t rank = 0;
  Interval since_start;  // what is counted
  Interval lately;       // all else: of a stretch of some seconds that is over
  bool is_running = true;
};

// The text exposition format of Prometheus, version 0.0.4: of each figure of intervals its help, its kind and its value
// with the label `rank`. A figure that is missing is left out.
[[nodiscard]] std::string metrics_text(const RankMetrics& metrics);

// Puts the text where telemetry.prometheus says. Trouble after the start is told once, and never thrown. One thread.
class MetricsOutput {
 public:
  // Writes the file for the first time, or listens on the port. Throws ConfigError naming telemetry.prometheus.
  MetricsOutput(MetricsPlace place, std::string first_text, ConsoleLog& console);

  // What is read from now on.
  void publish(std::string text);
  // Answers those who asked; `now_s` as for MetricsPort.
  void serve(double now_s);

  // Nothing when it is a file.
  [[nodiscard]] const std::optional<MetricsPort>& port() const noexcept { return port_; }

 private:
  MetricsPlace place_;
  ConsoleLog& console_;
  std::string text_;
  std::optional<MetricsPort> port_;
  bool has_warned_ = false;
};

}  // namespace forebay::measure
