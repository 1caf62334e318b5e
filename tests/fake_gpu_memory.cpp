#include "fake_gpu_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace forebay::testing {
namespace {

constexpr std::size_t kPage = 4096;
constexpr int kJunk = 0xA5;

// A file in memory, mapped where anyone may look and where nobody may.
bool map_twice(std::size_t bytes, std::byte*& open, std::byte*& closed) {
  const int file = ::memfd_create("fake-gpu", 0);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) return false;
  void* const first = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  void* const second = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
  ::close(file);
  if (first == MAP_FAILED || second == MAP_FAILED) return false;
  open = static_cast<std::byte*>(first);
  closed = static_cast<std::byte*>(second);
  return true;
}

}  // namespace

FakeGpuMemory::~FakeGpuMemory() {
  while (!allocations_.empty()) free(const_cast<std::byte*>(allocations_.begin()->first));
}

void* FakeGpuMemory::allocate(std::size_t bytes) {
  bytes = (bytes + kPage - 1) / kPage * kPage;
  if (bytes > left()) return nullptr;
  std::byte* open = nullptr;
  std::byte* closed = nullptr;
  if (!map_twice(bytes, open, closed)) return nullptr;
  std::memset(open, kJunk, bytes);
  const std::scoped_lock lock(lock_);
  allocations_[closed] = {.bytes = bytes, .behind = open};
  return closed;
}

bool FakeGpuMemory::free(void* address) {
  const std::scoped_lock lock(lock_);
  const auto found = allocations_.find(static_cast<const std::byte*>(address));
  if (found == allocations_.end()) return false;
  ::munmap(found->second.behind, found->second.bytes);
  ::munmap(address, found->second.bytes);
  allocations_.erase(found);
  return true;
}

std::byte* FakeGpuMemory::behind(const void* address, std::size_t bytes) const {
  const auto* const first = static_cast<const std::byte*>(address);
  const std::scoped_lock lock(lock_);
  auto found = allocations_.upper_bound(first);
  if (found == allocations_.begin()) return nullptr;
  --found;
  const auto offset = static_cast<std::size_t>(first - found->first);
  if (offset > found->second.bytes || bytes > found->second.bytes - offset) return nullptr;
  return found->second.behind + offset;
}

std::size_t FakeGpuMemory::left() const {
  const std::scoped_lock lock(lock_);
  std::size_t taken = 0;
  for (const auto& [address, allocation] : allocations_) taken += allocation.bytes;
  return total_ - taken;
}

}  // namespace forebay::testing
