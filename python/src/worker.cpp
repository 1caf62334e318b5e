// One process that reads samples, as seen by the library: a socket, and memory shared through a
// file descriptor. A request is the sample's number in 8 bytes. An answer is a status and a count
// of 8 bytes each, then the place of each part in the memory. Numbers are in native byte order,
// because both ends are on one machine.

#include "worker.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>

#include <forebay/error.hpp>

namespace forebay::python {
namespace {

// Chosen: how soon a reader notices that the feeder closes.
constexpr int kLookAgainMs = 20;
// Chosen; a larger number means that the process is broken.
constexpr std::uint64_t kMostPlaces = 4096;

}  // namespace

void Worker::connect(int socket, int memory) noexcept {
  disconnect();
  socket_ = socket;
  memory_ = memory;
}

void Worker::disconnect() noexcept {
  unmap();
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  if (memory_ >= 0) ::close(std::exchange(memory_, -1));
}

void Worker::unmap() noexcept {
  if (!mapped_.empty()) ::munmap(mapped_.data(), mapped_.size());
  mapped_ = {};
}

// A socket that is readable without a request has been closed at the other end.
bool Worker::is_there() const noexcept {
  if (socket_ < 0) return false;
  pollfd look{.fd = socket_, .events = POLLIN, .revents = 0};
  return ::poll(&look, 1, 0) == 0;  // nothing can arrive before a request
}

bool Worker::ask(std::uint64_t id) noexcept {
  // The process waits for a request, so the socket's buffer is empty and takes all eight bytes at
  // once.
  return ::send(socket_, &id, sizeof id, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof id);
}

// poll() has a timeout, so that `abandoned` is checked regularly.
bool Worker::receive(std::span<std::byte> into, const std::atomic<bool>& abandoned) const noexcept {
  while (!into.empty()) {
    pollfd look{.fd = socket_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&look, 1, kLookAgainMs);
    if (abandoned.load(std::memory_order_relaxed)) return false;
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t got = ::recv(socket_, into.data(), into.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

std::optional<Worker::Reply> Worker::answer(const std::atomic<bool>& abandoned) {
  std::array<std::uint64_t, 2> head{};
  if (!receive(std::as_writable_bytes(std::span(head)), abandoned) || head[1] > kMostPlaces) return std::nullopt;
  Reply reply{.status = static_cast<Reply::Status>(head[0]),
              .places = std::vector<Reply::Place>(static_cast<std::size_t>(head[1]))};
  if (!receive(std::as_writable_bytes(std::span(reply.places)), abandoned)) return std::nullopt;
  return reply;
}

// The process enlarges the memory as needed; it is mapped again when a part lies beyond the present
// mapping.
std::vector<std::span<const std::byte>> Worker::parts_of(const Reply& reply) {
  // All parts must be mapped before any is handed out, because mapping again moves the memory.
  std::uint64_t end = 0;
  for (const Reply::Place& place : reply.places) end = std::max(end, place.offset + place.bytes);
  if (end > mapped_.size()) {
    unmap();
    struct stat status {};
    const bool is_there = ::fstat(memory_, &status) == 0 && static_cast<std::uint64_t>(status.st_size) >= end;
    const auto bytes = static_cast<std::size_t>(status.st_size);
    void* const memory = is_there ? ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, memory_, 0) : MAP_FAILED;
    if (memory == MAP_FAILED) throw SampleError("the memory that a process of the dataset shares cannot be mapped");
    mapped_ = {static_cast<std::byte*>(memory), bytes};
  }
  std::vector<std::span<const std::byte>> parts;
  for (const Reply::Place& place : reply.places) {
    parts.push_back(mapped_.subspan(static_cast<std::size_t>(place.offset), static_cast<std::size_t>(place.bytes)));
  }
  return parts;
}

}  // namespace forebay::python
