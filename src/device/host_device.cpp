#include "host_device.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

#include <forebay/error.hpp>

namespace forebay::device {
namespace {

constexpr std::size_t kHugePage = 2UL * 1024 * 1024;
constexpr std::size_t kPage = 4096;  // the smallest; larger ones are touched several times

// Anonymous memory, aligned to huge pages and asked to become such: a batch is hundreds of small
// pages, and TLB misses show in the decoders' stores. What is needed at once is touched here, so
// that a lack of memory shows at the start.
class HostArena final : public Arena {
 public:
  HostArena(std::size_t bytes, std::size_t at_once, std::size_t system_huge_page)
      : size_(std::max(bytes, kPage)), mapped_(size_ + kHugePage) {
    void* const at = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
      throw Error("cannot allocate " + std::to_string(bytes >> 20) + " MiB for the ring: " + std::strerror(errno) +
                  "; lower queue.capacity, queue.pool, dataset.batch_size or transform.size");
    }
    mapping_ = static_cast<std::byte*>(at);
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    data_ = mapping_ + ((address + kHugePage - 1) / kHugePage * kHugePage - address);
    huge_ = size_ >= kHugePage && system_huge_page <= kHugePage && ::madvise(data_, size_, MADV_HUGEPAGE) == 0;
    for (std::size_t offset = 0; offset < std::min(at_once, size_); offset += kPage) data_[offset] = std::byte{0};
  }
  ~HostArena() override { ::munmap(mapping_, mapped_); }
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() noexcept override { return {data_, size_}; }
  [[nodiscard]] std::string_view describe() const noexcept override {
    return huge_ ? "host memory, huge pages asked for" : "host memory";
  }

 private:
  std::size_t size_;
  std::size_t mapped_;
  std::byte* mapping_ = nullptr;
  std::byte* data_ = nullptr;
  bool huge_ = false;
};

}  // namespace

std::size_t HostDevice::huge_page_of_system() {
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
  std::size_t bytes = 0;
  return in >> bytes ? bytes : 0;
}

std::unique_ptr<Arena> HostDevice::allocate(std::size_t bytes) { return allocate_growing(bytes, bytes); }

std::unique_ptr<Arena> HostDevice::allocate_growing(std::size_t bytes, std::size_t at_once) {
  return std::make_unique<HostArena>(bytes, at_once, huge_page_);
}

void HostDevice::copy_in(std::byte* to, const std::byte* from, std::size_t bytes, StreamView /*stream*/) {
  std::memcpy(to, from, bytes);
}

void HostDevice::copy_out(std::byte* to, const std::byte* from, std::size_t bytes, StreamView /*stream*/) {
  std::memcpy(to, from, bytes);
}

// The host's renderer needs the transform's options and is made by the feeder.
std::unique_ptr<make::CanvasRenderer> HostDevice::make_renderer(const make::RenderPlan& /*plan*/,
                                                                std::uint32_t /*places*/) {
  return nullptr;
}

}  // namespace forebay::device
