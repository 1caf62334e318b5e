// What connects the ring to a device whose streams no thread waits for.
#include <cstring>
#include <memory>
#include <vector>

#include <forebay/error.hpp>

#include "ring/stream_uses.hpp"
#include "scenario.hpp"
#include "scenario_world.hpp"

using namespace forebay::device;
using namespace forebay::ring;

namespace forebay::model {
namespace {

// A device whose events are ordinary memory, so the threads themselves must order recording an
// event and looking at it. Copies take effect at once; what streams do later is tested in
// tests/device_streams.cpp.
class SmallDevice final : public SmallHost {
 public:
  [[nodiscard]] DeviceKind kind() const noexcept override { return DeviceKind::cuda; }
  [[nodiscard]] StreamView make_stream() override { return {&stream_}; }
  [[nodiscard]] DeviceEvent make_event() override {
    events_.push_back(std::make_unique<std::uint64_t>(0));
    return {events_.back().get()};
  }
  void copy_in(std::byte* to, const std::byte* from, std::size_t bytes, StreamView) override {
    for (std::size_t i = 0; i < std::min<std::size_t>(bytes, 4); ++i) to[i] = from[i];
  }
  void record(DeviceEvent event, StreamView) override {
    if (fails) {
      reason = 7;
      throw Error("the device fails");
    }
    ++number(event);
  }
  void wait(StreamView, DeviceEvent event) override {
    require(number(event) > 0, "S3: waits for what nobody recorded");
  }
  [[nodiscard]] bool is_complete(DeviceEvent event) override { return number(event) > 0; }
  void synchronize(DeviceEvent event) override { require(number(event) > 0, "waits for what nobody recorded"); }

  bool fails = false;
  std::uint64_t reason = 0;

 private:
  static std::uint64_t& number(DeviceEvent event) { return *static_cast<std::uint64_t*>(event.handle); }

  int stream_ = 0;
  std::vector<std::unique_ptr<std::uint64_t>> events_;
};

}  // namespace

// S1 to S3: batches are copied into slots whose earlier uses have ended on two threads at once.
void streams() {
  const auto made = std::make_unique<World>(WorldSize{.capacity = 1, .max_leases = 2, .turns = 3, .planned = 3},
                                            std::make_shared<SmallDevice>());
  World& world = *made;
  spawn("issuer", [&] { world.issue(); });
  spawn("decoder", [&] { world.decode(); });
  spawn("copier", [&] { world.copy(); });
  spawn("trainer", [&] { world.end_leases(); });
  for (int turn = 0; turn < 3; ++turn) world.hand_over(world.next());
  world.end();
}

// Uses of one slot end on several threads at once: each waits for the previous end and records its
// own.
void uses_together() {
  const auto device = std::make_unique<SmallDevice>();
  const auto uses = std::make_unique<StreamUses>(*device);
  const auto end = [&] { uses->end({}); };
  spawn("trainer", end);
  spawn("trainer 2", end);
  end();
  join();
  uses->put_after({});
}

// Tensors that canvases are rendered into are overwritten only after their last use, and shared if
// none is free.
void tensors() {
  const auto device = std::make_unique<SmallDevice>();
  const auto outputs = std::make_unique<OutputTensors>(*device, 64, 1);
  Queue rendered;
  spawn("trainer", [&] {
    std::uint64_t output = 0;
    while (rendered.pop(output)) {
      const std::byte* const at = outputs->at(static_cast<std::uint32_t>(output));
      require(at[0] == at[1], "a tensor was rendered anew while it was read");
      outputs->end(static_cast<std::uint32_t>(output), {});
    }
  });
  for (int batch = 1; batch <= 3; ++batch) {
    const auto [output, is_shared] = outputs->take();
    if (!is_shared) {
      outputs->put_after_uses(output, {});
      outputs->at(output)[0] = static_cast<std::byte>(batch);
      outputs->at(output)[1] = static_cast<std::byte>(batch);
    }
    rendered.push(output);
  }
  rendered.close();
  join();
}

// A thread waits for the end of an earlier step, which another thread recorded.
void run_ahead() {
  const auto device = std::make_unique<SmallDevice>();
  const auto ahead = std::make_unique<RunAhead>(*device, 1, 1);
  spawn("trainer", [&] {
    for (std::uint64_t step = 0; step < 3; ++step) ahead->end(step, {});
  });
  for (std::uint64_t step = 1; step < 4; ++step) (void)ahead->wait(step);
  join();
}

// An error at the end of a lease is thrown in the consumer, which also sees everything that led to
// it.
void failing_device() {
  const auto device = std::make_shared<SmallDevice>();
  const auto made = std::make_unique<World>(WorldSize{.capacity = 1, .turns = 1, .planned = 1}, device);
  World& world = *made;
  spawn("issuer", [&] { world.issue(); });
  spawn("decoder", [&] { world.decode(); });
  spawn("copier", [&] { world.copy(); });
  spawn("trainer", [&] { world.end_leases(); });
  Lease lease = world.next();
  device->fails = true;
  world.hand_over(std::move(lease));
  try {
    for (int step = 0; step < 2; ++step) (void)world.store.keep_pace(1);
  } catch (const Error&) {
    require(device->reason == 7, "the consumer does not see why the device failed");
  }
  world.end();
}

}  // namespace forebay::model
