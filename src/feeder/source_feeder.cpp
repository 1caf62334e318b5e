// A feeder over a source of batches: a Feeder of an endless dataset whose samples are the batches
// (source_intake.hpp), plus what the Feeder does not know: where epochs begin and end.
//
// Ranks agree on the end with a census of their own, whose result is used two steps later, so no
// step waits for it unless another rank is further behind. A rank that leaves tells the others,
// which might otherwise wait for its next report.
//
// A rank that is done reuses batches until the others are done. After a resume at that point it has
// nothing to reuse, so with several ranks the state is the source's before the last batch, and a
// resumed run takes that batch again without serving it.

#include <forebay/source_feeder.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <iterator>
#include <sstream>
#include <utility>

#include <forebay/error.hpp>

#include "base/clock.hpp"
#include "ranks/agreed_error.hpp"
#include "ranks/census.hpp"
#include "ranks/early_end.hpp"
#include "ranks/liveness.hpp"
#include "ring/queue_slots.hpp"
#include "source_intake.hpp"

namespace forebay {
namespace feeder {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kTitle = "forebay.source";

struct SourcePlace {
  std::uint64_t epoch = 0;
  std::uint64_t served = 0;  // batches of it
  std::uint64_t passed = 0;  // of those, the ones after the source's state; without a state it begins the epoch
  std::uint64_t steps = 0;   // of the run
  std::uint64_t fresh = 0;   // batches of the run
  std::string source = {};   // the source's state
};

// "rank 0 of 2"
std::string name_of(const Communicator& ranks) {
  return "rank " + std::to_string(ranks.rank()) + " of " + std::to_string(ranks.size());
}

std::string text_of(const SourcePlace& place, const Communicator& ranks) {
  std::string text = std::string(kTitle) + " 4";
  for (const std::uint64_t number : {std::uint64_t{ranks.rank()}, std::uint64_t{ranks.size()}, place.epoch,
                                     place.served, place.passed, place.steps, place.fresh}) {
    text += " " + std::to_string(number);
  }
  return text + "\n" + place.source;
}

// A line of words, and then the source's own state, which may be any bytes.
SourcePlace place_of(std::string_view text, const Communicator& ranks) {
  if (text.empty()) return {};
  std::istringstream words{std::string(text)};
  std::string title;
  std::string rank;
  std::string size;
  int version = 0;
  SourcePlace place;
  words >> title >> version >> rank >> size >> place.epoch >> place.served >> place.passed >> place.steps >>
      place.fresh;
  if (words.get() != '\n' || title != kTitle || version != 4 || place.passed > place.served) {
    throw ConfigError("the state of a SourceFeeder is what its state() returned, of version 4; this is something else");
  }
  const std::string owner = "rank " + rank + " of " + size;
  if (owner != name_of(ranks)) {
    throw ConfigError("a source is part of its rank's program and cannot be divided anew, and this state is of " +
                      owner + " where it is to resume on " + name_of(ranks) +
                      ": give each rank its own state, and resume on as many ranks");
  }
  place.source.assign(std::istreambuf_iterator<char>(words), {});
  return place;
}

// Whether the epoch is over on all ranks, known on all at the same step.
class AgreedEnd {
 public:
  AgreedEnd(Communicator& ranks, double watchdog_s, std::function<void()> while_waiting)
      : clock_(watchdog_s),
        liveness_(ranks, {&clock_.time(), watchdog_s}),
        census_(ranks, 1,
                [this, hear = std::move(while_waiting), last = Clock::now()]() mutable {
                  liveness_.wait_for_reports();
                  if (!hear || Clock::now() - last < 5ms) return;
                  last = Clock::now();
                  hear();
                }),
        communicator_(ranks) {}

  // Where the run begins or is resumed: how many batches this rank has served. Collective.
  void begin(std::uint64_t fresh) {
    for (const std::string& each : communicator_.all_gather(std::to_string(fresh))) fresh_ += std::stoull(each);
  }
  // Before a step, as of two steps ago. Throws Error naming a rank that will not make the step; after the end they may
  // have left.
  [[nodiscard]] bool is_over() {
    const ranks::JobReport* const job = census_.due();
    if (job != nullptr) fresh_ = static_cast<std::uint64_t>(job->samples);
    if (job == nullptr || job->idle < std::int64_t{communicator_.size()}) {
      liveness_.begin(steps_);
      return false;
    }
    while (census_.rest() != nullptr) continue;
    return true;
  }
  // Batches that all ranks together had served, as of two steps ago.
  [[nodiscard]] std::uint64_t fresh() const noexcept { return fresh_; }
  // After the step: whether this rank has served its source, and how many batches: the census's `idle` and `samples`.
  void post(bool is_over, std::uint64_t fresh) {
    census_.post({.samples = static_cast<std::int64_t>(fresh), .idle = is_over});
    liveness_.has_posted();
    ++steps_;
  }
  // Throws what another rank gave as its cause, if one has left.
  void hear() { liveness_.begin(steps_); }
  // Tells the others that this rank makes no further step; they throw `cause` at that step.
  void leave(std::string_view cause) {
    if (!liveness_.is_over()) liveness_.leave(steps_, cause);
  }

 private:
  using Clock = std::chrono::steady_clock;

  RunningClock clock_;
  ranks::Liveness liveness_;
  ranks::Census census_;
  Communicator& communicator_;
  std::uint64_t steps_ = 0;
  std::uint64_t fresh_ = 0;
};

// One batch is one sample, read and made by one thread each, and never read twice. Settings for
// images and files do not apply to a source. Epochs and steps are counted here, as the end of an
// epoch is a step of the feeder behind it.
Options options_of(Options options) {
  if (options.mpi.mode == MpiMode::lockstep) {
    throw ConfigError(
        "mpi.mode = \"lockstep\": sources of batches end their epochs at different steps, so that ranks cannot decide "
        "alike; leave it \"local\"");
  }
  if (options.run.eval) options.policy.name = "block";
  options.run = {.epochs = 1};
  options.dataset = {};
  options.dataset.batch_size = 1;
  options.dataset.shuffle = false;
  options.transform = {.crop = Crop::none, .size = {1, 1}, .mirror = 0, .dtype = DType::uint8, .channels = 1};
  options.workers.io = options.workers.decode = 1;
  options.workers.hedge = Hedge::off;
  return options;
}

// Collective: refuses ranks that could not continue together, because they begin with different epochs or would end
// after different ones. Returns the most steps of any: after an error on one rank, others may have made two more
// (AgreedEnd).
std::uint64_t agreed_steps(Communicator& ranks, const SourcePlace& place, const std::string& end) {
  const std::string again = ": give each rank its own state, all taken after the same step";
  const auto all = ranks.all_gather(std::to_string(place.steps) + " " + std::to_string(place.epoch) + end);
  std::uint64_t least = place.steps;
  std::uint64_t most = place.steps;
  const auto of_epoch = [](const std::string& text) { return text.substr(text.find(' ') + 1); };
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (of_epoch(all[rank]) != of_epoch(all[0])) {
      throw ConfigError("rank 0 is to begin with epoch " + of_epoch(all[0]) + " and rank " + std::to_string(rank) +
                        " with epoch " + of_epoch(all[rank]) + again + ", and all the same run.epochs and run.steps");
    }
    least = std::min<std::uint64_t>(least, std::stoull(all[rank]));
    most = std::max<std::uint64_t>(most, std::stoull(all[rank]));
  }
  if (most - least <= 2) return most;
  throw ConfigError("the states of the ranks are of steps " + std::to_string(least) + " to " + std::to_string(most) +
                    again);
}

// Ranks that cannot begin throw together, before any is in the Feeder's own constructor. Every policy of the registry
// is wrapped, as any may be named in the configuration.
class FeederOfSource final : public SourceFeeder {
 public:
  FeederOfSource(Options options, const Communicator& communicator, std::shared_ptr<BatchSource> source, Parts parts,
                 std::string_view state)
      : source_(std::move(source)),
        epochs_(options.run.eval        ? 1
                : options.run.steps > 0 ? UINT64_MAX
                                        : static_cast<std::uint64_t>(options.run.epochs)),
        steps_(options.run.steps > 0 ? static_cast<std::uint64_t>(options.run.steps) : UINT64_MAX),
        communicator_(communicator.duplicate()) {
    options = options_of(std::move(options));
    communicator_->while_waiting(parts.while_waiting);
    if (communicator_->size() > 1) {
      end_ = std::make_unique<AgreedEnd>(*communicator_, options.policy.watchdog_s, parts.while_waiting);
    }
    ranks::collectively(*communicator_, [&] {
      if (source_ == nullptr) throw ConfigError("a SourceFeeder needs a source of batches, not a null pointer");
      intake_ = std::make_shared<SourceIntake>(source_, static_cast<std::uint64_t>(ring::pool_of(options.queue)));
      began_ = place_ = place_of(state, *communicator_);
    });
    began_.steps = place_.steps = agreed_steps(
        *communicator_, place_,
        steps_ == UINT64_MAX ? " of " + std::to_string(epochs_) : " in " + std::to_string(steps_) + " steps");
    if (end_) end_->begin(place_.fresh);
    ranks::collectively(*communicator_, [&] {
      if (is_complete()) return intake_->give_up();
      if (!place_.source.empty()) source_->restore(place_.source);
      begin(place_.passed);
    });
    parts.dataset = intake_;
    parts.resume.clear();
    const PolicyRegistry known = parts.policies;
    for (const std::string& name : known.names()) {
      parts.policies.add(name, [known, intake = intake_](const PolicyOptions& policy) {
        return std::make_unique<SourcePolicy>(known.make(policy), intake);
      });
    }
    feeder_.emplace(std::move(options), communicator, std::move(parts));
  }
  // Does nothing in a fork, like Feeder: locks may be held forever, and the threads are the
  // parent's.
  ~FeederOfSource() override {
    if (feeder_->is_forked()) {
      static_cast<void>(end_.release());           // NOLINT(bugprone-unused-return-value)
      static_cast<void>(communicator_.release());  // NOLINT(bugprone-unused-return-value)
      return;
    }
    try {
      close();
    } catch (...) {  // NOLINT(bugprone-empty-catch): the feeder closes itself, and says what fails
    }
  }
  FeederOfSource(const FeederOfSource&) = delete;
  FeederOfSource& operator=(const FeederOfSource&) = delete;

  [[nodiscard]] bool next_epoch() override {
    if (is_ended_ || feeder_->was_stopped() || (!is_open_ && is_complete())) return false;
    if (is_open_) return true;
    try {
      begin(0);
    } catch (...) {
      tell_others();
      throw;
    }
    return true;
  }

  [[nodiscard]] std::optional<Lease> next(StreamView stream) override {
    if (!is_open_) return std::nullopt;
    try {
      return step(stream);
    } catch (...) {
      tell_others();
      throw;
    }
  }

  [[nodiscard]] std::string state() const override {
    SourcePlace place = place_;
    const bool repeats = end_ != nullptr && place.served > 0;
    if (auto source = intake_->state(std::uint64_t{is_over_} + std::uint64_t{repeats})) {
      place.passed = source->empty() ? place.served : std::uint64_t{repeats};
      place.source = *std::move(source);
    } else {
      place.source = began_.source;
      place.passed = began_.passed + place.served - began_.served;
    }
    return text_of(place, *communicator_);
  }
  // The ends of epochs are taken out: alone they were dropped, else they served a batch again.
  [[nodiscard]] Summary summary() const override {
    Summary figures = feeder_->summary();
    const auto all = static_cast<double>(std::max<std::uint64_t>(figures.fresh, 1));
    figures.steps = place_.steps - began_.steps;
    figures.fresh = place_.fresh - began_.fresh;
    figures.reused = figures.steps - figures.fresh;
    const auto fresh = static_cast<double>(figures.fresh);
    figures.fresh_fraction = figures.steps > 0 ? fresh / static_cast<double>(figures.steps) : 0;
    figures.fresh_au = figures.au * figures.fresh_fraction;
    figures.images_per_s *= fresh / all;
    figures.epochs = place_.epoch - began_.epoch;
    return figures;
  }
  [[nodiscard]] const Feeder& feeder() const noexcept override { return *feeder_; }
  void request_stop() noexcept override { feeder_->request_stop(); }

  // The others are told first, because they may wait for this rank's next step.
  void close() override {
    if (end_ && !feeder_->is_forked()) end_->leave(named("its feeder of a source was closed"));
    feeder_->close();
    (void)communicator_->close(ranks::kPartingS);
  }

 private:
  void begin(std::uint64_t passed_over) {
    source_->begin_epoch(place_.epoch);
    intake_->begin(passed_over);
    is_open_ = true;
    is_over_ = false;
  }

  // The agreement comes before the step: a step after the end would take a batch of the next epoch on some rank. The
  // end itself is a step for ranks that go on, which serves the last batch again; alone it is dropped.
  [[nodiscard]] std::optional<Lease> step(StreamView stream) {
    const bool has_steps = place_.steps < steps_;  // alike on all ranks; others may have left after the last
    if (has_steps && end_ && end_->is_over()) return ended();
    std::optional<Lease> batch = has_steps ? next_batch(stream) : std::nullopt;
    if (!batch) {  // the run was stopped, or its steps are made: the epoch is not over
      end_run();
      return std::nullopt;
    }
    LeaseMaker::Serving& serving = LeaseMaker::serving_of(*batch);
    serving.job_fresh_samples = end_ ? end_->fresh() : place_.fresh;
    if (batch->is_fresh() && intake_->serve()) {
      is_over_ = true;
      if (intake_->has_failed()) {
        end_run();
        intake_->rethrow();
      }
      if (!end_) return ended();
      if (!intake_->has_last()) {
        end_run();
        throw Error(named("its source has had no batch by the end of epoch " + std::to_string(place_.epoch) +
                          ", and has none to serve again until other ranks are done: give each rank data for a batch, "
                          "or start fewer ranks"));
      }
      intake_->wait_for_others();
    } else if (batch->is_fresh()) {
      ++place_.served;
      ++place_.fresh;
    }
    if (is_over_) ++serving.use_index;  // the end's first use has the bytes of a batch that was served
    serving.step = place_.steps++;
    if (end_) end_->post(is_over_, place_.fresh);
    return batch;
  }
  // A rank that leaves says why before its feeder says that it has left.
  [[nodiscard]] std::optional<Lease> next_batch(StreamView stream) {
    try {
      return feeder_->next(stream);
    } catch (const Error&) {
      if (end_) end_->hear();
      throw;
    }
  }
  // For this rank; next() then returns nothing until next_epoch().
  std::nullopt_t ended() {
    is_open_ = is_over_ = false;
    ++place_.epoch;
    place_.served = 0;
    return std::nullopt;
  }
  [[nodiscard]] bool is_complete() const noexcept { return place_.epoch >= epochs_ || place_.steps >= steps_; }
  // In the middle of the epoch.
  void end_run() {
    is_ended_ = true;
    is_open_ = false;
  }

  // An error of this rank alone also ends the run for the others, which would otherwise wait for
  // its next step.
  void tell_others() {
    if (end_) end_->leave(named(ranks::described(std::current_exception()).text));
  }
  // "rank 2: ...", once.
  [[nodiscard]] std::string named(const std::string& cause) const {
    return cause.starts_with("rank ") ? cause : "rank " + std::to_string(communicator_->rank()) + ": " + cause;
  }

  std::shared_ptr<BatchSource> source_;
  std::uint64_t epochs_;
  std::uint64_t steps_;  // the most
  SourcePlace place_;    // its source and passed are of no use once something was served
  SourcePlace began_;    // where the run was resumed
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<AgreedEnd> end_;  // with several ranks
  std::shared_ptr<SourceIntake> intake_;
  std::optional<Feeder> feeder_;
  bool is_open_ = false;   // an epoch has begun and is not over
  bool is_over_ = false;   // its end, or a failure, was served here
  bool is_ended_ = false;  // the run is
};

}  // namespace
}  // namespace feeder

std::unique_ptr<SourceFeeder> make_source_feeder(Options options, const Communicator& communicator,
                                                 std::shared_ptr<BatchSource> source, Parts parts,
                                                 std::string_view state) {
  return std::make_unique<feeder::FeederOfSource>(std::move(options), communicator, std::move(source), std::move(parts),
                                                  state);
}

}  // namespace forebay
