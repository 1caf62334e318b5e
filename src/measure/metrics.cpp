// Prometheus's text format (version 0.0.4) from the figures of an interval, and its two ways out: a
// file for node_exporter's textfile collector, replaced once a second, or a small HTTP port. On the
// telemetry thread. A counter covers the time since the start, a gauge the last seconds; names
// follow Prometheus's conventions (base units, _total).

#include "metrics.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <system_error>
#include <utility>

#include <forebay/error.hpp>

#include <spdlog/fmt/fmt.h>

#include "base/output_file.hpp"
#include "base/text.hpp"
#include "figures.hpp"

namespace forebay::measure {
namespace {

// "bytes_read" as "forebay_bytes_read_total", "read_s" as "forebay_read_seconds_total", "R" as "forebay_r".
std::string metric_name(const Figure<Interval>& figure) {
  std::string name = "forebay_";
  for (const char c : figure.key) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (figure.unit == "s") {
    if (name.ends_with("_s")) name.resize(name.size() - 2);
    name += "_seconds";
  }
  return figure.is_count ? name + "_total" : name;
}

void append_family(std::string& out, const std::string& name, bool is_count, std::string_view help, std::uint32_t rank,
                   double value) {
  fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n{}{{rank=\"{}\"}} {}\n", name, help, name,
                 is_count ? "counter" : "gauge", name, rank, shortest(value));
}

// Its words without Markdown, and its unit.
std::string help_of(const Figure<Interval>& figure) {
  std::string help(figure.meaning);
  std::erase(help, '`');
  return figure.unit.empty() ? help : help + " (" + std::string(figure.unit) + ")";
}

// The file is complete whenever it is read. It is not made to survive a crash of the machine: a disk that hangs must
// not hold up the rest of telemetry longer than it has to. Returns the reason if it cannot be written.
// Returns the cause of failure, "" if there is none.
std::string write_metrics(const std::filesystem::path& file, std::string_view text) {
  struct stat status {};
  const bool is_there = ::lstat(file.c_str(), &status) == 0;
  // A rename would replace even a device.
  if (is_there && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) return "it " + describe_special(status.st_mode);
  const std::filesystem::path draft = file.native() + ".new";
  bool is_made = false;
  try {
    const FileDescriptor out = open_made(draft);
    is_made = true;
    write_all(out, text);
    if (::rename(draft.c_str(), file.c_str()) == 0) return "";
    throw Error("cannot replace it: " + std::generic_category().message(errno));
  } catch (const Error& error) {
    if (is_made) ::unlink(draft.c_str());
    return error.what();
  }
}

}  // namespace

std::string metrics_text(const RankMetrics& metrics) {
  std::string out;
  append_family(out, "forebay_running", false, "1 while the run is going, 0 once it has ended", metrics.rank,
                metrics.is_running ? 1 : 0);
  for (const Figure<Interval>& figure : interval_figures()) {
    const std::optional<double> value = number_of(figure, figure.is_count ? metrics.since_start : metrics.lately);
    if (value) append_family(out, metric_name(figure), figure.is_count, help_of(figure), metrics.rank, *value);
  }
  return out;
}

// The first text is written at the start, so that a place that cannot be written is an error then
// and not a warning later.
MetricsOutput::MetricsOutput(MetricsPlace place, std::string first_text, ConsoleLog& console)
    : place_(std::move(place)), console_(console), text_(std::move(first_text)) {
  if (place_.file.empty()) {
    port_.emplace(place_);
    return;
  }
  const std::string cause = write_metrics(place_.file, text_);
  if (cause.empty()) return;
  throw ConfigError("telemetry.prometheus: cannot write " + printable(place_.file.native()) + ": " + cause +
                    "; name a file in a folder that exists and may be written to");
}

void MetricsOutput::publish(std::string text) {
  text_ = std::move(text);
  if (port_) return;
  const std::string cause = write_metrics(place_.file, text_);
  if (cause.empty() || std::exchange(has_warned_, true)) return;
  console_.warn("telemetry.prometheus: cannot write " + printable(place_.file.native()) + ": " + cause +
                "; its figures are old, the run continues");
}

void MetricsOutput::serve(double now_s) {
  if (port_) port_->serve(text_, now_s);
}

}  // namespace forebay::measure
