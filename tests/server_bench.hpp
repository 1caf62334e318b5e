#pragma once

#include "device/host_device.hpp"
#include "ring/queue_slots.hpp"
#include "serve/server.hpp"
#include "test.hpp"

// A server in isolation: no other thread and no other rank takes part.
namespace forebay::testing {

inline constexpr ring::SlotFormat kTiny{
    .batch_size = 4, .height = 2, .width = 2, .dtype = DType::uint8, .layout = Layout::nhwc};
inline constexpr std::uint64_t kEndless = UINT64_MAX;

// Decides as the test says, and records what the policy is told.
struct Script {
  std::function<Decision(const Signals&)> decide = [](const Signals&) { return Decision::fresh; };
  std::function<void(Decision)> serve = [](Decision) {};
  std::vector<Signals> asked;
  std::vector<Decision> told;
};

class Scripted final : public Policy {
 public:
  explicit Scripted(Script& script) : script_(script) {}
  [[nodiscard]] Decision decide(const Signals& signals) override {
    script_.asked.push_back(signals);
    return script_.decide(signals);
  }
  void served(Decision decision, const Signals&) override {
    script_.serve(decision);
    script_.told.push_back(decision);
  }

 private:
  Script& script_;
};

inline Options small_queue() {
  Options options;
  options.queue.capacity = 4;
  options.queue.pool = 2;
  options.queue.max_leases = 2;
  options.policy.watchdog_s = 10;
  return options;
}

// A server, its ring and its slots; the test is the producer, too.
struct Bench {
  explicit Bench(const Options& options = small_queue(), std::uint64_t planned = kEndless)
      : store(std::make_shared<SlotStore>(
            std::make_shared<device::HostDevice>(), kTiny,
            ring::SlotCounts{.slots = static_cast<std::uint32_t>(ring::slots_of(options.queue))})),
        ring(static_cast<std::uint32_t>(options.queue.capacity), store->size(), planned),
        server(serve::ServerLinks{.store = *store,
                                  .ring = ring,
                                  .time = time,
                                  .failure = failure,
                                  .left_pool = [this](std::uint64_t uses) { left_pool.push_back(uses); },
                                  .stop_requested = [this] { return stop; },
                                  .interrupted = [this] { return interrupted(); },
                                  .workers = [] { return std::string("2 readers asleep"); },
                                  .warn = [this](const std::string& line) { warnings.push_back(line); },
                                  .open_epochs = 2,
                                  .is_paused = [this] { return is_paused; }},
               options, with_rules(std::make_unique<Scripted>(script), rules(options))) {}

  static PolicyOptions rules(const Options& options) {
    PolicyOptions rules;
    rules.max_uses = options.policy.max_uses;
    rules.on_max_uses = options.policy.on_max_uses;
    rules.max_wait_ms = options.policy.max_wait_ms;
    return rules;
  }

  void publish(int batches = 1, bool padding = false, std::uint64_t epoch = 0) {
    const std::atomic<bool> stopped{false};
    for (int i = 0; i < batches; ++i) {
      ring::SlotRing::Claim claim{};
      REQUIRE(ring.claim(stopped, claim));
      store->begin(claim.slot, claim.turn, {.epoch = epoch, .batch = claim.turn, .size = 4, .padding = padding});
      ring.publish(claim.turn);
    }
  }
  // Claims a slot, so that a batch is in production.
  void claim() {
    const std::atomic<bool> stopped{false};
    ring::SlotRing::Claim claim{};
    REQUIRE(ring.claim(stopped, claim));
  }
  // Makes one complete step.
  serve::Served step(const serve::StepContext& context = {}) {
    const serve::Served served = server.serve(context, serve::Server::Clock::now());
    server.returned(served, serve::Server::Clock::now());
    return served;
  }
  Lease lease(const serve::Served& served) { return LeaseMaker::make(store, served.slot, {}); }

  std::shared_ptr<SlotStore> store;
  ring::SlotRing ring;
  RunningTime time{std::chrono::seconds(1), RunningTime::Clock::time_point{}};
  Failure failure;
  Script script;
  std::vector<std::uint64_t> left_pool;
  std::vector<std::string> warnings;
  bool stop = false;
  bool is_paused = false;
  std::function<bool()> interrupted = [] { return false; };
  serve::Server server;
};

inline void check_padding(const serve::Served& served) {
  CHECK(served.padding);
  CHECK(served.decision == Decision::reuse);
  CHECK(served.use_index > 0);
}

}  // namespace forebay::testing
