#pragma once

#include <driver_types.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "gpu_context.hpp"

namespace forebay::cuda {

// A GPU through the CUDA runtime. Memory, streams and events are made on a thread of their own, so that the current
// device of no caller changes. What threads of the trainer call (record, wait, is_complete, synchronize, copy_out)
// works whatever GPU is current there, or none, and starts CUDA on no other; the default stream is always this GPU's.
class CudaDevice final : public device::Device {
 public:
  // Starts CUDA on the GPU, if nobody has yet. Throws Error when it does not work.
  explicit CudaDevice(int gpu);
  // Ends streams and events. What was put on them is complete, or nobody waits for it any more.
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  [[nodiscard]] DeviceKind kind() const noexcept override { return DeviceKind::cuda; }
  [[nodiscard]] std::int32_t index() const noexcept override { return gpu_; }
  [[nodiscard]] std::string describe() const override { return description_; }

  [[nodiscard]] std::unique_ptr<device::Arena> allocate(std::size_t bytes) override;
  [[nodiscard]] std::unique_ptr<device::Arena> allocate_staging(std::size_t bytes) override;
  void enter_thread() override;
  // Non-blocking and of the highest priority.
  [[nodiscard]] StreamView make_stream() override;
  // Non-blocking and of the lowest.
  [[nodiscard]] StreamView make_background_stream() override;
  // Without timing, and waited for asleep.
  [[nodiscard]] device::DeviceEvent make_event() override;
  // Of streams of another GPU it finds CUDA's default ones only; the others are refused where they are used.
  void check_stream(StreamView stream) const override;
  void check_capture(StreamView stream) const override;
  void copy_in(std::byte* to, const std::byte* from, std::size_t bytes, StreamView stream) override;
  void copy_out(std::byte* to, const std::byte* from, std::size_t bytes, StreamView stream) override;
  void record(device::DeviceEvent event, StreamView stream) override;
  void wait(StreamView stream, device::DeviceEvent event) override;
  [[nodiscard]] bool is_complete(device::DeviceEvent event) override;
  void synchronize(device::DeviceEvent event) override;
  [[nodiscard]] std::unique_ptr<make::CanvasRenderer> make_renderer(const make::RenderPlan& plan,
                                                                    std::uint32_t places) override;

 private:
  enum class Priority { lowest, highest };
  [[nodiscard]] StreamView make_stream_of(Priority priority);

  int gpu_;
  int numa_node_ = -1;
  std::string description_;
  std::optional<GpuContext> context_;  // from the constructor on
  std::mutex made_;                    // guards the lists
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;
};

}  // namespace forebay::cuda
