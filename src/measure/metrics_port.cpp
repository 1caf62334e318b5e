// A minimal HTTP server for Prometheus on the telemetry thread: non-blocking sockets, asked every
// 40 ms, no thread of its own. It answers GET and HEAD of /metrics and closes. Limits on clients,
// time and length keep somebody who connects and says nothing from costing more than a descriptor.

#include "metrics_port.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <forebay/error.hpp>

namespace forebay::measure {
namespace {

// Chosen, like the two below: a scraper is one client, done within milliseconds.
constexpr std::size_t kMostClients = 16;
constexpr double kPatienceWithClient_s = 5;
constexpr std::size_t kLongestRequest = 8192;

// The address as the system wants it, and its size.
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
  // A run may begin while connections of the one before it are being forgotten.
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

// False once the client is done or gone.
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

}  // namespace forebay::measure
