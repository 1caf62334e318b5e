#pragma once

#include <cuda.h>
#include <driver_types.h>

#include <functional>
#include <optional>

namespace forebay::cuda {

// The context that the runtime has on a GPU, for threads that did not choose that GPU. There a call of the runtime
// would start CUDA on GPU 0, which takes memory and fails on one in exclusive mode; and where another GPU was chosen,
// the default stream would be that one's. With the context on top both are as on a thread that chose this GPU, and
// nothing of the thread is changed when it is taken off again. It lasts until the process ends or somebody resets the
// GPU.
class GpuContext {
 public:
  // That of the GPU which cudaSetDevice() made current on the calling thread. Throws Error.
  GpuContext();

  // On top on the calling thread while this lives. One call of the driver where it is already, else three; they touch
  // no GPU.
  class OnTop {
   public:
    // Throws Error where CUDA has ended.
    explicit OnTop(const GpuContext& context);
    ~OnTop();
    OnTop(const OnTop&) = delete;
    OnTop& operator=(const OnTop&) = delete;

   private:
    const GpuContext& context_;
    bool is_pushed_ = false;
  };

  // Another one is the calling thread's; false where the thread has none. Throws Error where CUDA has ended.
  [[nodiscard]] bool is_beside_current() const;
  // As cudaEventQuery(), but the last error that the runtime keeps for the thread stays what it was.
  // REQUIRES: on top.
  [[nodiscard]] cudaError_t query(cudaEvent_t event) const { return static_cast<cudaError_t>(query_(event)); }

 private:
  CUresult (*current_)(CUcontext*);
  CUresult (*push_)(CUcontext);
  CUresult (*pop_)(CUcontext*);
  CUresult (*query_)(CUevent);
  CUcontext context_ = nullptr;
};

// The GPU that is current on the calling thread, whoever made it so; none where the thread has not used CUDA yet.
// Starts CUDA nowhere. Throws Error.
[[nodiscard]] std::optional<unsigned> gpu_of_thread();

// Runs `work` on a thread of its own that has the GPU current and allows what a graph capture elsewhere would forbid,
// waits for it, and throws what it threw. So nothing of the caller changes: not its current GPU (restoring that would
// start CUDA on GPU 0 in a thread that never chose one), not its memory policy, not a capture of its own. Takes tens of
// microseconds: for the start and the end of a run. Throws Error when the system has no more threads.
void on_own_thread(int gpu, const std::function<void()>& work);

// Makes the GPU current on the calling thread and lets it call CUDA while another thread captures a graph. Throws
// Error.
void enter_gpu(int gpu);

// Lets the calling thread ask for events while a graph is captured, as long as it lives.
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept;
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int before_;  // a cudaStreamCaptureMode
};

}  // namespace forebay::cuda
