// The calls of the CUDA runtime that the backend makes, without CUDA; tests link this instead of
// the runtime. It fails where the runtime would, and records misuse that would only cost time.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "fake_cuda_runtime.hpp"

namespace {
constexpr std::size_t kPinnedAlignment = 4096;
// Sanitizers kill a program that asks the allocator for more.
constexpr std::size_t kMostPinned = std::size_t{1} << 36;
}  // namespace

using namespace forebay::testing;
using Runtime = FakeCuda::Runtime;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return answer("cudaGetDeviceCount", [&](Runtime& runtime) {
    *count = runtime.machine.gpus;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  Runtime* const runtime = running;
  *version = runtime == nullptr ? 0 : runtime->machine.driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int gpu) {
  return answer("cudaGetDeviceProperties", [&](Runtime& runtime) {
    if (!is_gpu(runtime, gpu)) return cudaErrorInvalidDevice;
    *properties = {};
    std::snprintf(properties->name, sizeof(properties->name), "Fake GPU");
    properties->uuid.bytes[15] = static_cast<char>(gpu + 1);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int gpu) {
  return answer("cudaDeviceGetAttribute", [&](Runtime& runtime) {
    if (!is_gpu(runtime, gpu)) return cudaErrorInvalidDevice;
    if (attribute != cudaDevAttrHostNumaId) return cudaErrorInvalidValue;
    *value = runtime.machine.numa_node;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int gpu) {
  return answer("cudaDeviceGetPCIBusId", [&](Runtime& runtime) {
    if (!is_gpu(runtime, gpu)) return cudaErrorInvalidDevice;
    std::snprintf(text, static_cast<std::size_t>(size), "FFFF:%02X:00.0", static_cast<unsigned>(gpu) & 0xFFU);
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int gpu) {
  return answer("cudaSetDevice", [&](Runtime& runtime) {
    if (!is_gpu(runtime, gpu)) return cudaErrorInvalidDevice;
    current_gpu = gpu;
    has_context = true;
    const std::scoped_lock guard(runtime.lock);
    runtime.started.insert(gpu);
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return answer_on_gpu("cudaMemGetInfo", [&](Runtime& runtime) {
    *free = runtime.memory.left();
    *total = runtime.memory.total();
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return answer_on_gpu("cudaMalloc", [&](Runtime& runtime) {
    *address = runtime.memory.allocate(bytes);
    return *address == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaFree(void* address) {
  return answer_on_gpu("cudaFree", [&](Runtime& runtime) {
    runtime.drain_all();
    return runtime.memory.free(address) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned int flags) {
  return answer_on_gpu("cudaHostAlloc", [&](Runtime& runtime) {
    if ((flags & cudaHostAllocWriteCombined) != 0) runtime.note("write-combined memory, which decoders read");
    if (bytes > kMostPinned) return cudaErrorMemoryAllocation;
    bytes = (bytes + kPinnedAlignment - 1) / kPinnedAlignment * kPinnedAlignment;
    *address = std::aligned_alloc(kPinnedAlignment, bytes);
    if (*address == nullptr) return cudaErrorMemoryAllocation;
    std::memset(*address, 0x5A, bytes);
    const std::scoped_lock guard(runtime.lock);
    runtime.pinned[static_cast<std::byte*>(*address)] = bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* address) {
  return answer_on_gpu("cudaFreeHost", [&](Runtime& runtime) {
    runtime.drain_all();
    const std::scoped_lock guard(runtime.lock);
    if (runtime.pinned.erase(static_cast<std::byte*>(address)) == 0) return cudaErrorInvalidValue;
    std::free(address);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return answer_on_gpu("cudaDeviceGetStreamPriorityRange", [&](Runtime&) {
    *least = kLeastPriority;
    *greatest = kGreatestPriority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  return answer_on_gpu("cudaStreamCreateWithPriority", [&](Runtime& runtime) {
    if ((flags & cudaStreamNonBlocking) == 0) runtime.note("a stream that waits for the default stream");
    const std::scoped_lock guard(runtime.lock);
    *stream = reinterpret_cast<cudaStream_t>(runtime.add_stream(current_gpu, priority));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return answer_on_gpu("cudaStreamDestroy", [&](Runtime& runtime) {
    FakeStream* const fake = stream == nullptr ? nullptr : runtime.stream_of(stream);
    if (fake == nullptr) return cudaErrorInvalidResourceHandle;
    fake->alive = false;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return answer_on_gpu("cudaStreamSynchronize", [&](Runtime& runtime) {
    FakeStream* const fake = runtime.stream_of(stream);
    if (fake == nullptr) return cudaErrorInvalidResourceHandle;
    runtime.drain(*fake);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return answer_on_gpu("cudaEventCreateWithFlags", [&](Runtime& runtime) {
    if ((flags & cudaEventDisableTiming) == 0) runtime.note("an event with timing");
    if ((flags & cudaEventBlockingSync) == 0) runtime.note("an event that keeps a core busy");
    const std::scoped_lock guard(runtime.lock);
    runtime.all_events.push_back(std::make_unique<FakeEvent>(current_gpu, runtime.streams.make_event()));
    *event = reinterpret_cast<cudaEvent_t>(runtime.all_events.back().get());
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return answer_on_gpu("cudaEventDestroy", [&](Runtime& runtime) {
    FakeEvent* const fake = runtime.event_of(event);
    if (fake == nullptr) return cudaErrorInvalidResourceHandle;
    fake->alive = false;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return answer_on_gpu("cudaEventRecord", [&](Runtime& runtime) {
    FakeEvent* const what = runtime.event_of(event);
    FakeStream* const where = runtime.stream_of(stream);
    if (what == nullptr || where == nullptr || what->gpu != where->gpu) return cudaErrorInvalidResourceHandle;
    what->captured = where->captures ? where : nullptr;
    if (where->captures) return cudaSuccess;  // becomes a node of the graph
    runtime.streams.record(what->event, where->stream);
    what->recorded = true;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int /*flags*/) {
  return answer_on_gpu("cudaStreamWaitEvent", [&](Runtime& runtime) {
    FakeEvent* const what = runtime.event_of(event);
    FakeStream* const where = runtime.stream_of(stream);
    if (what == nullptr || where == nullptr) return cudaErrorInvalidResourceHandle;
    if (FakeStream* const graph = what->captured; graph != nullptr) {
      // The other stream joins the capture, and Forebay never joins it back.
      if (graph != where) graph->spoilt = cudaErrorStreamCaptureUnjoined;
      return cudaSuccess;
    }
    if (where->captures) {
      where->spoilt = cudaErrorStreamCaptureInvalidated;
      return cudaErrorStreamCaptureIsolation;
    }
    if (what->recorded) runtime.streams.wait(where->stream, what->event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return answer_on_gpu("cudaEventSynchronize", [&](Runtime& runtime) {
    FakeEvent* const what = runtime.event_of(event);
    if (what == nullptr) return cudaErrorInvalidResourceHandle;
    if (what->recorded) runtime.streams.synchronize(what->event);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  return answer_on_gpu("cudaStreamBeginCapture", [&](Runtime& runtime) {
    FakeStream* const fake = runtime.stream_of(stream);
    if (fake == nullptr) return cudaErrorInvalidResourceHandle;
    fake->spoilt = cudaSuccess;
    fake->captures = true;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return answer_on_gpu("cudaStreamEndCapture", [&](Runtime& runtime) {
    *graph = nullptr;
    FakeStream* const fake = runtime.stream_of(stream);
    if (fake == nullptr) return cudaErrorInvalidResourceHandle;
    if (!fake->captures.exchange(false)) return cudaErrorIllegalState;
    return fake->spoilt.load();
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return answer_on_gpu("cudaStreamIsCapturing", [&](Runtime& runtime) {
    FakeStream* const fake = runtime.stream_of(stream);
    if (fake == nullptr) return cudaErrorInvalidResourceHandle;
    *status = fake->captures ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
  });
}

// The fake GPU has no clock: everything takes a millisecond.
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t /*begin*/, cudaEvent_t /*end*/) {
  *ms = 1;
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* address, int value, std::size_t bytes, cudaStream_t stream) {
  return answer_on_gpu("cudaMemsetAsync", [&](Runtime& runtime) {
    FakeStream* const where = runtime.stream_of(stream);
    std::byte* const memory = runtime.memory.behind(address, bytes);
    if (where == nullptr) return cudaErrorInvalidResourceHandle;
    if (memory == nullptr) return cudaErrorInvalidValue;
    runtime.streams.push(where->stream, [=] { std::memset(memory, value, bytes); });
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return answer_on_gpu("cudaMemcpyAsync", [&](Runtime& runtime) {
    FakeStream* const where = runtime.stream_of(stream);
    if (where == nullptr) return cudaErrorInvalidResourceHandle;
    if (kind == cudaMemcpyDeviceToDevice) {
      std::byte* const target = runtime.memory.behind(to, bytes);
      const std::byte* const source = runtime.memory.behind(from, bytes);
      if (target == nullptr || source == nullptr) return cudaErrorInvalidValue;
      runtime.streams.push(where->stream, [=] { std::memcpy(target, source, bytes); });
      return cudaSuccess;
    }
    const bool into_gpu = kind == cudaMemcpyHostToDevice;
    if (!into_gpu && kind != cudaMemcpyDeviceToHost) return cudaErrorInvalidMemcpyDirection;
    std::byte* const memory = runtime.memory.behind(into_gpu ? to : from, bytes);
    if (memory == nullptr) return cudaErrorInvalidValue;
    if (!into_gpu) {
      runtime.streams.push(where->stream, [=] { std::memcpy(to, memory, bytes); });
      if (!runtime.is_pinned(to, bytes)) runtime.drain(*where);
      return cudaSuccess;
    }
    runtime.streams.push(where->stream, [=] { std::memcpy(memory, from, bytes); });
    if (!runtime.is_pinned(from, bytes)) {
      runtime.note("a copy from memory that is not pinned");
      runtime.drain(*where);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t status) {
  switch (status) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    default: return "cudaError";
  }
}

const char* cudaGetErrorString(cudaError_t /*status*/) { return "the fake runtime's words"; }

}  // extern "C"
