// Prometheus's text format (version 0.0.4) of an interval's figures, and its two outputs: a file
// for node_exporter's textfile collector, replaced once a second, or a small HTTP server. Runs on
// the telemetry thread. A counter covers the time since the start, a gauge the last few seconds.
// Names follow Prometheus's conventions (base units, _total).
//
// The server has no thread of its own: its sockets are non-blocking and polled every 40 ms. It
// answers GET and HEAD of /metrics and closes. Limits on the number, time and length of requests
// keep an idle client from costing more than a descriptor.

#include "metrics.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <forebay/error.hpp>

#include "base/output_file.hpp"
#include "base/text.hpp"
#include "figures.hpp"

namespace forebay::measure {
namespace {

constexpr std::uint32_t kLastPort = 65535;

[[noreturn]] void refuse_place(const std::string& text, const std::string& why) {
  throw ConfigError("telemetry.prometheus = \"" + printable(text) + "\": " + why);
}

bool is_address(const std::string& text) {
  in6_addr parsed{};
  return ::inet_pton(AF_INET, text.c_str(), &parsed) == 1 || ::inet_pton(AF_INET6, text.c_str(), &parsed) == 1;
}

}  // namespace

// A file, a port, or an address and a port. Each rank has its own: its number becomes part of the
// file's name, or is added to the port.
MetricsPlace metrics_place(const std::string& text, std::uint32_t rank, std::uint32_t ranks) {
  if (text.ends_with(".prom")) {
    std::filesystem::path file = text;
    if (ranks > 1) file.replace_extension("." + std::to_string(rank) + ".prom");
    return {.file = file, .address = {}, .port = 0};
  }
  const std::size_t colon = text.rfind(':');
  std::string address = colon == std::string::npos ? "127.0.0.1" : text.substr(0, colon);
  if (address.starts_with('[') && address.ends_with(']')) address = address.substr(1, address.size() - 2);
  const auto port = parse_number<std::uint32_t>(std::string_view(text).substr(colon + 1));
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

namespace {

// These three limits are a choice: a scraper is one client, which is done within milliseconds.
constexpr std::size_t kMostClients = 16;
constexpr double kPatienceWithClient_s = 5;
constexpr std::size_t kLongestRequest = 8192;

// The address as a socket address, and its size.
std::pair<sockaddr_storage, socklen_t> socket_address(const std::string& address, std::uint16_t port) {
  sockaddr_storage storage{};
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (::inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
    std::memcpy(&storage, &v4, sizeof v4);
    return {storage, sizeof v4};
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  ::inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr);
  std::memcpy(&storage, &v6, sizeof v6);
  return {storage, sizeof v6};
}

std::uint16_t port_of(int socket, std::uint16_t asked) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return asked;
  sockaddr_in v4{};
  std::memcpy(&v4, &storage, sizeof v4);  // the port is at the same place in both families
  return ntohs(v4.sin_port);
}

std::string answer_to(std::string_view request, std::string_view text) {
  const bool is_head = request.starts_with("HEAD ");
  const std::string_view target = request.substr(std::min(request.find(' ') + 1, request.size()));
  const std::string_view path = target.substr(0, target.find_first_of(" ?\r"));
  std::string_view status = "200 OK";
  if (path != "/metrics" && path != "/") status = "404 Not Found";
  if (!is_head && !request.starts_with("GET ")) status = "405 Method Not Allowed";
  const std::string body(status == "200 OK" ? text : "the figures are at /metrics\n");
  return "HTTP/1.1 " + std::string(status) +
         "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + (is_head ? "" : body);
}

}  // namespace

MetricsPort::MetricsPort(const MetricsPlace& place) : address_(place.address), port_(place.port) {
  const auto refuse = [&](const char* what) {
    const std::string cause = std::generic_category().message(errno);
    throw ConfigError("telemetry.prometheus: cannot " + std::string(what) + " " + url() + ": " + cause +
                      "; name another port, or a file that ends in \".prom\"");
  };
  const auto [storage, size] = socket_address(address_, port_);
  listener_ = FileDescriptor(::socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener_.is_open()) refuse("make a socket for");
  // Connections of the previous run may still be in TIME_WAIT.
  const int yes = 1;
  ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&storage), size) != 0) refuse("serve");
  if (::listen(listener_.get(), kMostClients) != 0) refuse("serve");
  port_ = port_of(listener_.get(), port_);
}

std::string MetricsPort::url() const {
  const bool is_v6 = address_.find(':') != std::string::npos;
  return "http://" + (is_v6 ? "[" + address_ + "]" : address_) + ":" + std::to_string(port_) + "/metrics";
}

void MetricsPort::serve(std::string_view text, double now_s) {
  accept_clients(now_s);
  std::erase_if(clients_, [&](Client& client) {
    return now_s - client.since_s > kPatienceWithClient_s || !go_on_with(client, text);
  });
}

void MetricsPort::accept_clients(double now_s) {
  while (clients_.size() < kMostClients) {
    FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) return;
    clients_.push_back({.socket = std::move(socket), .since_s = now_s, .request = {}, .answer = {}});
  }
}

// Returns false once the client is done or gone.
bool MetricsPort::go_on_with(Client& client, std::string_view text) {
  std::array<char, 1024> part{};
  while (client.answer.empty()) {
    const ssize_t got = ::recv(client.socket.get(), part.data(), part.size(), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0 || client.request.size() > kLongestRequest) return false;
    client.request.append(part.data(), static_cast<std::size_t>(got));
    if (client.request.find("\r\n\r\n") != std::string::npos) client.answer = answer_to(client.request, text);
  }
  while (client.sent < client.answer.size()) {
    const std::string_view rest = std::string_view(client.answer).substr(client.sent);
    const ssize_t sent = ::send(client.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    client.sent += static_cast<std::size_t>(sent);
  }
  return false;
}

namespace {

// "bytes_read" as "forebay_bytes_read_total", "read_s" as "forebay_read_seconds_total", "R" as "forebay_r".
std::string metric_name(const Figure<Interval>& figure) {
  std::string name = "forebay_";
  name += lower_case(figure.key);
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

// The figure's meaning without Markdown, and its unit.
std::string help_of(const Figure<Interval>& figure) {
  std::string help(figure.meaning);
  std::erase(help, '`');
  return figure.unit.empty() ? help : help + " (" + std::string(figure.unit) + ")";
}

// Replaces the file atomically, so that a reader always finds it complete. It need not survive a
// crash of the machine: a slow disk should not hold up telemetry for longer than necessary. Returns
// the cause of failure; "" if there is none.
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

// The first text is written at the start, so that a place that cannot be written is an error then,
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
