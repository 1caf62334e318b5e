#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.hpp"
#include "metrics_place.hpp"

namespace forebay::measure {

// Answers HTTP requests for the figures of a rank, without ever waiting for anybody. One thread.
class MetricsPort {
 public:
  // Listens. Throws ConfigError naming telemetry.prometheus.
  explicit MetricsPort(const MetricsPlace& place);

  // Where it listens, for people: "http://127.0.0.1:9400/metrics".
  [[nodiscard]] std::string url() const;
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

  // Goes on with whoever asked: call it every few milliseconds. `text`: what is answered from now on. `now_s`: on a
  // clock that keeps running; who takes longer than some seconds is hung up on. Never throws but for memory.
  void serve(std::string_view text, double now_s);

 private:
  struct Client {
    FileDescriptor socket;
    double since_s = 0;
    std::string request;
    std::string answer;    // empty = the request is not complete
    std::size_t sent = 0;  // of the answer
  };

  void accept_clients(double now_s);
  // False when it is done with.
  static bool go_on_with(Client& client, std::string_view text);

  std::string address_;
  std::uint16_t port_ = 0;
  FileDescriptor listener_;
  std::vector<Client> clients_;
};

}  // namespace forebay::measure
