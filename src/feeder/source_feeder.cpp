// A feeder over a source of batches: a Feeder of an endless dataset whose samples are the batches,
// and beside it what the Feeder does not know, where epochs begin and end.
//
// A reading thread takes a batch and hands it on as a sample of one pixel whose fields are the
// batch. Where the epoch ends it hands on one more, so that a trainer who waits for a batch wakes up
// and learns of it, and then waits for the next begin(). That one may be served again like any
// other, and so has the bytes of the last batch.
//
// The order of the source is that of serving because one thread reads and one makes batches, as long
// as reads are not quick: quick ones are made by the thread that decodes, several at a time, and a
// batch that is there would then wait for one that is not (kQuick).
//
// Ranks agree on the end with a census of their own, which is heard two steps later: so no step
// waits for it unless another rank is further behind. A rank that leaves says so to the others,
// which might wait for its next report.

#include <forebay/source_feeder.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "base/clock.hpp"
#include "ranks/agreed_error.hpp"
#include "ranks/census.hpp"
#include "ranks/liveness.hpp"

namespace forebay {
namespace feeder {

using namespace std::chrono_literals;

// What the reading thread takes from the source. serve() and what follows it belong to the trainer's thread.
class SourceIntake final : public Dataset {
 public:
  explicit SourceIntake(std::shared_ptr<BatchSource> source)
      : source_(std::move(source)), last_(source_->fields().size()), ended_ns_(steady_ns()) {
    for (const Field& field : source_->fields()) {
      if (field.kind == FieldKind::array) continue;
      throw ConfigError("the field \"" + field.name + "\" of a source of batches is of kind " +
                        std::string(to_string(field.kind)) + ": it must be an array, with the shape of a whole batch");
    }
  }

  [[nodiscard]] std::string_view format() const noexcept override { return "source"; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return kEndless; }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return classes_; }
  [[nodiscard]] Sample sample(std::uint64_t /*id*/) const override {
    Sample pixel;
    pixel.encoding = Encoding::raw;
    pixel.width = pixel.height = pixel.channels = 1;
    return pixel;
  }
  [[nodiscard]] std::string name(std::uint64_t id) const override { return "batch " + std::to_string(id); }
  // Which id is asked for does not matter: the next one of the source is always meant.
  void read(std::uint64_t /*id*/, ReadTarget& target) const override {
    const auto ready = std::chrono::steady_clock::now() + kQuick;
    take();
    std::this_thread::sleep_until(ready);
    target.reserve(1)[0] = std::byte{0};
  }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return source_->fields(); }
  // By the thread that called read() just before, for the same batch. The end has the bytes of the last batch; what the
  // source throws makes this batch the end.
  void read_field(std::uint64_t /*id*/, std::size_t field, ReadTarget& target) const override {
    const std::span<std::byte> to = target.reserve(fields()[field].sample_bytes());
    last_[field].resize(to.size());
    if (has_batch_) {
      try {
        source_->fill(field, last_[field]);
        has_last_ = true;
      } catch (...) {
        end(taken_ - 1, std::current_exception());
      }
    }
    std::ranges::copy(last_[field], to.begin());
  }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return skipped_; }
  [[nodiscard]] IndexCounts counts() const noexcept override { return {}; }
  // Nothing tells the batches of one source from those of another: state() is for the same source.
  [[nodiscard]] std::vector<std::byte> serialize() const override { return {}; }

  // The source's epoch has begun; so many batches of it are passed over.
  void begin(std::uint64_t passed_over) {
    paused_s_ = paused_s_ + seconds(std::chrono::nanoseconds(steady_ns() - ended_ns_));
    is_at_end_ = is_waiting_ = false;
    end_ = UINT64_MAX;
    const std::lock_guard lock(mutex_);
    passed_over_ = passed_over;
    is_open_ = true;
    changed_.notify_all();
  }
  // Nothing is waited for any more, and nothing taken.
  void close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
  }
  // The next of those that were taken is served, for the first time. True for the end.
  [[nodiscard]] bool serve() noexcept {
    const bool is_end = served_.fetch_add(1) == end_.load(std::memory_order_acquire);
    if (is_end) ended_ns_ = steady_ns();
    return is_end;
  }
  // After the end: throws what the source threw, if that was the end.
  void rethrow() {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  // After the end: the source has not failed, and a batch has come, in any epoch.
  [[nodiscard]] bool has_last() const noexcept { return has_last_; }
  // The end was served here, and other ranks still have batches.
  void wait_for_others() noexcept { is_waiting_ = true; }
  // The source's state behind the batch or end that was served last; empty before the first.
  [[nodiscard]] std::string state() {
    const std::lock_guard lock(mutex_);
    const std::uint64_t served = served_;
    return served == 0 ? std::string() : states_[served - 1 - first_state_];
  }

 private:
  friend class SourcePolicy;

  // Above ReadPace::kQuick and the noise of clocks and wakings. Chosen.
  static constexpr auto kQuick = 200us;
  static constexpr std::uint64_t kEndless = std::uint64_t{1} << 40;

  // A feeder that closes gets ends without waiting: they are never served.
  void take() const {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_open_ || is_closed_; });
      has_batch_ = !is_closed_;
    }
    if (!has_batch_) return;
    std::string state;
    try {
      while (passed_over_ > 0 && source_->next()) --passed_over_;
      has_batch_ = passed_over_ == 0 && source_->next();
      state = source_->state();
      if (!has_batch_) end(taken_, nullptr);
    } catch (...) {
      end(taken_, std::current_exception());
    }
    ++taken_;
    const std::lock_guard lock(mutex_);
    for (; first_state_ + 1 < served_; ++first_state_) states_.pop_front();
    states_.push_back(std::move(state));
  }
  // After a failure nothing can be served again: part of a batch may have been written.
  void end(std::uint64_t place, std::exception_ptr error) const noexcept {
    has_batch_ = false;
    if (error) has_last_ = false;
    error_ = std::move(error);
    const std::lock_guard lock(mutex_);
    is_open_ = false;
    is_at_end_ = true;  // before its sample is there
    end_.store(place, std::memory_order_release);
  }

  std::shared_ptr<BatchSource> source_;
  std::vector<std::string> classes_;
  std::vector<Skipped> skipped_;

  // Reading is const for a Dataset, whose samples never change; of this one each is read once.
  mutable std::mutex mutex_;  // of what follows up to states_; no step of the trainer takes it
  mutable std::condition_variable changed_;
  mutable bool is_open_ = false;
  bool is_closed_ = false;
  mutable std::deque<std::string> states_;  // behind batches that are not served, and the last that is
  mutable std::uint64_t first_state_ = 0;   // the place of the first of them

  // The reading thread's, between begin() and the end.
  mutable std::uint64_t passed_over_ = 0;
  mutable std::uint64_t taken_ = 0;
  mutable bool has_batch_ = false;
  mutable std::vector<std::vector<std::byte>> last_;  // batch, by field

  // Written before end_, whose release pairs with the acquire of serve().
  mutable std::exception_ptr error_;
  mutable std::atomic<bool> has_last_{false};
  mutable std::atomic<std::uint64_t> end_{UINT64_MAX};  // the place of the epoch's end, once it is known
  std::atomic<std::uint64_t> served_{0};

  // What the policy is to know. The last batch has come: saving the ready ones would gain nothing.
  mutable std::atomic<bool> is_at_end_{false};
  std::atomic<bool> is_waiting_{false};
  std::atomic<double> paused_s_{0};  // time between epochs, in which nothing was wanted of the source
  std::int64_t ended_ns_;
};

// Time in which the source was paused does not count as the trainer's.
class SourcePolicy final : public Policy {
 public:
  SourcePolicy(std::unique_ptr<Policy> policy, std::shared_ptr<const SourceIntake> intake)
      : policy_(std::move(policy)), intake_(std::move(intake)) {}

  // A rank that is done serves again until the others are, whatever the policy says: nothing fresh will come.
  [[nodiscard]] Decision decide(const Signals& signals) override {
    if (intake_->is_waiting_ && signals.uses > 0) return Decision::reuse;
    if (intake_->is_at_end_ && signals.depth == 0) return Decision::fresh;  // the end comes at once
    return policy_->decide(known(signals));
  }
  void served(Decision decision, const Signals& signals) override { policy_->served(decision, known(signals)); }

 private:
  // As at the end of a run: Signals::depth.
  [[nodiscard]] Signals known(Signals signals) const noexcept {
    signals.now_s -= intake_->paused_s_;
    if (intake_->is_at_end_ && signals.depth > 0) signals.depth = signals.capacity;
    return signals;
  }

  std::unique_ptr<Policy> policy_;
  std::shared_ptr<const SourceIntake> intake_;
};

constexpr std::string_view kTitle = "forebay.source";
// As Feeder::close() waits for other ranks.
constexpr double kPartingS = 5;

struct SourcePlace {
  std::uint64_t epoch = 0;
  std::uint64_t served = 0;  // batches of it
  std::string source = {};   // the source's state
};

inline std::string text_of(const SourcePlace& place) {
  return std::string(kTitle) + " 1 " + std::to_string(place.epoch) + " " + std::to_string(place.served) + "\n" +
         place.source;
}

// A line of words, and then the source's own state, which may be any bytes.
inline SourcePlace place_of(std::string_view text) {
  if (text.empty()) return {};
  std::istringstream words{std::string(text)};
  std::string title;
  int version = 0;
  SourcePlace place;
  words >> title >> version >> place.epoch >> place.served;
  if (words.get() != '\n' || title != kTitle || version != 1) {
    throw ConfigError("the state of a SourceFeeder is what its state() returned, of version 1; this is something else");
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
        ranks_(ranks.size()) {}

  // Before a step, as of two steps ago. Throws Error naming a rank that will not make the step; after the end they may
  // have left.
  [[nodiscard]] bool is_over() {
    const ranks::JobReport* const job = census_.due();
    if (job == nullptr || job->idle < ranks_) {
      liveness_.begin(steps_);
      return false;
    }
    while (census_.rest() != nullptr) continue;
    return true;
  }
  // After the step: whether this rank has served its source.
  void post(bool is_over) {
    census_.post({.idle = is_over});
    liveness_.has_posted();
    ++steps_;
  }
  void leave() {
    if (!liveness_.is_over()) liveness_.leave(steps_, "its feeder of a source was closed");
  }

 private:
  using Clock = std::chrono::steady_clock;

  RunningClock clock_;
  ranks::Liveness liveness_;
  ranks::Census census_;
  std::int64_t ranks_;
  std::uint64_t steps_ = 0;
};

// One batch is one sample, read and passed on by one thread each, and never read twice. What is said of images, files
// and evaluation is nothing that a source has.
inline Options options_of(Options options) {
  if (options.mpi.mode == MpiMode::lockstep) {
    throw ConfigError(
        "mpi.mode = \"lockstep\": sources of batches end their epochs at different steps, so that ranks cannot decide "
        "alike; leave it \"local\"");
  }
  options.run = {.epochs = 1, .steps = options.run.steps};
  options.dataset = {};
  options.dataset.batch_size = 1;
  options.dataset.shuffle = false;
  options.transform = {.crop = Crop::none, .size = {1, 1}, .mirror = 0, .dtype = DType::uint8, .channels = 1};
  options.workers.io = options.workers.decode = 1;
  options.workers.hedge = Hedge::off;
  return options;
}

// Ranks that cannot begin throw together, before any is in the Feeder's own constructor. Every policy of the registry
// is wrapped, as any may be named in the configuration.
class FeederOfSource final : public SourceFeeder {
 public:
  FeederOfSource(Options options, const Communicator& communicator, std::shared_ptr<BatchSource> source, Parts parts,
                 std::string_view state)
      : source_(std::move(source)),
        epochs_(static_cast<std::uint64_t>(options.run.epochs)),
        ranks_(communicator.duplicate()) {
    options = options_of(std::move(options));
    ranks_->while_waiting(parts.while_waiting);
    if (ranks_->size() > 1) end_.emplace(*ranks_, options.policy.watchdog_s, parts.while_waiting);
    ranks::collectively(*ranks_, [&] {
      intake_ = std::make_shared<SourceIntake>(source_);
      place_ = place_of(state);
      if (!place_.source.empty()) source_->restore(place_.source);
      begin();
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
  // In a fork nothing, as Feeder has it: locks may be held for ever.
  ~FeederOfSource() override {
    if (feeder_->is_forked()) {
      static_cast<void>(ranks_.release());  // NOLINT(bugprone-unused-return-value)
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
    if (is_ended_ || feeder_->was_stopped() || (!is_open_ && place_.epoch >= epochs_)) return false;
    if (!is_open_) begin();
    return true;
  }

  // The agreement comes before the step: a step after the end would take a batch of the next epoch on some rank. The
  // end itself is a step for ranks that go on, which serves the last batch again; alone it is dropped.
  [[nodiscard]] std::optional<Lease> next(StreamView stream) override {
    if (!is_open_) return std::nullopt;
    if (end_ && end_->is_over()) return ended();
    std::optional<Lease> batch = feeder_->next(stream);
    if (!batch) {
      is_ended_ = true;
      return ended();
    }
    if (batch->is_fresh() && intake_->serve()) {
      is_ended_ = !intake_->has_last();  // what stands in the ring then has no bytes to serve again
      if (!end_ || is_ended_) {
        ended();
        intake_->rethrow();
        if (!end_) return std::nullopt;
        throw Error("the source of this rank has no batch, and other ranks may have: give each a part of the data");
      }
      is_over_ = true;
      intake_->wait_for_others();
    } else if (batch->is_fresh()) {
      ++place_.served;
    }
    if (end_) end_->post(is_over_);
    return batch;
  }

  [[nodiscard]] std::string state() const override {
    SourcePlace place = place_;
    if (std::string served = intake_->state(); !served.empty()) place.source = std::move(served);
    return text_of(place);
  }
  [[nodiscard]] Feeder& feeder() noexcept override { return *feeder_; }

  // Others are told first: they may wait for this one's next step.
  void close() override {
    if (!feeder_->is_forked() && !std::exchange(is_leaving_, true)) {
      if (end_) end_->leave();
      intake_->close();
    }
    feeder_->close();
    (void)ranks_->close(kPartingS);
  }

 private:
  // A source without a state begins the epoch again.
  void begin() {
    source_->begin_epoch(place_.epoch);
    intake_->begin(place_.source.empty() ? place_.served : 0);
    is_open_ = true;
    is_over_ = false;
  }
  // For this rank; next() then returns nothing until next_epoch().
  std::nullopt_t ended() {
    is_open_ = false;
    ++place_.epoch;
    place_.served = 0;
    return std::nullopt;
  }

  std::shared_ptr<BatchSource> source_;
  std::uint64_t epochs_;
  SourcePlace place_;
  std::unique_ptr<Communicator> ranks_;
  std::optional<AgreedEnd> end_;  // with several ranks
  std::shared_ptr<SourceIntake> intake_;
  std::optional<Feeder> feeder_;
  bool is_open_ = false;   // an epoch has begun and is not over
  bool is_over_ = false;   // on this rank
  bool is_ended_ = false;  // the run is
  bool is_leaving_ = false;
};

}  // namespace feeder

std::unique_ptr<SourceFeeder> make_source_feeder(Options options, const Communicator& communicator,
                                                 std::shared_ptr<BatchSource> source, Parts parts,
                                                 std::string_view state) {
  return std::make_unique<feeder::FeederOfSource>(std::move(options), communicator, std::move(source), std::move(parts),
                                                  state);
}

}  // namespace forebay
