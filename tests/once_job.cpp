#include "once_job.hpp"

#include <unistd.h>
#include <forebay/feeder.hpp>
#include <forebay/order.hpp>

#include "dataset_support.hpp"
#include "every_container.hpp"
#include "memory_dataset.hpp"

// Runs one rank's part of a random job: a dataset and a trainer of given speeds, and the planned
// stop. Records what was served for the audit.
namespace forebay::testing {
namespace {

void sleep_us(double time) {
  if (time > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(time));
}

// A store that takes a given time per sample. Short sleeps are imprecise, so many samples share one
// sleep.
class SlowReads {
 public:
  explicit SlowReads(double read_us) : read_ns_(static_cast<std::int64_t>(read_us * 1000)) {}

  void pass() {
    constexpr std::int64_t kSleep = 300'000;
    if (read_ns_ == 0) return;
    const std::int64_t before = owed_ns_.fetch_add(read_ns_);
    const std::int64_t sleeps = (before + read_ns_) / kSleep - before / kSleep;
    if (sleeps > 0) sleep_us(static_cast<double>(sleeps * kSleep) / 1000);
  }

 private:
  std::int64_t read_ns_;
  std::atomic<std::int64_t> owed_ns_{0};
};

template <typename T>
void put(std::string& bytes, const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::uint64_t count = values.size();
  bytes.append(reinterpret_cast<const char*>(&count), sizeof(count));
  if (count > 0) bytes.append(reinterpret_cast<const char*>(values.data()), count * sizeof(T));
}

template <typename T>
std::vector<T> take(std::string_view& bytes) {
  std::uint64_t count = 0;
  std::memcpy(&count, bytes.data(), sizeof(count));
  bytes.remove_prefix(sizeof(count));
  std::vector<T> values(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), count * sizeof(T));
  bytes.remove_prefix(count * sizeof(T));
  return values;
}

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

std::vector<char> chars(const std::string& text) { return {text.begin(), text.end()}; }
std::string text(const std::vector<char>& chars) { return {chars.begin(), chars.end()}; }

class PartRun {
 public:
  explicit PartRun(const Place& place)
      : place_(place),
        job_(*place.job),
        part_(job_.parts[place.part]),
        kind_(job_.container.empty() ? nullptr : &container_of(job_.container)),
        order_({.samples = job_.samples,
                .batch_size = static_cast<std::uint32_t>(part_.options.dataset.batch_size),
                .seed = part_.options.seed,
                .shuffle = part_.options.dataset.shuffle,
                .drop_last = part_.options.dataset.drop_last,
                .window = part_.options.dataset.order == SampleOrder::shards
                              ? static_cast<std::uint64_t>(part_.options.dataset.window)
                              : 0,
                .run = static_cast<std::uint64_t>(part_.options.dataset.run),
                .parts = part_.options.dataset.order == SampleOrder::local
                             ? static_cast<std::uint32_t>(part_.options.dataset.nodes)
                             : 0,
                .shards = static_cast<std::uint32_t>(part_.options.mpi.virtual_shards),
                .exchange = part_.options.dataset.exchange}),
        reads_(part_.read_us[place.rank]) {}

  Seen run() {
    try {
      if (place_.ranks == MPI_COMM_NULL) {
        drive(nullptr);
      } else {
        const auto communicator = make_communicator(place_.ranks);
        drive(communicator.get());
        if (!communicator->close(10)) complain("the ranks did not close their communicator within 10 s");
      }
    } catch (const std::exception& error) {
      complain(std::string("exception: ") + error.what());
    }
    return std::move(seen_);
  }

 private:
  void complain(const std::string& what) {
    if (seen_.complaints.size() < 5) seen_.complaints.push_back("rank " + std::to_string(place_.rank) + ": " + what);
  }

  [[nodiscard]] bool is_bad(std::uint64_t id) const { return std::ranges::binary_search(job_.bad, id); }

  Feeder open(const Communicator* communicator) {
    Parts parts;
    Options options = part_.options;
    if (kind_ != nullptr) {
      options.dataset.path = (place_.data / kind_->path).string();
      if (!job_.store.empty()) {
        options.dataset.path = job_.store + (place_.data.filename() / kind_->path).string();
        if (job_.has_cache) options.cache.dir = (place_.data / "cache").string();
      }
      options.storage.latency_ms = part_.read_us[place_.rank] / 1000;
    } else {
      parts.dataset = std::make_shared<MemoryDataset>(job_.samples, [this](std::uint64_t id) {
        reads_.pass();
        if (is_bad(id)) throw SampleError("is broken on purpose");
      });
    }
    if (part_.is_logged) {
      options.telemetry.dir = place_.logs.string();
      options.telemetry.per_step = true;
      options.telemetry.decisions = true;
    }
    const bool goes_on = place_.state.has_value();
    // Without a state there is no such file, and the job starts at the beginning.
    if (part_.resume == ResumeBy::parts) parts.resume = place_.saved;
    Feeder feeder = communicator == nullptr ? Feeder(options, *solo_communicator(), std::move(parts))
                                            : Feeder(options, *communicator, std::move(parts));
    if (goes_on && part_.resume == ResumeBy::restore) feeder.restore(place_.saved);
    if (part_.resume == ResumeBy::restore_if_present && feeder.restore_if_present(place_.saved) != goes_on) {
      complain("restore_if_present() is wrong about whether there is a state");
    }
    if (goes_on && part_.resume == ResumeBy::text) feeder.restore_state(*place_.state);
    return feeder;
  }

  void drive(const Communicator* communicator) {
    Feeder feeder = open(communicator);
    first_step_ = feeder.steps();
    if (place_.state) look(feeder, 0);
    auto next_look = part_.looks.begin();
    const bool ceases = part_.stop == StopBy::cease || part_.stop == StopBy::checkpoint;
    for (std::uint64_t step = 0;; ++step) {
      while (next_look != part_.looks.end() && *next_look <= step) {
        look(feeder, step);
        ++next_look;
      }
      if (ceases && step == part_.steps) break;
      if (part_.stop == StopBy::request && step == part_.steps && place_.rank == part_.stopper) {
        seen_.asked_to_stop_ns = now_ns();
        feeder.request_stop();
      }
      if (!serve(feeder, step)) break;
    }
    end(feeder);
    if (part_.stop == StopBy::checkpoint && seen_.has_ended == 0) {
      for (std::uint64_t lost = 0; lost < part_.lost_steps; ++lost) {
        if (!serve(feeder, part_.steps + lost)) break;
      }
      seen_.has_ended = 0;  // so far only up to the save
    }
    feeder.close();
    seen_.closed_ns = now_ns();
    if (!part_.is_logged) return;
    for (const std::string& wrong : check_logs(place_.logs, place_.rank, first_step_, seen_)) complain(wrong);
  }

  // Records the state from which the job resumes, and the feeder's figures at that point.
  void end(Feeder& feeder) {
    look(feeder, seen_.steps.size());
    seen_.steps_at_end = feeder.steps();
    seen_.epochs_at_end = feeder.epochs_completed();
    seen_.was_stopped = feeder.was_stopped() ? 1 : 0;
    feeder.save(place_.to_save);
    feeder.finish_saves();
    if (place_.rank != 0) return;
    std::ifstream file(place_.to_save, std::ios::binary);
    const std::string saved{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (saved != seen_.states.back().text) complain("save() wrote something else than state() said");
  }

  void look(Feeder& feeder, std::uint64_t step) {
    std::string once = feeder.state();
    if (feeder.state() != once) complain("two states at step " + std::to_string(step) + " differ");
    seen_.states.push_back({step, std::move(once)});
  }

  // Continues into further epochs, and then records the state between them.
  std::optional<Lease> next(Feeder& feeder, std::uint64_t step) {
    if (part_.by_epochs && step == 0 && !feeder.next_epoch()) return std::nullopt;
    auto batch = feeder.next();
    if (batch || !part_.by_epochs) return batch;
    if (feeder.next()) complain("there is a batch after an epoch's last one");
    // Not after the save from which the job resumes.
    const bool is_lost = part_.stop == StopBy::checkpoint && step >= part_.steps;
    if (!is_lost && ends_looked_at_++ < 2) look(feeder, step);
    if (!feeder.next_epoch()) return std::nullopt;
    return feeder.next();
  }

  bool serve(Feeder& feeder, std::uint64_t step) {
    auto batch = next(feeder, step);
    if (!batch) {
      seen_.has_ended = 1;
      return false;
    }
    if (part_.by_epochs && batch->epoch() != feeder.epochs_completed() && batch->is_fresh()) {
      complain("step " + std::to_string(step) + " serves a batch of another epoch");
    }
    StepSeen& seen = seen_.steps.emplace_back();
    seen.job_fresh_samples = batch->job_fresh_samples();
    seen.epochs_completed = feeder.epochs_completed();
    seen.use_index = batch->use_index();
    if (batch->is_fresh()) {
      seen.fresh_samples = batch->size();
      seen_.fresh.push_back({batch->epoch(), batch->batch(), step});
    }
    if (batch->step() != first_step_ + step)
      complain("step " + std::to_string(step) + " is called " + std::to_string(batch->step()));
    check_content(*batch, step);
    if (part_.holds_last) held_ = std::move(batch);
    sleep_us(part_.step_us[place_.rank]);
    return true;
  }

  void check_content(const Lease& batch, std::uint64_t step) {
    const std::uint32_t size = batch.batch() < order_.batches() ? order_.batch(batch.epoch(), batch.batch()).size : 0;
    bool is_right = size > 0 && batch.size() == size;
    for (std::uint32_t i = 0; is_right && i < size; ++i) {
      const std::uint64_t id = expected(batch.epoch(), batch.batch() * order_.options().batch_size + i);
      is_right = batch.ids()[i] == id && batch.labels()[i] == static_cast<std::int64_t>(id % 10) &&
                 (kind_ == nullptr || is_sample(batch, i, id, *kind_));
    }
    if (is_right) return;
    complain("step " + std::to_string(step) + ": epoch " + std::to_string(batch.epoch()) + ", batch " +
             std::to_string(batch.batch()) + " of size " + std::to_string(batch.size()) +
             " has not the samples of its positions");
  }

  [[nodiscard]] std::uint64_t expected(std::uint64_t epoch, std::uint64_t position) const {
    std::uint64_t id = order_.sample(epoch, position);
    for (std::uint32_t attempt = 1; is_bad(id); ++attempt) id = order_.replacement(epoch, position, attempt);
    return id;
  }

  const Place& place_;
  const OnceCase& job_;
  const Part& part_;
  const ContainerKind* kind_;  // null if the samples are in memory
  Order order_;
  SlowReads reads_;
  std::uint64_t first_step_ = 0;
  int ends_looked_at_ = 0;
  std::optional<Lease> held_;
  Seen seen_;
};

}  // namespace

Stage::Stage(MPI_Comm world) {
  MPI_Comm_dup(world, &world_);
  communicator_ = make_communicator(world_);
  rank_ = communicator_->rank();
  size_ = communicator_->size();
  processes_ = communicator_->all_gather(std::to_string(::getpid()));
}

Stage::~Stage() {
  communicator_->close(10);
  MPI_Comm_free(&world_);
}

std::vector<std::string> Stage::left_in_shared_memory() const {
  std::vector<std::string> left;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/dev/shm", error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const auto is_of = [&](const std::string& process) { return name.starts_with("forebay-" + process + "-"); };
    if (std::ranges::any_of(processes_, is_of)) left.push_back(name);
  }
  return left;
}

void Stage::wait_for_all() {
  MPI_Request barrier = MPI_REQUEST_NULL;
  MPI_Ibarrier(world_, &barrier);
  for (int done = 0;;) {
    MPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
    if (done != 0) return;
    sleep_us(500);
  }
}

std::vector<std::string> Stage::gather(std::string_view mine) {
  wait_for_all();
  return communicator_->all_gather(mine);
}

MPI_Comm Stage::split(std::uint32_t first, std::uint32_t ranks) {
  const std::uint32_t place = (rank_ + size_ - first % size_) % size_;
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_split(world_, place < ranks ? 0 : MPI_UNDEFINED, static_cast<int>(place), &made);
  return made;
}

std::string Seen::to_bytes() const {
  std::string bytes;
  put(bytes, steps);
  put(bytes, fresh);
  put(bytes, std::vector{steps_at_end, epochs_at_end, has_ended, was_stopped, is_logged, asked_to_stop_ns, closed_ns,
                         std::uint64_t{states.size()}, std::uint64_t{complaints.size()}});
  for (const StateSeen& state : states) {
    put(bytes, std::vector{state.steps});
    put(bytes, chars(state.text));
  }
  for (const std::string& complaint : complaints) put(bytes, chars(complaint));
  return bytes;
}

Seen Seen::from_bytes(std::string_view bytes) {
  Seen seen;
  seen.steps = take<StepSeen>(bytes);
  seen.fresh = take<FreshSeen>(bytes);
  const auto numbers = take<std::uint64_t>(bytes);
  seen.steps_at_end = numbers[0];
  seen.epochs_at_end = numbers[1];
  seen.has_ended = numbers[2];
  seen.was_stopped = numbers[3];
  seen.is_logged = numbers[4];
  seen.asked_to_stop_ns = numbers[5];
  seen.closed_ns = numbers[6];
  for (std::uint64_t i = 0; i < numbers[7]; ++i) {
    const std::uint64_t steps = take<std::uint64_t>(bytes).front();
    seen.states.push_back({steps, text(take<char>(bytes))});
  }
  for (std::uint64_t i = 0; i < numbers[8]; ++i) seen.complaints.push_back(text(take<char>(bytes)));
  return seen;
}

void write_container(const OnceCase& job, const std::filesystem::path& folder) {
  const ContainerKind& kind = container_of(job.container);
  std::vector<std::string> records;
  for (std::uint64_t id = 0; id < job.samples; ++id) {
    const bool is_bad = std::ranges::binary_search(job.bad, id);
    records.push_back(is_bad ? kind.record(id, tiny_png(grey_of(id)).substr(0, 40)) : kind.record_of(id));
  }
  for (const auto& [name, content] : kind.files(records)) write_file(folder / name, content);
}

Seen run_part(const Place& place) { return PartRun(place).run(); }

}  // namespace forebay::testing
