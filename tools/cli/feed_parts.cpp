// Parts of `forebay feed`: the emulated trainer, the log of served ids, and signal handling.
//
// A signal handler may only use lock-free atomics and call write, alarm and _exit
// (signal-safety(7)). The first SIGTERM or SIGINT sets a flag that the feeder polls, and all ranks
// stop at the same step. While the run is starting nothing polls the flag, and the start may hang
// in a read of a dead file system. So the handler also sets an alarm that ends the process.

#include "feed_parts.hpp"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <forebay/error.hpp>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "base/ending.hpp"
#include "measure/run_files.hpp"
#include "output.hpp"

namespace forebay::cli {
namespace {

// Static, because a signal handler cannot reach anything else.
std::atomic<bool> stop_flag{false};
std::atomic<bool> launcher_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free);

std::atomic<int> late_exit_code{0};
static_assert(std::atomic<int>::is_always_lock_free);

// Seconds that a start may take after a signal. Chosen; by default Slurm leaves 30 s between
// SIGTERM and SIGKILL (KillWait).
constexpr unsigned kStartPatience_s = 5;
std::atomic<bool> start_flag{false};

extern "C" void exit_late(int /*signal*/) {
  constexpr std::string_view kText =
      "forebay: error: stopped by a signal while the run was starting, and the start does not end: perhaps a read of "
      "dataset.path never returns, or what is to be written\n";
  if (start_flag.load(std::memory_order_relaxed))
    static_cast<void>(!::write(STDERR_FILENO, kText.data(), kText.size()));
  ::_exit(late_exit_code.load(std::memory_order_relaxed));
}

// The launcher is the parent of its ranks: a SIGTERM from it means that it is ending the whole job.
extern "C" void set_stop_flag(int signal, siginfo_t* info, void* /*context*/) {
  if (signal == SIGTERM && info->si_pid == ::getppid()) launcher_flag.store(true, std::memory_order_relaxed);
  stop_flag.store(true, std::memory_order_relaxed);
  if (start_flag.load(std::memory_order_relaxed)) ::alarm(kStartPatience_s);
}

}  // namespace

using Clock = std::chrono::steady_clock;

EmulatedTrainer::EmulatedTrainer(const TrainerOptions& options, std::uint64_t seed, Job& job,
                                 const std::atomic<bool>& stop)
    : options_(options), random_(key64(seed, 0x7472616eU, job.world().rank())), job_(job), stop_(stop) {}

// The time of a step, never negative. With the normal distribution, the standard deviation is a
// tenth of the mean.
double EmulatedTrainer::draw_ms() noexcept {
  switch (options_.step_distribution) {
    case StepDistribution::constant: break;
    case StepDistribution::normal: {
      // Box and Muller; 1 - u keeps the logarithm finite.
      const double radius = std::sqrt(-2 * std::log(1 - random_.uniform()));
      const double normal = radius * std::cos(2 * std::numbers::pi * random_.uniform());
      return std::max(0.0, options_.step_ms * (1 + 0.1 * normal));
    }
    case StepDistribution::exponential: return -options_.step_ms * std::log(1 - random_.uniform());
  }
  return options_.step_ms;
}

// Even after a signal all ranks take part in the all-reduce; the feeder's next() then stops them
// together.
void EmulatedTrainer::step() {
  // Short, so that the step ends soon after a signal, whichever thread handles it.
  constexpr auto kSlice = std::chrono::milliseconds(50);
  const auto length = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(draw_ms()));
  const auto end = Clock::now() + length;
  while (!stop_.load(std::memory_order_relaxed)) {
    const auto left = end - Clock::now();
    if (left <= Clock::duration::zero()) break;
    std::this_thread::sleep_for(std::min<Clock::duration>(left, kSlice));
  }
  if (options_.allreduce_bytes > 0) job_.all_reduce(static_cast<std::size_t>(options_.allreduce_bytes));
}

// Hashes what the trainer sees; a batch on a GPU is copied to the host first.
std::uint64_t batch_hash(const Lease& batch) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  const TensorView images = batch.images();
  if (images.device == DeviceKind::host) {
    XXH3_64bits_update(&state, images.data, images.bytes());
  } else {
    std::vector<std::byte> copy(images.bytes());
    batch.copy_to_host(copy);
    XXH3_64bits_update(&state, copy.data(), copy.size());
  }
  XXH3_64bits_update(&state, batch.labels().data(), batch.labels().size_bytes());
  return XXH3_64bits_digest(&state);
}

IdLog::IdLog(const std::filesystem::path& dir, std::uint32_t rank, bool resumes)
    : file_(dir / ("ids." + std::to_string(rank) + ".jsonl")) {
  std::error_code error;
  try {
    // The folder is made here, so that what refuses a URL when a file is opened would come too late:
    // there would be a folder "s3:" by then.
    if (const auto problem = problem_of_output(dir.native()); !problem.empty()) throw Error(std::string(problem));
    std::filesystem::create_directories(dir, error);
    if (error) throw Error("cannot make the folder: " + error.message());
    out_ = std::make_shared<const FileDescriptor>(resumes ? measure::append_lines_to(file_) : open_made(file_));
  } catch (const Error& failed) {
    throw ConfigError("--log-ids: cannot write " + file_.string() + ": " + failed.what());
  }
}

// Has a time limit, since a full or dead disk must not hold up the job for ever. A line is a single
// write.
void IdLog::write(const Lease& batch) {
  std::string line = fmt::format(R"({{"step":{},"epoch":{},"use_index":{},"batch":{},"ids":[{}],"hash":"{:016x}"}})"
                                 "\n",
                                 batch.step(), batch.epoch(), batch.use_index(), batch.batch(),
                                 fmt::join(batch.ids(), ","), batch_hash(batch));
  write_in_time("--log-ids", file_, kSavePatience, [out = out_, line = std::move(line)] { write_all(*out, line); });
}

StopOnSignal::StopOnSignal(std::span<const int> signals) {
  stop_flag = false;
  launcher_flag = false;
  struct sigaction action {};
  action.sa_sigaction = set_stop_flag;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  for (const int signal : signals.first(std::min(signals.size(), kMost))) {
    signals_[count_] = signal;
    ::sigaction(signal, &action, &previous_[count_]);
    ++count_;
  }
}

// After a stop a launcher may end the ranks as soon as the first has left with its exit code; one
// that dies of that signal on its way out would replace the code.
StopOnSignal::~StopOnSignal() {
  for (std::size_t i = 0; i < count_; ++i) {
    if (stop_flag && signals_[i] == SIGTERM) {
      ::signal(SIGTERM, SIG_IGN);
    } else {
      ::sigaction(signals_[i], &previous_[i], nullptr);
    }
  }
}

void StopOnSignal::note_stop() noexcept { stop_flag = true; }

BoundedStart::BoundedStart(int exit_code) noexcept {
  late_exit_code = exit_code;
  struct sigaction action {};
  action.sa_handler = exit_late;
  ::sigaction(SIGALRM, &action, nullptr);
  start_flag = true;
  if (stop_flag) ::alarm(kStartPatience_s);
}

BoundedStart::~BoundedStart() {
  start_flag = false;
  ::alarm(0);
}

// Used around MPI_Finalize, which may never return.
void exit_at_the_latest(std::chrono::milliseconds after, int exit_code) {
  late_exit_code = exit_code;
  struct sigaction action {};
  action.sa_handler = exit_late;
  ::sigaction(SIGALRM, &action, nullptr);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(after);
  itimerval timer{};
  timer.it_value.tv_sec = seconds.count();
  timer.it_value.tv_usec = std::chrono::microseconds(after - seconds).count();
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

const std::atomic<bool>& StopOnSignal::flag() noexcept { return stop_flag; }
bool StopOnSignal::launcher_ends_the_job() noexcept { return launcher_flag.load(std::memory_order_relaxed); }

}  // namespace forebay::cli
