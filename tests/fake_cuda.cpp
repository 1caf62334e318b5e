#include "fake_cuda.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "fake_cuda_runtime.hpp"

namespace forebay::testing {

FakeCuda::FakeCuda(const FakeMachine& machine) : runtime_(std::make_unique<Runtime>(machine)) {
  current_gpu = 0;
  has_context = false;
  last_error = cudaSuccess;
  running = runtime_.get();
}

FakeCuda::~FakeCuda() {
  runtime_->drain_all();
  running = nullptr;
}

void FakeCuda::fail_next(const std::string& call, cudaError_t status) {
  const std::scoped_lock guard(runtime_->lock);
  runtime_->failing[call] = status;
}

std::set<int> FakeCuda::started() const {
  const std::scoped_lock guard(runtime_->lock);
  return runtime_->started;
}

std::vector<std::string> FakeCuda::misuse() const {
  const std::scoped_lock guard(runtime_->lock);
  return runtime_->misuse;
}

int FakeCuda::priority_of(void* stream) const {
  return runtime_->stream_of(static_cast<cudaStream_t>(stream))->priority;
}

int FakeCuda::launches() const { return runtime_->launches; }

std::size_t FakeCuda::streams_and_events() const {
  const std::scoped_lock guard(runtime_->lock);
  const auto alive = [](const auto& made) -> bool { return made->alive; };
  return static_cast<std::size_t>(std::ranges::count_if(runtime_->all_streams, alive) +
                                  std::ranges::count_if(runtime_->all_events, alive));
}

std::size_t FakeCuda::memory_left() const { return runtime_->memory.left(); }

std::byte* behind(const void* gpu_address, std::size_t bytes) {
  FakeCuda::Runtime* const runtime = running;
  return runtime == nullptr ? nullptr : runtime->memory.behind(gpu_address, bytes);
}

// A kernel runs on the GPU of its stream; a driver that loads kernels for all GPUs accepts a stream
// of another one.
cudaError_t launch_on_host(std::function<void()> kernel, void* stream, const char* call) {
  return answer_on_gpu(call, [&](FakeCuda::Runtime& runtime) {
    FakeStream* const fake = runtime.stream_of(static_cast<cudaStream_t>(stream));
    if (fake == nullptr) return cudaErrorInvalidResourceHandle;
    ++runtime.launches;
    runtime.streams.push(fake->stream, std::move(kernel));
    return cudaSuccess;
  });
}

namespace {

constexpr std::size_t kPage = 4096;
constexpr int kJunk = 0xA5;

// Maps a memory file twice: once accessible, and once inaccessible.
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
