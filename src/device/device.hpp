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

// A GPU or its driver refused a request, which the host may be able to satisfy instead.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// Memory of a device, or of the host near it, at a fixed address until it is destroyed. Initially zero.
class Arena {
 public:
  virtual ~Arena() = default;
  // At least the requested number of bytes, aligned to 4096. The host may access a device's memory only if
  // Device::is_host().
  [[nodiscard]] virtual std::span<std::byte> bytes() noexcept = 0;
  // Where the memory is and how it is mapped, for the log line at start-up.
  [[nodiscard]] virtual std::string_view describe() const noexcept = 0;
};

// A point in a stream: complete once all work queued on the stream before it was recorded is complete. Belongs to its
// device.
struct DeviceEvent {
  void* handle = nullptr;
};

// The place where batches reside. Work queued on a stream runs later, in stream order; streams wait for each other only
// at events. Re-recording replaces an event; earlier waits are unaffected. Everything is created at the start of a run:
// creating streams, events and memory may take long and may wait for the device. Any thread may call; only
// synchronize() and copy_out() wait for the device. Errors of the device are thrown as Error, including those of work
// queued earlier.
class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual DeviceKind kind() const noexcept = 0;
  // N of cuda:N, as the process counts its GPUs; 0 if there is only one such device.
  [[nodiscard]] virtual std::int32_t index() const noexcept { return 0; }
  // For the start-up line: "NVIDIA H200 (cuda:0), NUMA node 1".
  [[nodiscard]] virtual std::string describe() const = 0;
  // Whether threads access its memory directly: nothing is copied, and streams and events have no effect.
  [[nodiscard]] bool is_host() const noexcept { return kind() == DeviceKind::host; }

  // A single allocation at the start of a run. Throws Error with the size if there is no room.
  [[nodiscard]] virtual std::unique_ptr<Arena> allocate(std::size_t bytes) = 0;
  // The same, but only the first `at_once` bytes are committed now, and the others, if the device supports that, when
  // they are first written.
  [[nodiscard]] virtual std::unique_ptr<Arena> allocate_growing(std::size_t bytes, std::size_t /*at_once*/) {
    return allocate(bytes);
  }
  // Host memory near the device, from which the device can copy by itself. Throws Error likewise.
  [[nodiscard]] virtual std::unique_ptr<Arena> allocate_staging(std::size_t bytes) = 0;

  // Must be called first by each of Forebay's own threads that uses the device.
  virtual void enter_thread() {}

  // A stream that waits for no other, with high priority. The device destroys it.
  [[nodiscard]] virtual StreamView make_stream() = 0;
  // The same with low priority, for work that the trainer's may overtake.
  [[nodiscard]] virtual StreamView make_background_stream() { return make_stream(); }
  // An event, complete until it is first recorded. The device destroys it.
  [[nodiscard]] virtual DeviceEvent make_event() = 0;

  // Throws Error if no lease can be ordered on a stream chosen by the calling thread: it would be a different stream on
  // the thread that ends the lease, belongs to another device, or must not be used now (check_capture()).
  virtual void check_stream(StreamView /*stream*/) const {}
  // Throws Error while the stream captures a graph, because Forebay's work would become part of it.
  virtual void check_capture(StreamView /*stream*/) const {}

  // Queues a copy from staging memory on the stream; `from` must stay unchanged until it is complete.
  virtual void copy_in(std::byte* to, const std::byte* from, std::size_t bytes, StreamView stream) = 0;
  // Copies to host memory in stream order, and waits for the copy. For logs and tests.
  virtual void copy_out(std::byte* to, const std::byte* from, std::size_t bytes, StreamView stream) = 0;
  // Records the event at the stream's current position.
  virtual void record(DeviceEvent event, StreamView stream) = 0;
  // Orders work queued on the stream from now on after the event.
  virtual void wait(StreamView stream, DeviceEvent event) = 0;
  [[nodiscard]] virtual bool is_complete(DeviceEvent event) = 0;
  // Waits until it is complete, without keeping a core busy.
  virtual void synchronize(DeviceEvent event) = 0;

  // The renderer of canvases on this device (make/canvas.hpp); null on the host, where another one is used. The plan is
  // copied. `places`: the number of places for CanvasRenderer::draw().
  [[nodiscard]] virtual std::unique_ptr<make::CanvasRenderer> make_renderer(const make::RenderPlan& plan,
                                                                            std::uint32_t places) = 0;
};

}  // namespace forebay::device
