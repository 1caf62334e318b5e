#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "device.hpp"
#include "make/canvas.hpp"

namespace forebay::device {

// Batches in ordinary memory. An arena requests transparent huge pages and touches every page immediately, so that the
// first epoch has no page faults. Copies are made immediately; callers are responsible for ordering their threads.
class HostDevice final : public Device {
 public:
  // `huge_page`: the size of a transparent huge page in bytes; 0 if unknown. Systems with pages of 64 KiB have huge
  // ones of 512 MiB, which are not requested: the first byte of a slot would take memory for many that are never used.
  explicit HostDevice(std::size_t huge_page = huge_page_of_system()) : huge_page_(huge_page) {}

  [[nodiscard]] DeviceKind kind() const noexcept override { return DeviceKind::host; }
  [[nodiscard]] std::string describe() const override { return "host"; }
  [[nodiscard]] std::unique_ptr<Arena> allocate(std::size_t bytes) override;
  [[nodiscard]] std::unique_ptr<Arena> allocate_growing(std::size_t bytes, std::size_t at_once) override;
  [[nodiscard]] std::unique_ptr<Arena> allocate_staging(std::size_t bytes) override { return allocate(bytes); }
  [[nodiscard]] StreamView make_stream() override { return {}; }
  [[nodiscard]] DeviceEvent make_event() override { return {}; }
  void copy_in(std::byte* to, const std::byte* from, std::size_t bytes, StreamView stream) override;
  void copy_out(std::byte* to, const std::byte* from, std::size_t bytes, StreamView stream) override;
  void record(DeviceEvent /*event*/, StreamView /*stream*/) override {}
  void wait(StreamView /*stream*/, DeviceEvent /*event*/) override {}
  [[nodiscard]] bool is_complete(DeviceEvent /*event*/) override { return true; }
  void synchronize(DeviceEvent /*event*/) override {}
  [[nodiscard]] std::unique_ptr<make::CanvasRenderer> make_renderer(const make::RenderPlan& plan,
                                                                    std::uint32_t places) override;

 private:
  static std::size_t huge_page_of_system();

  std::size_t huge_page_;
};

}  // namespace forebay::device
