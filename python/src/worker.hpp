#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace forebay::python {

// The library's end of a process that reads samples: a socket for requests and the places of
// answers, and memory that holds the answers. forebay/_worker.py is the process's end. One thread
// at a time.
class Worker {
 public:
  // A process's answer about a sample.
  struct Reply {
    enum class Status : std::int64_t { read = 0, transient = 1, permanent = 2 };
    struct Place {
      std::uint64_t is_path;
      std::uint64_t offset;
      std::uint64_t bytes;
    };
    Status status = Status::read;
    std::vector<Place> places;
  };

  explicit Worker(unsigned number) noexcept : number_(number) {}
  ~Worker() { disconnect(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] unsigned number() const noexcept { return number_; }
  // Takes ownership of both file descriptors.
  void connect(int socket, int memory) noexcept;
  // Closes the socket, which ends the process.
  void disconnect() noexcept;
  // Whether the process is still running, as far as is known.
  [[nodiscard]] bool is_there() const noexcept;
  // Requests a sample. False if the process has ended.
  [[nodiscard]] bool ask(std::uint64_t id) noexcept;
  // Waits for the answer; nothing if the process has ended, or once `abandoned` is set.
  [[nodiscard]] std::optional<Reply> answer(const std::atomic<bool>& abandoned);
  // The memory of each part. Valid until the next question. Throws SampleError if there is no such memory.
  [[nodiscard]] std::vector<std::span<const std::byte>> parts_of(const Reply& reply);

 private:
  [[nodiscard]] bool receive(std::span<std::byte> into, const std::atomic<bool>& abandoned) const noexcept;
  void unmap() noexcept;

  unsigned number_;
  int socket_ = -1;
  int memory_ = -1;
  std::span<std::byte> mapped_;
};

}  // namespace forebay::python
