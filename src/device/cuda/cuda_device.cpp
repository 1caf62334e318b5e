// The CUDA backend of Device. Forebay's threads make its GPU current for good (enter_thread); the
// trainer's thread may have another GPU current, or a context of its own, so every call on it
// pushes the device's context and pops it again. Streams and events are made and ended on threads
// of their own for the same reason. Events block instead of spinning, because the waiting core
// belongs to decoders. A trainer may be capturing a CUDA graph: calls that capture would forbid are
// made in relaxed mode, and those that would end up in the graph are refused.

#include "cuda_device.hpp"

#include <cuda_runtime_api.h>

#include <exception>
#include <forebay/error.hpp>
#include <memory>
#include <type_traits>

#include "cuda_error.hpp"
#include "gpu_context.hpp"
#include "make/canvas.hpp"
#include "memory.hpp"
#include "renderer.hpp"

namespace forebay::cuda {
namespace {

cudaStream_t as_cuda(StreamView stream) { return static_cast<cudaStream_t>(stream.handle); }
cudaEvent_t as_cuda(device::DeviceEvent event) { return static_cast<cudaEvent_t>(event.handle); }

cudaEvent_t make_own_event() {
  cudaEvent_t event = nullptr;
  require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync), "cudaEventCreateWithFlags");
  return event;
}
struct EndEvent {
  void operator()(cudaEvent_t event) const noexcept { static_cast<void>(cudaEventDestroy(event)); }
};
using OwnEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EndEvent>;

std::string describe_gpu(int gpu, int numa_node) {
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
  const std::string address = pci_address_of(gpu);
  return std::string(properties.name) + " (cuda:" + std::to_string(gpu) + (address.empty() ? "" : ", PCI " + address) +
         ")" + (numa_node < 0 ? "" : ", NUMA node " + std::to_string(numa_node));
}

}  // namespace

CudaDevice::CudaDevice(int gpu) : gpu_(gpu) {
  on_own_thread(gpu_, [this] {
    numa_node_ = numa_node_of(gpu_);
    description_ = describe_gpu(gpu_, numa_node_);
    context_.emplace();
  });
}

CudaDevice::~CudaDevice() {
  const auto end_all = [this] {
    for (cudaEvent_t event : events_) static_cast<void>(cudaEventDestroy(event));
    for (cudaStream_t stream : streams_) static_cast<void>(cudaStreamDestroy(stream));
  };
  try {
    on_own_thread(gpu_, end_all);
  } catch (const std::exception&) {  // there is no thread to be had
    try {
      const GpuContext::OnTop here(*context_);
      end_all();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
      // CUDA ended before its device, at the end of the process: nothing is left to end.
    }
  }
}

std::unique_ptr<device::Arena> CudaDevice::allocate(std::size_t bytes) { return allocate_on_gpu(gpu_, bytes); }

std::unique_ptr<device::Arena> CudaDevice::allocate_staging(std::size_t bytes) {
  return allocate_pinned(gpu_, numa_node_, bytes);
}

void CudaDevice::enter_thread() { enter_gpu(gpu_); }

StreamView CudaDevice::make_stream() { return make_stream_of(Priority::highest); }
// For decoding by nvJPEG: the trainer's kernels go first.
StreamView CudaDevice::make_background_stream() { return make_stream_of(Priority::lowest); }

StreamView CudaDevice::make_stream_of(Priority priority) {
  cudaStream_t stream = nullptr;
  on_own_thread(gpu_, [&] {
    int least = 0;
    int greatest = 0;
    require(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    require(
        cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority == Priority::highest ? greatest : least),
        "cudaStreamCreateWithPriority");
  });
  const std::scoped_lock lock(made_);
  streams_.push_back(stream);
  return {stream};
}

device::DeviceEvent CudaDevice::make_event() {
  cudaEvent_t event = nullptr;
  on_own_thread(gpu_, [&] { event = make_own_event(); });
  const std::scoped_lock lock(made_);
  events_.push_back(event);
  return {event};
}

// The default stream belongs to the GPU that is current, not to the batch's.
void CudaDevice::check_stream(StreamView stream) const {
  if (stream.handle == cudaStreamPerThread) {
    throw Error(
        "a batch on cudaStreamPerThread, which is another stream on every thread, and a lease may end on any: use a "
        "stream of its own (cudaStreamCreateWithFlags)");
  }
  const bool is_default = stream.handle == nullptr || stream.handle == cudaStreamLegacy;
  if (!is_default || !context_->is_beside_current()) return check_capture(stream);
  const std::string gpu = std::to_string(gpu_);
  throw Error(
      "a batch on CUDA's default stream on a thread where another GPU is current, and the batches are on cuda:" + gpu +
      ": call cudaSetDevice(" + gpu + ") before, or use a stream of that GPU");
}

void CudaDevice::check_capture(StreamView stream) const {
  const GpuContext::OnTop here(*context_);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  require(cudaStreamIsCapturing(as_cuda(stream), &status), "cudaStreamIsCapturing");
  if (status != cudaStreamCaptureStatusNone) require(cudaErrorStreamCaptureUnsupported, "a call of Forebay");
}

void CudaDevice::copy_in(std::byte* to, const std::byte* from, std::size_t bytes, StreamView stream) {
  require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, as_cuda(stream)), "cudaMemcpyAsync to the GPU");
}

void CudaDevice::copy_out(std::byte* to, const std::byte* from, std::size_t bytes, StreamView stream) {
  check_capture(stream);
  const GpuContext::OnTop here(*context_);
  const RelaxedCapture relaxed;
  const OwnEvent copied(make_own_event());
  require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, as_cuda(stream)), "cudaMemcpyAsync from the GPU");
  // Waiting for the stream itself would keep a core busy.
  require(cudaEventRecord(copied.get(), as_cuda(stream)), "cudaEventRecord");
  require(cudaEventSynchronize(copied.get()), "cudaEventSynchronize");
}

void CudaDevice::record(device::DeviceEvent event, StreamView stream) {
  const GpuContext::OnTop here(*context_);
  require(cudaEventRecord(as_cuda(event), as_cuda(stream)), "cudaEventRecord");
}

void CudaDevice::wait(StreamView stream, device::DeviceEvent event) {
  const GpuContext::OnTop here(*context_);
  require(cudaStreamWaitEvent(as_cuda(stream), as_cuda(event), 0), "cudaStreamWaitEvent");
}

// By the driver's function, for the reason below.
bool CudaDevice::is_complete(device::DeviceEvent event) {
  const GpuContext::OnTop here(*context_);
  const RelaxedCapture relaxed;
  // The runtime would keep "not ready" as the thread's last error, in the place of one that the trainer has yet to
  // find.
  const cudaError_t status = context_->query(as_cuda(event));
  if (status == cudaErrorNotReady) return false;
  require(status, "cuEventQuery");
  return true;
}

void CudaDevice::synchronize(device::DeviceEvent event) {
  const GpuContext::OnTop here(*context_);
  const RelaxedCapture relaxed;
  require(cudaEventSynchronize(as_cuda(event)), "cudaEventSynchronize");
}

std::unique_ptr<make::CanvasRenderer> CudaDevice::make_renderer(const make::RenderPlan& plan, std::uint32_t places) {
  return std::make_unique<CudaRenderer>(*this, *context_, gpu_, plan, places);
}

}  // namespace forebay::cuda
