#include "ring/copies.hpp"
#include "ring/slot_ring.hpp"
#include "ring/slot_store.hpp"
#include "serve/reuse_pool.hpp"
#include "simulated_device.hpp"
#include "test.hpp"

using namespace forebay::device;
using namespace forebay::make;
using namespace forebay::ring;
using namespace forebay::serve;

// The ring, staging and leases on a simulated device whose streams do their work in any order that
// is permitted. Planted bugs show that the tests would notice such mistakes.
namespace forebay::testing {

// Bugs that can be planted between Forebay and the device, one at a time.
enum class Mutant : std::uint8_t {
  none,
  copies_are_not_awaited,     // a copy counts as complete when requested: published early, staging reused early
  copy_ignores_uses,          // a slot is overwritten while streams still read the batch before
  streams_forget_each_other,  // the end of a use on one stream hides one on another stream
  use_ends_too_early,         // a use ends at what the stream has done, not at what is queued
  lease_ends_elsewhere,       // a lease ends on a stream that its work is not on
  staging_is_too_small,       // a staging place is refilled before its copy is complete
  nobody_keeps_pace,          // the trainer's thread runs arbitrarily far ahead of the device
  drawing_is_not_awaited,     // first views are drawn on a stream that nobody waits for
};
inline constexpr int kMutants = 9;
[[nodiscard]] std::string_view name_of(Mutant mutant) noexcept;

// The setup of a world; everything else follows from its seed.
struct WorldSetup {
  bool reuses = true;     // the trainer reuses if nothing is ready; otherwise it waits, as with "block"
  bool canvases = false;  // slots hold canvases, tensors are made of them for each lease
  Mutant mutant = Mutant::none;
};

// Drives ring, slots, staging, copies and leases as the feeder does, but on one thread. A seed
// decides whose turn it is (issuer, decoder, uploader, trainer or device), on which of its streams
// the trainer works, and how long it holds leases. The trainer's work checks every byte when the
// device executes it.
class StreamWorld {
 public:
  // Chosen by the seed.
  struct Sizes {
    std::uint32_t capacity;
    std::uint32_t pool;
    std::uint32_t run_ahead;
  };

  StreamWorld(const WorldSetup& setup, std::uint64_t seed);

  // Serves so many steps and lets the device finish. Returns the first error, or an empty string.
  [[nodiscard]] std::string run(std::uint64_t steps);
  // How many of the steps were fresh.
  [[nodiscard]] std::uint64_t fresh() const noexcept { return ring_.taken(); }

 private:
  // The progress of a step.
  struct StepFate {
    bool ended = false;                                          // its lease has ended
    std::shared_ptr<bool> done = std::make_shared<bool>(false);  // the device has done all of its work
  };
  struct Filling {
    std::uint32_t slot;
    std::uint32_t missing;
  };

  void issue();
  void decode();
  void upload();
  void train();
  void end_a_lease();
  void wait_for_a_batch();
  [[nodiscard]] bool has_kept_pace() const;
  [[nodiscard]] bool is_ready() { return ring_.state() == SlotRing::State::ready; }
  void look_at(const Lease& lease, StreamView stream);
  void fail(const std::string& what);

  WorldSetup setup_;
  Random random_;
  Sizes sizes_;
  std::shared_ptr<SimulatedDevice> device_;
  std::vector<StreamView> streams_;  // the trainer's
  StreamView stream_ = streams_.front();
  std::shared_ptr<SlotStore> store_;
  SlotRing ring_;
  Copies copies_;
  ReusePool pool_;
  std::atomic<bool> stopped_{false};
  std::uint64_t claimed_ = 0;
  std::vector<Filling> filling_;
  std::deque<std::uint32_t> complete_;  // complete slots that the uploader has not taken
  struct Held {
    Lease lease;
    StreamView used_on;
  };
  std::deque<Held> held_;
  std::uint64_t step_ = 0;
  std::vector<StepFate> fates_;
  std::string wrong_;
};

namespace {

constexpr std::uint32_t kLeases = 2;
constexpr std::uint32_t kBatch = 4;

constexpr SlotFormat format_of(bool canvases) {
  SlotFormat format{.batch_size = kBatch, .height = 2, .width = 2, .dtype = DType::uint8, .layout = Layout::nhwc};
  if (canvases) format.canvas = CanvasFormat{.batch_size = kBatch, .height = 3, .width = 3};
  return format;
}

SlotCounts counts_of(const StreamWorld::Sizes& sizes, Mutant mutant) {
  return {.slots = sizes.capacity + sizes.pool + kLeases - 1,
          .capacity = mutant == Mutant::staging_is_too_small ? sizes.capacity - 1 : sizes.capacity,
          .max_leases = kLeases,
          .run_ahead = sizes.run_ahead};
}

std::uint8_t value_of(std::uint64_t turn, std::uint32_t index) { return static_cast<std::uint8_t>(turn * 7 + index); }

// The value in a tensor that is rendered from a canvas.
std::uint8_t view_of(std::uint8_t value, std::uint64_t use) { return static_cast<std::uint8_t>(value ^ (use * 29)); }

// Reads the canvases and writes the tensor when the stream executes it, using its own views or
// those drawn before.
class SimulatedRenderer final : public CanvasRenderer {
 public:
  SimulatedRenderer(SimulatedDevice& device, const SlotStore& store, Mutant mutant)
      : device_(device),
        format_(store.format()),
        mutant_(mutant),
        nowhere_(device.SimulatedDevice::make_stream()),
        drawn_(store.size()) {}

  void draw(const RenderBatch& batch, std::uint32_t place, StreamView stream) override {
    if (mutant_ == Mutant::drawing_is_not_awaited) stream = nowhere_;
    device_.streams().push(SimulatedDevice::number(stream), [this, batch, place] { drawn_[place] = batch; });
  }
  void render(const RenderBatch& batch, std::byte* out, StreamView stream) override {
    device_.streams().push(SimulatedDevice::number(stream), [=, this] {
      const RenderBatch view = batch.drawn_in ? drawn_[*batch.drawn_in] : batch;
      const std::uint64_t use = view.first_position == batch.first_position ? view.use_index : UINT64_MAX;
      for (std::uint32_t i = 0; i < batch.size; ++i) {
        const auto value = static_cast<std::uint8_t>(batch.canvases[i * format_.canvas->place_bytes()]);
        std::memset(out + i * format_.sample_bytes(), view_of(value, use), format_.sample_bytes());
      }
    });
  }

 private:
  SimulatedDevice& device_;
  SlotFormat format_;
  Mutant mutant_;
  StreamView nowhere_;
  std::vector<RenderBatch> drawn_;
};

// The device with one of the bugs.
class MutantDevice final : public SimulatedDevice {
 public:
  MutantDevice(std::uint64_t seed, Mutant mutant)
      : SimulatedDevice(seed), mutant_(mutant), nowhere_(SimulatedDevice::make_stream()) {}

  StreamView make_stream() override { return last_made_ = SimulatedDevice::make_stream(); }
  void record(DeviceEvent event, StreamView stream) override {
    if (is_copying(stream)) copies_.insert(event.handle);
    const bool early = mutant_ == Mutant::use_ends_too_early && !is_copying(stream);
    SimulatedDevice::record(event, early ? nowhere_ : stream);
  }
  void wait(StreamView stream, DeviceEvent event) override {
    const auto forgotten = is_copying(stream) ? Mutant::copy_ignores_uses : Mutant::streams_forget_each_other;
    if (mutant_ != forgotten) SimulatedDevice::wait(stream, event);
  }
  bool is_complete(DeviceEvent event) override { return is_ignored(event) || SimulatedDevice::is_complete(event); }
  void synchronize(DeviceEvent event) override {
    if (!is_ignored(event)) SimulatedDevice::synchronize(event);
  }

 private:
  // The stream for copies is the last one to be made.
  [[nodiscard]] bool is_copying(StreamView stream) const noexcept { return stream.handle == last_made_.handle; }
  [[nodiscard]] bool is_ignored(DeviceEvent event) const {
    const auto ignorant = copies_.contains(event.handle) ? Mutant::copies_are_not_awaited : Mutant::nobody_keeps_pace;
    return mutant_ == ignorant;
  }

  Mutant mutant_;
  StreamView nowhere_;
  StreamView last_made_;
  std::set<const void*> copies_;  // events recorded after copies
};

}  // namespace

std::string_view name_of(Mutant mutant) noexcept {
  constexpr std::array<std::string_view, kMutants> kNames{
      "none",
      "copies are not awaited",
      "a copy ignores the uses of what it overwrites",
      "streams forget each other's uses",
      "a use ends too early",
      "a lease ends on another stream",
      "staging is too small",
      "nobody keeps pace",
      "drawing is not awaited",
  };
  return kNames[static_cast<std::size_t>(mutant)];
}

StreamWorld::StreamWorld(const WorldSetup& setup, std::uint64_t seed)
    : setup_(setup),
      random_(key64(seed, 1)),
      sizes_{.capacity = 2 + static_cast<std::uint32_t>(random_.below(3)),
             .pool = 1 + static_cast<std::uint32_t>(random_.below(2)),
             .run_ahead = 1 + static_cast<std::uint32_t>(random_.below(12))},
      device_(std::make_shared<MutantDevice>(key64(seed, 2), setup.mutant)),
      streams_{device_->make_stream(), device_->make_stream()},
      store_(std::make_shared<SlotStore>(device_, format_of(setup.canvases), counts_of(sizes_, setup.mutant))),
      ring_(sizes_.capacity, store_->size(), UINT64_MAX),
      copies_(*store_, ring_),
      pool_(*store_, ring_, {.capacity = sizes_.capacity, .pool = sizes_.pool, .max_leases = kLeases}, Pick::least_used,
            [](std::uint64_t /*uses*/) {}) {
  if (setup.canvases) {
    store_->set_renderer(std::make_unique<SimulatedRenderer>(*device_, *store_, setup.mutant), {}, 0);
  }
}

std::string StreamWorld::run(std::uint64_t steps) {
  try {
    while (step_ < steps && wrong_.empty()) {
      switch (random_.below(8)) {
        case 0: issue(); break;
        case 1:
        case 2: decode(); break;
        case 3: upload(); break;
        case 4: train(); break;
        case 5: end_a_lease(); break;
        default: (void)device_->streams().step();
      }
    }
    while (!held_.empty()) end_a_lease();
    device_->streams().drain();
  } catch (const std::exception& error) {
    fail(error.what());
  }
  return wrong_;
}

void StreamWorld::fail(const std::string& what) {
  if (wrong_.empty()) wrong_ = "step " + std::to_string(step_) + ": " + what;
}

void StreamWorld::issue() {
  if (claimed_ - ring_.taken() >= sizes_.capacity) return;  // claim() would block
  SlotRing::Claim claim{};
  (void)ring_.claim(stopped_, claim);
  ++claimed_;
  store_->begin(claim.slot, claim.turn, {.epoch = 0, .batch = claim.turn, .size = kBatch});
  filling_.push_back({claim.slot, kBatch});
}

void StreamWorld::decode() {
  if (filling_.empty()) return;
  const auto at = static_cast<std::ptrdiff_t>(random_.below(filling_.size()));
  Filling& filling = filling_[static_cast<std::size_t>(at)];
  const std::uint32_t index = --filling.missing;
  const auto place = store_->sample(filling.slot, index).pixels;
  std::memset(place.data(), value_of(store_->slot(filling.slot).turn, index), place.size());
  if (index > 0) return;
  complete_.push_back(filling.slot);
  filling_.erase(filling_.begin() + at);
}

// A turn of the uploader's thread.
void StreamWorld::upload() {
  if (!complete_.empty() && random_.below(4) > 0) {
    copies_.start(complete_.front());
    complete_.pop_front();
    copies_.publish_complete();
  } else if (!copies_.empty()) {
    copies_.publish_oldest();
  }
}

void StreamWorld::wait_for_a_batch() {
  while (!is_ready()) {
    issue();
    decode();
    upload();
  }
}

void StreamWorld::train() {
  if (held_.size() == kLeases) return;
  (void)store_->keep_pace(step_);
  if (!has_kept_pace()) fail("the device is more steps behind than it may be");
  pool_.sweep();
  if (!is_ready() && (pool_.empty() || !setup_.reuses)) wait_for_a_batch();
  const std::uint32_t slot = is_ready() ? pool_.admit() : pool_.pick();
  if (random_.below(4) == 0) stream_ = streams_[random_.below(streams_.size())];
  const StreamView stream = stream_;
  const std::uint64_t use = store_->slot(slot).uses++;
  std::exception_ptr refused;
  const std::uint32_t output = store_->render(slot, use, stream, refused);
  if (refused) std::rethrow_exception(refused);
  Lease lease = LeaseMaker::make(
      store_, slot, {.step = step_, .use_index = use, .stream = stream, .served = step_, .output = output});
  look_at(lease, stream);
  held_.push_back({std::move(lease), stream});
  fates_.push_back({});
  ++step_;
}

// The device must have finished the latest step that is at least run_ahead steps back and whose
// lease has ended.
bool StreamWorld::has_kept_pace() const {
  if (step_ < sizes_.run_ahead) return true;
  const auto last = fates_.rend() - static_cast<std::ptrdiff_t>(step_ - sizes_.run_ahead + 1);
  const auto ended = std::find_if(last, fates_.rend(), [](const StepFate& fate) { return fate.ended; });
  return ended == fates_.rend() || *ended->done;
}

// The trainer's work: it must find the batch of this turn complete, whenever the device executes
// it.
void StreamWorld::look_at(const Lease& lease, StreamView stream) {
  const auto* const bytes = lease.images().as<std::uint8_t>();
  const std::size_t sample = store_->format().sample_bytes();
  const std::uint64_t turn = lease.batch();
  const std::uint64_t use = setup_.canvases ? lease.use_index() : 0;
  device_->streams().push(SimulatedDevice::number(stream), [=, this, step = lease.step()] {
    for (std::uint32_t i = 0; i < kBatch; ++i) {
      const auto wanted = setup_.canvases ? view_of(value_of(turn, i), use) : value_of(turn, i);
      if (!std::ranges::all_of(bytes + i * sample, bytes + (i + 1) * sample, [=](auto b) { return b == wanted; })) {
        fail("the work of step " + std::to_string(step) + " found other bytes than those of its batch");
      }
    }
  });
}

void StreamWorld::end_a_lease() {
  if (held_.empty()) return;
  const auto at = static_cast<std::ptrdiff_t>(random_.below(held_.size()));
  Held held = std::move(held_[static_cast<std::size_t>(at)]);
  held_.erase(held_.begin() + at);
  StreamView last = held.used_on;
  if (random_.below(3) == 0) {
    // More work on another stream, ordered after the first.
    last = streams_[random_.below(streams_.size())];
    const DeviceEvent handed_over = device_->SimulatedDevice::make_event();
    device_->SimulatedDevice::record(handed_over, held.used_on);
    device_->SimulatedDevice::wait(last, handed_over);
    look_at(held.lease, last);
  }
  StepFate& fate = fates_[held.lease.step()];
  device_->streams().push(SimulatedDevice::number(last), [done = fate.done] { *done = true; });
  fate.ended = true;
  if (setup_.mutant == Mutant::lease_ends_elsewhere) last = streams_[random_.below(streams_.size())];
  held.lease.release(last);
}

}  // namespace forebay::testing

namespace forebay {
namespace {

using namespace testing;

constexpr std::uint64_t kSeeds = testing::kSanitized ? 200 : 2000;
constexpr std::uint64_t kSteps = 60;

const char* text_of(const WorldSetup& setup) {
  if (setup.canvases) return setup.reuses ? "canvases, reusing" : "canvases, stalling";
  return setup.reuses ? "tensors, reusing" : "tensors, stalling";
}

std::string run(const WorldSetup& setup, std::uint64_t seed) { return StreamWorld(setup, seed).run(kSteps); }

// The first seed that shows an error.
std::optional<std::uint64_t> first_failure(const WorldSetup& setup) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    if (!run(setup, seed).empty()) return seed;
  }
  return std::nullopt;
}

TEST_CASE("whatever the order in which the device works, every use finds its batch whole") {
  // FOREBAY_SEED=N runs only one seed.
  const char* const given = std::getenv("FOREBAY_SEED");
  for (const bool reuses : {true, false}) {
    for (const bool canvases : {false, true}) {
      const WorldSetup setup{.reuses = reuses, .canvases = canvases};
      const std::uint64_t only = given != nullptr ? std::strtoull(given, nullptr, 10) : 0;
      for (std::uint64_t seed = only > 0 ? only : 1; seed <= (only > 0 ? only : kSeeds); ++seed) {
        const std::string wrong = run(setup, seed);
        CHECK_MESSAGE(wrong.empty(), text_of(setup), ", seed ", seed, ": ", wrong);
      }
    }
  }
}

TEST_CASE("both policies do what they are there for") {
  StreamWorld reusing({.reuses = true}, 1);
  REQUIRE(reusing.run(200).empty());
  CHECK(reusing.fresh() < 200);
  StreamWorld stalling({.reuses = false}, 1);
  REQUIRE(stalling.run(200).empty());
  CHECK(stalling.fresh() == 200);
}

TEST_CASE("a world that fails fails again with its seed") {
  const WorldSetup setup{.mutant = Mutant::copies_are_not_awaited};
  const auto seed = first_failure(setup);
  REQUIRE(seed);
  CHECK(run(setup, *seed) == run(setup, *seed));
}

// Each bug shows in some world, which is printed.
TEST_CASE("every planted bug is caught") {
  for (int number = 1; number < testing::kMutants; ++number) {
    const auto mutant = static_cast<Mutant>(number);
    std::printf("%-46s", std::string(name_of(mutant)).c_str());
    int caught = 0;
    for (const bool reuses : {true, false}) {
      for (const bool canvases : {false, true}) {
        const WorldSetup setup{.reuses = reuses, .canvases = canvases, .mutant = mutant};
        const auto seed = first_failure(setup);
        caught += seed ? 1 : 0;
        std::printf("  %s: %s", text_of(setup), seed ? ("seed " + std::to_string(*seed)).c_str() : "-");
      }
    }
    std::printf("\n");
    CHECK_MESSAGE(caught > 0, std::string(name_of(mutant)));
  }
}

}  // namespace
}  // namespace forebay
