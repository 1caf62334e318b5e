// Threads, what they are doing, and pools of them. A WorkerStatus is written by its own thread with
// relaxed stores and read by any: telemetry, tuning, the watchdog. set() is on the hot path; it
// reads the clock once per change and also feeds the profiler's ranges and the timeline. A
// WorkerPool starts threads as they are wanted and parks surplus ones. Their largest number is
// fixed at the start, so that statuses and workloads never move.

#include "thread.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <filesystem>
#include <forebay/error.hpp>
#include <fstream>
#include <string>
#include <utility>

#include "clock.hpp"
#include "limits.hpp"
#include "nvtx.hpp"
#include "timeline.hpp"

namespace forebay {
namespace {

constexpr std::array<const char*, WorkerStatus::kActivities> kNames{
    "idle",       "waiting for budget", "reading", "second read", "retrying", "decoding",
    "requesting", "waiting for room",   "copying", "parked",      "stopped"};

namespace fs = std::filesystem;

std::string first_word_of(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

// The folder of this process in the cgroup hierarchy that counts threads.
fs::path cgroup_folder() {
  std::ifstream in("/proc/self/cgroup");
  fs::path unified;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::/")) unified = fs::path("/sys/fs/cgroup") / line.substr(4);
    const auto at = line.find(":pids:/");
    if (at != std::string::npos) return fs::path("/sys/fs/cgroup/pids") / line.substr(at + 7);
  }
  return unified;
}

// "512 of pids.max = 512 in /sys/fs/cgroup/job"; empty if no cgroup has a limit. Of several limits,
// the first that is reached, otherwise the nearest one above the process. pthread_create() fails
// with EAGAIN for several limits; these are the ones that an administrator sets.
std::string cgroup_limit() {
  std::string nearest;
  for (fs::path folder = cgroup_folder(); folder.has_parent_path() && folder != "/sys/fs";
       folder = folder.parent_path()) {
    const std::string most = first_word_of(folder / "pids.max");
    if (most.empty() || most == "max") continue;
    const std::string used = first_word_of(folder / "pids.current");
    std::string text = used;
    text.append(" of pids.max = ").append(most).append(" in ").append(folder.string());
    if (used == most) return text;
    if (nearest.empty()) nearest = text;
  }
  return nearest;
}

std::string user_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NPROC, &limit) != 0) return "unknown";
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur);
}

// Never empty, because it is part of a sentence.
std::string limits() {
  std::string group;
  try {
    group = cgroup_limit();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): without it the message is still right
  }
  return "ulimit -u is " + user_limit() + ", " +
         (group.empty() ? "no cgroup sets pids.max" : "the cgroup has " + group);
}

// One counter per process, because forks are per process. Incremented only in the child, before
// anything else runs there.
const std::atomic<std::uint64_t>& count_of_forks() {
  static std::atomic<std::uint64_t> count{0};
  static const int refused = ::pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });
  if (refused != 0) throw Error("no memory for a look at forks of this process");
  return count;
}

}  // namespace

bool Failure::raise(std::exception_ptr error) noexcept {
  const std::scoped_lock lock(first_);
  if (happened_.load(std::memory_order_relaxed)) return false;
  error_ = std::move(error);
  happened_.store(true, std::memory_order_release);
  return true;
}

const char* activity_name(WorkerStatus::Activity activity) noexcept {
  return kNames[static_cast<std::size_t>(activity)];
}

void name_this_thread(const char* name) noexcept {
  // The kernel rejects a longer name instead of truncating it.
  std::array<char, 16> cut{};
  std::strncpy(cut.data(), name, cut.size() - 1);
  ::pthread_setname_np(::pthread_self(), cut.data());
  nvtx_name_thread(name);
}

// From now on other threads may read this thread's CPU clock; reading fails once the thread has
// ended.
void WorkerStatus::thread_begins() noexcept {
  clockid_t clock{};
  if (pthread_getcpuclockid(pthread_self(), &clock) == 0) cpu_clock.store(clock, std::memory_order_relaxed);
}

std::int64_t WorkerStatus::set(Activity now, std::uint64_t id) noexcept {
  const std::int64_t time = steady_ns();
  const std::int64_t began = since_ns.load(std::memory_order_relaxed);
  // Only this thread writes: it loads what it stored.
  const Activity ended = activity.load(std::memory_order_relaxed);
  auto& spent = spent_ns[static_cast<std::size_t>(ended)];
  const std::int64_t lasted = began == 0 ? 0 : time - began;
  // Acquire: the track was complete when it was attached.
  if (TimelineTrack* const track = timeline.load(std::memory_order_acquire); track != nullptr && began != 0) {
    track->add_work(activity_name(ended), began, time, sample.load(std::memory_order_relaxed));
  }
  if (ended != Activity::stopped) nvtx_end();
  if (now != Activity::stopped) nvtx_begin(activity_name(now));
  spent.store(spent.load(std::memory_order_relaxed) + lasted, std::memory_order_relaxed);
  activity.store(now, std::memory_order_relaxed);
  sample.store(id, std::memory_order_relaxed);
  since_ns.store(time, std::memory_order_relaxed);
  return lasted;
}

// Includes the current activity. The loads happen at different moments, so a sum may be off by one
// activity.
ActivityTimes times_spent(std::span<const WorkerStatus> statuses) noexcept {
  ActivityTimes times{};
  const std::int64_t now = steady_ns();
  for (const WorkerStatus& status : statuses) {
    for (std::size_t i = 0; i < times.size(); ++i) {
      times[i] += std::chrono::nanoseconds(status.spent_ns[i].load(std::memory_order_relaxed));
    }
    const std::int64_t began = status.since_ns.load(std::memory_order_relaxed);
    const auto present = static_cast<std::size_t>(status.activity.load(std::memory_order_relaxed));
    if (began != 0 && now > began) times[present] += std::chrono::nanoseconds(now - began);
  }
  return times;
}

std::chrono::nanoseconds cpu_spent(std::span<const WorkerStatus> statuses) noexcept {
  std::chrono::nanoseconds total{0};
  for (const WorkerStatus& status : statuses) {
    const clockid_t clock = status.cpu_clock.load(std::memory_order_relaxed);
    timespec time{};
    // Fails if the thread has ended in the meantime.
    if (clock == 0 || clock_gettime(clock, &time) != 0) continue;
    total += std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
  return total;
}

std::chrono::nanoseconds process_cpu_spent() noexcept {
  timespec time{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0) return std::chrono::nanoseconds(0);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void refuse_thread(std::string_view name, const std::system_error& cause) {
  throw Error("cannot start the thread \"" + std::string(name) + "\": " + cause.code().message() +
              ". The system allows no more threads or has no memory for a stack (" + limits() + ")" + memory_limit() +
              ": raise that limit, or set workers.io and workers.decode lower, or run fewer ranks on this node");
}

OwnProcess::OwnProcess()
    : forks_(count_of_forks()), at_first_(forks_.load(std::memory_order_relaxed)), process_(::getpid()) {}

void OwnProcess::refuse(std::string_view what) const {
  throw Error(
      std::string(what) + " was made in process " + std::to_string(process_) +
      ", of which this one is a fork: threads do not survive a fork. Make it in the process that uses it, after "
      "the fork, or have that process start anew (exec; \"spawn\" in Python)");
}

using Activity = WorkerStatus::Activity;

WorkerPool::WorkerPool(std::string name, Work work, unsigned wanted, unsigned most)
    : name_(std::move(name)), statuses_(most), work_(std::move(work)), wanted_(wanted) {
  threads_.reserve(most);
  try {
    while (threads_.size() < wanted) start_one();
  } catch (...) {
    stop();
    throw;
  }
}

void WorkerPool::start_one() {
  const auto thread = static_cast<unsigned>(threads_.size());
  threads_.push_back(start_thread(name_ + ' ' + std::to_string(thread), [this, thread] {
    WorkerStatus& status = statuses_[thread];
    status.thread_begins();
    status.set(Activity::idle);
    work_.body(thread, status);
    status.set(Activity::stopped);
    status.thread_ends();
  }));
}

// If the system allows no more threads, the pool keeps those it has; the caller checks how many it
// got.
void WorkerPool::want(unsigned threads) noexcept {
  threads = std::clamp(threads, 1U, most());
  try {
    while (threads_.size() < threads) start_one();
  } catch (const std::exception&) {  // no more threads, or no memory
    threads = static_cast<unsigned>(threads_.size());
  }
  wanted_.store(threads, std::memory_order_relaxed);
  gate_.notify_all();
}

// The threads with the highest numbers are parked first.
bool WorkerPool::may_work(unsigned thread) {
  const auto wanted = [&] { return thread < wanted_.load(std::memory_order_relaxed); };
  const auto stopped = [&] { return stopped_.load(std::memory_order_relaxed); };
  if (!wanted()) {
    WorkerStatus& status = statuses_[thread];
    status.set(Activity::parked);
    gate_.wait([&] { return wanted() || stopped(); });
    status.set(Activity::idle);
  }
  return !stopped();
}

void WorkerPool::stop() {
  stopped_.store(true, std::memory_order_relaxed);
  gate_.notify_all();
  work_.end();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace forebay
