#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace forebay::testing {

// Memory of GPUs that do not exist. Its addresses cannot be read or written: whoever touches them from the host, as on
// a real GPU, does not live on. The same bytes lie at another address, which only the fake runtime knows. Any thread.
class FakeGpuMemory {
 public:
  explicit FakeGpuMemory(std::size_t total) : total_(total) {}
  ~FakeGpuMemory();
  FakeGpuMemory(const FakeGpuMemory&) = delete;
  FakeGpuMemory& operator=(const FakeGpuMemory&) = delete;

  // Null when less than that is left. Filled with what nobody should rely on.
  [[nodiscard]] void* allocate(std::size_t bytes);
  // False when there is no such allocation.
  bool free(void* address);
  // Where the host may touch the bytes at `address`; null unless all of them are in one allocation.
  [[nodiscard]] std::byte* behind(const void* address, std::size_t bytes) const;
  [[nodiscard]] std::size_t total() const noexcept { return total_; }
  [[nodiscard]] std::size_t left() const;

 private:
  struct Allocation {
    std::size_t bytes;
    std::byte* behind;
  };

  std::size_t total_;
  mutable std::mutex lock_;
  std::map<const std::byte*, Allocation> allocations_;
};

}  // namespace forebay::testing
