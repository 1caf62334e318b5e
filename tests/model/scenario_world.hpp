#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.hpp"
#include "make/canvas.hpp"
#include "ring/slot_ring.hpp"
#include "ring/slot_store.hpp"
#include "scenario.hpp"
#include "serve/reuse_pool.hpp"

namespace forebay::model {

// A host that does not touch its pages beforehand, because an execution takes only microseconds.
class SmallHost : public device::Device {
 public:
  [[nodiscard]] DeviceKind kind() const noexcept override { return DeviceKind::host; }
  [[nodiscard]] std::string describe() const override { return "host"; }
  [[nodiscard]] std::unique_ptr<device::Arena> allocate(std::size_t bytes) override {
    return std::make_unique<Memory>(bytes);
  }
  [[nodiscard]] std::unique_ptr<device::Arena> allocate_staging(std::size_t bytes) override { return allocate(bytes); }
  [[nodiscard]] StreamView make_stream() override { return {}; }
  [[nodiscard]] device::DeviceEvent make_event() override { return {}; }
  void copy_in(std::byte*, const std::byte*, std::size_t, StreamView) override {}
  void copy_out(std::byte*, const std::byte*, std::size_t, StreamView) override {}
  void record(device::DeviceEvent, StreamView) override {}
  void wait(StreamView, device::DeviceEvent) override {}
  [[nodiscard]] bool is_complete(device::DeviceEvent) override { return true; }
  void synchronize(device::DeviceEvent) override {}
  [[nodiscard]] std::unique_ptr<make::CanvasRenderer> make_renderer(const make::RenderPlan&, std::uint32_t) override;

 private:
  class Memory final : public device::Arena {
   public:
    explicit Memory(std::size_t bytes) : bytes_(static_cast<std::byte*>(std::calloc(bytes, 1))), size_(bytes) {}
    ~Memory() override { std::free(bytes_); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    [[nodiscard]] std::span<std::byte> bytes() noexcept override { return {bytes_, size_}; }
    [[nodiscard]] std::string_view describe() const noexcept override { return "memory"; }

   private:
    std::byte* bytes_;  // not zeroed by a loop, whose every byte would be checked
    std::size_t size_;
  };
};

struct WorldSize {
  ring::Capacity capacity = 1;
  std::uint32_t pool = 1;
  std::uint32_t max_leases = 1;
  std::uint64_t turns = 3;    // in total
  std::uint64_t planned = 3;  // planned at the start
  std::uint32_t samples = 1;  // per batch
  bool looks_ahead = false;   // the issuer reads all that is planned, not only what it claims
  bool may_be_busy = false;   // the ring knows about samples that no decoder has begun
};

// An issuer, decoders, a consumer and leases around the real ring, slot store and reuse pool, put
// together as in the Pipeline and the Server, with plain words in place of pixels: the batch of
// turn t must be at batch_of(t), and its sample i must be sample_of(t, i).
class World {
 public:
  explicit World(const WorldSize& size, std::shared_ptr<device::Device> device = std::make_shared<SmallHost>());

  // --- Bodies of threads ---
  // Claims turns and hands their samples to the decoders, until stopped.
  void issue();
  // Writes samples and publishes batches until there are no more.
  void decode();
  // On a device: copies complete batches from staging memory to their slots and publishes them.
  void copy();
  // Ends the leases that the consumer handed over, in any order, after checking their batches once
  // more.
  void end_leases();

  // --- Called by the consumer, which is the first thread ---
  // Plans turns up to this one.
  void plan(std::uint64_t turns);
  // Waits until another lease is allowed, then for the next batch, without a time limit; takes it
  // and returns a lease on it.
  [[nodiscard]] Lease next();
  // Another lease on the current batch.
  [[nodiscard]] Lease reuse();
  // Hands a lease to the thread that ends leases.
  void hand_over(Lease lease);
  // Stops the issuer, waits for all threads, and checks what is left.
  void end();

  [[nodiscard]] static std::uint64_t batch_of(std::uint64_t turn) noexcept { return 100 + 7 * turn; }
  [[nodiscard]] static std::int64_t sample_of(std::uint64_t turn, std::uint32_t index) noexcept {
    return static_cast<std::int64_t>(1000 + 10 * turn + index);
  }

  // Checks that the batch is what the issuer and the decoders made for this turn.
  void look_at(const Lease& lease) const;

  WorldSize size;
  std::atomic<bool> stopped{false};
  std::atomic<std::int64_t> not_begun{0};  // samples
  SlotStore store;
  ring::SlotRing ring;
  serve::ReusePool residents;
  std::uint64_t taken = 0;
  bool is_up_to_the_end = true;  // end() expects all turns to have been taken

 private:
  std::vector<std::uint64_t> plan_;  // what the consumer notes about each turn for the issuer (R7)
  Queue samples_;
  Queue complete_;
  Queue leases_;
  std::uint64_t noted_ = 0;
};

}  // namespace forebay::model
