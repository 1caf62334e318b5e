#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <forebay/error.hpp>
#include <forebay/tensor.hpp>

namespace forebay::make {

class CanvasRenderer;
struct RenderPlan;

}  // namespace forebay::make

namespace forebay::device {

// A GPU, or its driver, refused: what cannot be had there may be had on the host.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// Memory of a device, or of the host beside it, at a fixed address until it is destroyed. Zero at first.
class Arena {
 public:
  virtual ~Arena() = default;
  // At least as many bytes as were asked for, aligned to 4096. A device's may be read and written by the host only when
  // Device::is_host().
  [[nodiscard]] virtual std::span<std::byte> bytes() noexcept = 0;
  // Where the memory is and how it is mapped, for the start-up line.
  [[nodiscard]] virtual std::string_view describe() const noexcept = 0;
};

// A point in a stream: complete when all work put on the stream before it was recorded is complete. Belongs to its
// device.
struct DeviceEvent {
  void* handle = nullptr;
};

// Where batches reside. Work put on a stream runs later, in stream order; streams wait for each other only at events.
// Re-recording replaces an event; earlier waits are unaffected. Everything is made at the start of a run: making
// streams, events and memory may take long and may wait for the device. Any thread may call; nothing but synchronize()
// and copy_out() waits for the device. Errors of the device are thrown as Error, those of work put on streams earlier
// too.
class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual DeviceKind kind() const noexcept = 0;
  // N of cuda:N, as the process counts its GPUs; 0 where there is only one such device.
  [[nodiscard]] virtual std::int32_t index() const noexcept { return 0; }
  // For the start-up line: "NVIDIA H200 (cuda:0), NUMA node 1".
  [[nodiscard]] virtual std::string describe() const = 0;
  // Threads write and read its memory themselves: nothing is copied, and streams and events are nothing.
  [[nodiscard]] bool is_host() const noexcept { return kind() == DeviceKind::host; }

  // One allocation that is made once, at the start of a run. Throws Error with the size when there is no room.
  [[nodiscard]] virtual std::unique_ptr<Arena> allocate(std::size_t bytes) = 0;
  // The same, of which the first `at_once` bytes are taken now and the others where the device can do so when they are
  // first written.
  [[nodiscard]] virtual std::unique_ptr<Arena> allocate_growing(std::size_t bytes, std::size_t /*at_once*/) {
    return allocate(bytes);
  }
  // Memory of the host from which the device copies by itself, near to it. Throws Error likewise.
  [[nodiscard]] virtual std::unique_ptr<Arena> allocate_staging(std::size_t bytes) = 0;

  // To be called first by each thread of Forebay's own that uses the device.
  virtual void enter_thread() {}

  // A stream that waits for no other, before others where the device has to choose. The device ends it.
  [[nodiscard]] virtual StreamView make_stream() = 0;
  // The same, but after others where the device has to choose: for work that the trainer's may overtake.
  [[nodiscard]] virtual StreamView make_background_stream() { return make_stream(); }
  // Complete until it is recorded. The device ends it.
  [[nodiscard]] virtual DeviceEvent make_event() = 0;

  // Throws Error when no lease can be ordered on a stream that the calling thread has chosen: it would be another one
  // for the thread that ends the lease, is none of this device's, or must not be used now (check_capture()).
  virtual void check_stream(StreamView /*stream*/) const {}
  // Throws Error while the stream captures a graph: what Forebay puts there would become part of it.
  virtual void check_capture(StreamView /*stream*/) const {}

  // Puts a copy from staging memory on the stream; `from` must stay as it is until that is complete.
  virtual void copy_in(std::byte* to, const std::byte* from, std::size_t bytes, StreamView stream) = 0;
  // Copies to memory of the host once the stream has come so far, and waits for it. For logs and tests.
  virtual void copy_out(std::byte* to, const std::byte* from, std::size_t bytes, StreamView stream) = 0;
  // The event is complete when the stream has come so far.
  virtual void record(DeviceEvent event, StreamView stream) = 0;
  // What is put on the stream from now on happens after the event.
  virtual void wait(StreamView stream, DeviceEvent event) = 0;
  [[nodiscard]] virtual bool is_complete(DeviceEvent event) = 0;
  // Waits until it is complete, without keeping a core busy.
  virtual void synchronize(DeviceEvent event) = 0;

  // What makes batches of canvases on this device (detail/canvas.hpp); none on the host, where that is assembly's.
  // The plan is copied. `places`: of CanvasRenderer::draw().
  [[nodiscard]] virtual std::unique_ptr<make::CanvasRenderer> make_renderer(const make::RenderPlan& plan,
                                                                            std::uint32_t places) = 0;
};

}  // namespace forebay::device
