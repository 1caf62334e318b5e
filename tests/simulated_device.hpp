#pragma once

#include "device/device.hpp"
#include "make/canvas.hpp"
#include "simulated_streams.hpp"
#include "support.hpp"

namespace forebay::testing {

// A device with simulated streams: a copy reads the host's memory at a time determined by the seed,
// not when it is requested.
class SimulatedDevice : public device::Device {
 public:
  explicit SimulatedDevice(std::uint64_t seed) : streams_(seed) { (void)streams_.make_stream(); }

  [[nodiscard]] SimulatedStreams& streams() noexcept { return streams_; }
  // The null handle is a stream too, the first one.
  [[nodiscard]] static SimulatedStreams::Stream number(StreamView stream) noexcept {
    return static_cast<SimulatedStreams::Stream>(reinterpret_cast<std::uintptr_t>(stream.handle));
  }

  [[nodiscard]] DeviceKind kind() const noexcept override { return DeviceKind::cuda; }
  [[nodiscard]] std::string describe() const override { return "simulated device"; }
  [[nodiscard]] std::unique_ptr<device::Arena> allocate(std::size_t bytes) override {
    return std::make_unique<Memory>(bytes);
  }
  [[nodiscard]] std::unique_ptr<device::Arena> allocate_staging(std::size_t bytes) override { return allocate(bytes); }
  [[nodiscard]] StreamView make_stream() override {
    return {reinterpret_cast<void*>(static_cast<std::uintptr_t>(streams_.make_stream()))};
  }
  [[nodiscard]] device::DeviceEvent make_event() override {
    return {reinterpret_cast<void*>(static_cast<std::uintptr_t>(streams_.make_event()))};
  }
  void copy_in(std::byte* to, const std::byte* from, std::size_t bytes, StreamView stream) override {
    streams_.push(number(stream), [=] { std::memcpy(to, from, bytes); });
  }
  void copy_out(std::byte* to, const std::byte* from, std::size_t bytes, StreamView stream) override {
    const auto done = streams_.make_event();
    streams_.push(number(stream), [=] { std::memcpy(to, from, bytes); });
    streams_.record(done, number(stream));
    streams_.synchronize(done);
  }
  void record(device::DeviceEvent event, StreamView stream) override { streams_.record(number(event), number(stream)); }
  void wait(StreamView stream, device::DeviceEvent event) override { streams_.wait(number(stream), number(event)); }
  [[nodiscard]] bool is_complete(device::DeviceEvent event) override { return streams_.query(number(event)); }
  void synchronize(device::DeviceEvent event) override { streams_.synchronize(number(event)); }
  [[nodiscard]] std::unique_ptr<make::CanvasRenderer> make_renderer(const make::RenderPlan& /*plan*/,
                                                                    std::uint32_t /*places*/) override {
    return nullptr;
  }

 private:
  class Memory final : public device::Arena {
   public:
    explicit Memory(std::size_t bytes) : pages_((bytes + sizeof(Page) - 1) / sizeof(Page) + 1) {}
    [[nodiscard]] std::span<std::byte> bytes() noexcept override {
      return {pages_.front().bytes, pages_.size() * sizeof(Page)};
    }
    [[nodiscard]] std::string_view describe() const noexcept override { return "simulated memory"; }

   private:
    struct alignas(4096) Page {
      std::byte bytes[4096] = {};
    };
    std::vector<Page> pages_;
  };

  [[nodiscard]] static SimulatedStreams::Event number(device::DeviceEvent event) noexcept {
    return static_cast<SimulatedStreams::Event>(reinterpret_cast<std::uintptr_t>(event.handle));
  }

  SimulatedStreams streams_;
};

}  // namespace forebay::testing
