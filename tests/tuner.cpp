#include "produce/tuner.hpp"
#include "test.hpp"

// How the tuner chooses the numbers of readers and decoders, on an arithmetic model of a machine
// instead of real threads.
namespace forebay::test_tuner {
namespace {

using namespace forebay::produce;

// An arithmetic model of workers between a store, cores and a trainer.
struct Machine {
  unsigned cores = 4;
  double read_s = 1e-4;       // one read, however many are in flight
  double most_reads_s = 1e9;  // bandwidth: reads per second
  double decode_s = 1e-3;     // on one core
  double trainer_cores = 0;   // cores that the trainer uses
  double demand = 1e9;        // samples per second that the trainer takes
  double noise = 0;           // of rates, relative

  [[nodiscard]] double decoder_rate(double decoders) const {
    const double free = std::max(static_cast<double>(cores) - trainer_cores, 0.5);
    return std::min(decoders, free) / decode_s;
  }
  [[nodiscard]] double production(const WorkerCounts& counts) const {
    return std::min({counts.io / read_s, most_reads_s, decoder_rate(counts.decode)});
  }
  [[nodiscard]] double rate(const WorkerCounts& counts) const { return std::min(production(counts), demand); }

  // The observations of a window of `seconds` with these counts.
  [[nodiscard]] WorkerWindow window(const WorkerCounts& counts, double seconds, Random& random) const {
    const double possible = production(counts);
    const double done = rate(counts) * (1 + noise * (2 * random.uniform() - 1));
    const double blocked = 1 - std::min(1.0, demand / possible);
    const double decoding = std::min<double>(counts.decode, done * counts.decode / decoder_rate(counts.decode));
    const bool store_is_limit = possible < decoder_rate(counts.decode);
    const double reading = store_is_limit && blocked == 0 ? counts.io : std::min<double>(counts.io, done * read_s);
    return {.seconds = seconds,
            .reads = static_cast<std::uint64_t>(done * seconds),
            .decoded = static_cast<std::uint64_t>(done * seconds),
            .reading_s = reading * seconds,
            .decoding_s = decoding * seconds,
            .starved_s = (counts.decode - decoding) * seconds,
            .decoder_cpu_s = done * decode_s * seconds,
            .reader_cpu_s = 0,
            .trainer_cpu_s = trainer_cores * seconds,
            .blocked_s = blocked * seconds};
  }

  // The best rate of all fixed settings within the plan.
  [[nodiscard]] double best(const WorkerPlan& plan) const {
    double best = 0;
    for (unsigned io = 1; io <= plan.most.io; ++io) {
      for (unsigned decode = 1; decode <= plan.most.decode; ++decode) best = std::max(best, rate({io, decode}));
    }
    return best;
  }
};

WorkerPlan plan_for(unsigned cores) {
  const unsigned decode = std::max(1U, cores - 1);
  return {.first = {std::clamp(8 * decode, 16U, 64U), decode},
          .most = {std::max(64U, 16 * cores), cores},
          .cores = cores,
          .reason = ""};
}

// Runs for this long and returns the final counts.
WorkerCounts run(Tuner& tuner, const Machine& machine, double seconds, Random& random) {
  constexpr double kWindow = 0.2;
  for (double t = 0; t < seconds; t += kWindow) tuner.look(machine.window(tuner.counts(), kWindow, random));
  return tuner.counts();
}

WorkerCounts run(const Machine& machine, double seconds = 5) {
  Random random(1);
  Tuner tuner(plan_for(machine.cores));
  return run(tuner, machine, seconds, random);
}

TEST_CASE(
    "more is asked for while readers and decoders wait for each other, not while the ring, a store or decoders do") {
  const WorkerCounts counts{.io = 4, .decode = 2};
  const WorkerWindow idle{.seconds = 1, .decoded = 10, .reading_s = 3, .starved_s = 1.5, .unasked_s = 1};
  const auto asks = [&](auto change) {
    AskTuner tuner;
    WorkerWindow window = idle;
    change(window);
    int asked = 0;
    for (int i = 0; i < 12; ++i) asked += tuner.look(window, counts) ? 1 : 0;
    return asked;
  };
  CHECK(asks([](WorkerWindow&) {}) == 4);
  CHECK(asks([](WorkerWindow& window) { window.decoded = 0; }) == 0);      // an outage
  CHECK(asks([](WorkerWindow& window) { window.unasked_s = 0.1; }) == 0);  // the store is the limit
  CHECK(asks([](WorkerWindow& window) { window.starved_s = 0.05; }) == 0);
  CHECK(asks([](WorkerWindow& window) { window.blocked_s = 0.5; }) == 0);
}

}  // namespace

TEST_CASE("a slow store gets as many readers as decoders can use") {
  const Machine machine{.cores = 2, .read_s = 0.02, .decode_s = 1.4e-3};
  const WorkerCounts counts = run(machine);
  CHECK(machine.rate(counts) >= 0.95 * machine.best(plan_for(2)));
  CHECK(counts.decode == 2);
  CHECK(counts.io >= 29);  // 2 / 1.4 ms * 20 ms
  CHECK(counts.io <= 40);
}

TEST_CASE("a store that is limited by its bandwidth is not asked by more and more readers") {
  const Machine machine{.cores = 4, .read_s = 5e-3, .most_reads_s = 500, .decode_s = 1e-3};
  Random random(1);
  Tuner tuner(plan_for(4));
  unsigned most = 0;
  double more = 0;
  for (int second = 0; second < 120; ++second) {
    const unsigned readers = run(tuner, machine, 1, random).io;
    most = std::max(most, readers);
    more += readers > plan_for(4).first.io ? 1 : 0;
  }
  CHECK(most <= 2 * plan_for(4).first.io);
  CHECK(more <= 12);  // trials become rare
  CHECK(tuner.counts() == plan_for(4).first);
}

TEST_CASE("a trainer that sleeps leaves its core to a decoder, and one that computes keeps it") {
  Machine machine{.cores = 4};
  CHECK(run(machine).decode == 4);
  machine.trainer_cores = 1;
  CHECK(run(machine).decode == 3);

  Random random(1);
  Tuner tuner(plan_for(4));
  machine.trainer_cores = 0;
  CHECK(run(tuner, machine, 5, random).decode == 4);
  machine.trainer_cores = 1;
  CHECK(run(tuner, machine, 5, random).decode == 3);
  CHECK(testing::contains(tuner.reason(), "trainer computes"));
}

TEST_CASE("threads that the system refuses are asked for again later, not all the time") {
  const Machine slow_store{.read_s = 0.1};
  Random random(1);
  Tuner tuner(plan_for(slow_store.cores));
  const WorkerCounts there = tuner.counts();
  REQUIRE(run(tuner, slow_store, 1, random).io > there.io);
  tuner.refused(there);
  CHECK(tuner.counts() == there);
  CHECK(tuner.settled_for() == 0);
  CHECK(run(tuner, slow_store, 9, random).io == there.io);
  CHECK(run(tuner, slow_store, 3, random).io > there.io);
}

TEST_CASE("nothing changes while the ring is full") {
  const Machine machine{.cores = 8, .read_s = 5e-3, .demand = 100};
  CHECK(run(machine, 60) == plan_for(8).first);
}

TEST_CASE("readers that have nothing to do are let go") {
  const Machine machine{.cores = 4, .read_s = 2e-5, .decode_s = 1e-3};
  const WorkerCounts counts = run(machine);
  CHECK(counts.io == 2);
  CHECK(machine.rate(counts) >= 0.95 * machine.best(plan_for(4)));
}

TEST_CASE("what the options fix stays fixed") {
  Random random(1);
  const Machine machine{.cores = 4, .read_s = 0.05, .decode_s = 1e-3};
  WorkerPlan plan = plan_for(4);
  plan.most.io = plan.first.io = 3;
  Tuner tuner(plan);
  const WorkerCounts counts = run(tuner, machine, 20, random);
  CHECK(counts.io == 3);
  plan = plan_for(4);
  plan.most.decode = plan.first.decode = 1;
  Tuner other(plan);
  CHECK(run(other, machine, 20, random).decode == 1);
  CHECK(other.counts().io >= 50);
}

TEST_CASE("0.95 of the best fixed setting within seconds, on any machine") {
  Random random = testing::random_from(20261121);
  for (int machine_number = 0; machine_number < 300; ++machine_number) {
    CAPTURE(machine_number);
    Machine machine{.cores = 1 + static_cast<unsigned>(random.below(32)),
                    .read_s = std::exp(random.uniform(std::log(1e-5), std::log(2e-2))),
                    .decode_s = std::exp(random.uniform(std::log(2e-5), std::log(1e-2))),
                    .noise = random.uniform(0, 0.03)};
    if (random.below(3) == 0) machine.most_reads_s = std::exp(random.uniform(std::log(100.0), std::log(1e5)));
    if (random.below(3) == 0) machine.demand = std::exp(random.uniform(std::log(100.0), std::log(1e5)));
    if (random.below(2) == 0 && machine.cores > 1) machine.trainer_cores = 1;
    CAPTURES(machine.cores, machine.read_s, machine.decode_s, machine.most_reads_s);
    CAPTURES(machine.demand, machine.trainer_cores);
    Tuner tuner(plan_for(machine.cores));
    run(tuner, machine, 5, random);
    double reached = 0;
    double seconds = 0;
    for (; seconds < 10; ++seconds) reached += machine.rate(run(tuner, machine, 1, random));
    CAPTURES(tuner.counts().io, tuner.counts().decode);
    CHECK(reached / seconds >= 0.95 * machine.best(plan_for(machine.cores)));
  }
}

TEST_CASE("readers that wait for a core, not for the store, become fewer although decoders starve") {
  // Two cores read and decode small files: neither stage is always busy, but no core is idle.
  WorkerWindow window{.seconds = 0.2,
                      .reads = 32'000,
                      .decoded = 32'000,
                      .reading_s = 0.32,
                      .decoding_s = 0.24,
                      .starved_s = 0.16,
                      .decoder_cpu_s = 0.23,
                      .reader_cpu_s = 0.15,
                      .trainer_cpu_s = 0.01,
                      .blocked_s = 0};
  const auto after_a_second = [&] {
    Tuner tuner(plan_for(2));
    for (int i = 0; i < 5; ++i) tuner.look(window);
    return tuner;
  };
  CHECK(after_a_second().counts().io == 4);
  CHECK(after_a_second().reason().find("all cores are busy") != std::string::npos);
  // A slow store's bursts look similar, but leave the cores idle.
  window.reader_cpu_s = 0.01;
  CHECK(after_a_second().counts().io == plan_for(2).first.io);
}

TEST_CASE("as many readers stay as the reads of decoders would keep busy") {
  const WorkerWindow window{.seconds = 0.2,
                            .reads = 28'000,
                            .decoded = 28'000,
                            .lent_s = 0.18,
                            .decoding_s = 0.39,
                            .decoder_cpu_s = 0.38,
                            .trainer_cpu_s = 0.01};
  Tuner tuner(plan_for(2));
  for (int i = 0; i < 10; ++i) tuner.look(window);
  CHECK(tuner.counts().io == 3);  // 0.9 reads at a time, plus half, plus one
}

}  // namespace forebay::test_tuner
