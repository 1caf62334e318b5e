#pragma once

#include <functional>

namespace forebay::cuda {

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
