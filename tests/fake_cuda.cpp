#include "fake_cuda.hpp"

#include <algorithm>
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

// A kernel runs on the GPU of its stream: a driver that loads kernels for all GPUs does not refuse another's.
cudaError_t launch_on_host(std::function<void()> kernel, void* stream) {
  return answer_on_gpu("launch", [&](FakeCuda::Runtime& runtime) {
    FakeStream* const fake = runtime.stream_of(static_cast<cudaStream_t>(stream));
    if (fake == nullptr) return cudaErrorInvalidResourceHandle;
    ++runtime.launches;
    runtime.streams.push(fake->stream, std::move(kernel));
    return cudaSuccess;
  });
}

}  // namespace forebay::testing
