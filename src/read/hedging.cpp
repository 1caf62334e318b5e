// Finds reads that are far slower than the others and issues them a second time. One thread wakes
// up when the earliest read in progress could become slow, and examines each reader's workload. It
// takes away the requests that wait behind a slow read, and pushes a second request for the slow
// one, ahead of all others. The HedgedRead of the two decides, exactly once, which of them hands
// the bytes on. How long a slow read takes follows from recent reads (HedgeRule in the header).

#include "hedging.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <optional>
#include <utility>

#include "base/file_io.hpp"
#include "base/thread.hpp"
#include "store/url.hpp"

namespace forebay::read {
namespace {

// The first step ends at about a microsecond: shorter reads come from the page cache, and their
// exact time does not matter.
constexpr int kFirstBit = 10;  // 2^10 ns

using std::chrono::milliseconds;

// The longest time between two looks, in general and while nothing is known.
constexpr milliseconds kLongestRest{100};
constexpr milliseconds kFirstRest{20};

// How many samples may_be_slow() examines, spread over the dataset. Chosen: each costs a few system
// calls.
constexpr std::uint64_t kFilesLookedAt = 8;

// The file in a sample's name. The name of a record is not that of an existing file.
std::string file_of(const std::string& name) { return name.substr(0, name.rfind("#object ")); }

}  // namespace

// The highest bit and the two below it, which makes four steps per doubling.
std::size_t ReadTimes::step_of(std::uint64_t ns) noexcept {
  const int top = static_cast<int>(std::bit_width(ns)) - 1;
  if (top < kFirstBit) return 0;
  const std::uint64_t quarter = (ns >> (top - 2)) & 3;
  return std::min(static_cast<std::size_t>(top - kFirstBit) * 4 + quarter, kSteps - 1);
}

std::uint64_t ReadTimes::end_of(std::size_t step) noexcept {
  const std::size_t top = kFirstBit + step / 4;
  return (4 + step % 4 + 1) << (top - 2);
}

void ReadTimes::add(std::chrono::nanoseconds time) noexcept {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
  added_[step_of(ns)].fetch_add(1, std::memory_order_relaxed);
}

// Takes differences of counters that only grow; unsigned arithmetic keeps them right across an
// overflow.
std::uint64_t ReadTimes::gather() noexcept {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < kSteps; ++i) {
    const std::uint64_t now = added_[i].load(std::memory_order_relaxed);
    const std::uint64_t fresh = now - gathered_[i];
    gathered_[i] = now;
    weights_[i] += static_cast<double>(fresh);
    count += fresh;
  }
  weight_ += static_cast<double>(count);
  if (weight_ > kMemory) {
    const double share = kMemory / 2 / weight_;
    for (double& weight : weights_) weight *= share;
    weight_ *= share;
  }
  return count;
}

std::chrono::nanoseconds ReadTimes::quantile(double share) const noexcept {
  if (weight_ <= 0) return std::chrono::nanoseconds(0);
  double below = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < kSteps; ++i) {
    if (weights_[i] <= 0) continue;
    last = i;
    below += weights_[i];
    if (below >= share * weight_) break;
  }
  return std::chrono::nanoseconds(end_of(last));
}

// A local disk answers or fails. Only a store at the other end of a network can be slow with one
// read and quick when the same read is repeated.
bool may_be_slow(const std::string& path, const Dataset& dataset) {
  if (!is_on_local_disk(path)) return true;
  const std::uint64_t looks = std::min(kFilesLookedAt, dataset.size());
  for (std::uint64_t look = 0; look < looks; ++look) {
    const std::string file = file_of(dataset.name(look * (dataset.size() / looks)));
    if (store::is_url(file)) return true;
    if (problem_of_file(file).empty() && !is_on_local_disk(file)) return true;
  }
  return false;
}

Hedging::Hedging(std::deque<Workload>& workloads, ReadQueue& requests, EncodedQueue& encoded, WorkerErrors& sink)
    : workloads_(workloads),
      requests_(requests),
      encoded_(encoded),
      sink_(sink),
      thread_(start_thread("forebay-hedge", [this] { run(); })) {}

void Hedging::stop() {
  stopped_.store(true, std::memory_order_relaxed);
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// The entry was put into the map before its request was pushed, so it exists, and each number is
// asked for once.
std::shared_ptr<HedgedRead> Hedging::hedged(std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  return std::move(hedged_reads_.extract(number).mapped());
}

void Hedging::run() noexcept {
  const auto stopped = [this] { return stopped_.load(std::memory_order_relaxed); };
  try {
    while (!wake_.wait_until(look(), stopped)) {
    }
  } catch (...) {
    sink_.worker_failed(std::current_exception());
  }
}

// Slow reads are hedged in the order in which their samples are needed, as long as second reads
// have been earned.
WaitPoint::Clock::time_point Hedging::look() {
  rule_.update();
  const auto now = WaitPoint::Clock::now();
  const auto slow_after = rule_.slow_after();
  if (slow_after == HedgeRule::kUnknown) return now + kFirstRest;
  // A read that begins after this look cannot be slow any earlier.
  auto again = now + std::min<std::chrono::nanoseconds>(slow_after, kLongestRest);
  slow_.clear();
  for (Workload& workload : workloads_) {
    const Workload::Watch seen = workload.watch(now, slow_after);
    again = std::min(again, seen.look_again);
    if (seen.is_slow) relieve(workload);
    if (seen.may_hedge) slow_.push_back({seen.order, &workload});
  }
  std::ranges::sort(slow_, {}, &Slow::order);
  for (const Slow& slow : slow_) {
    if (rule_.may_hedge()) hedge(*slow.workload);
  }
  return again;
}

// Takes away what waits behind a slow read: requests go to other readers, and samples that have
// already been read go to the decoders.
void Hedging::relieve(Workload& workload) {
  left_.clear();
  read_.clear();
  workload.take_waiting(left_, read_);
  requests_.push_urgent(left_);
  encoded_.push(read_);
}

void Hedging::hedge(Workload& workload) {
  std::optional<Workload::Hedge> hedge = workload.hedge();
  if (!hedge) return;
  rule_.hedge();
  {
    const std::lock_guard lock(mutex_);
    if (++last_hedged_ == 0) ++last_hedged_;
    hedged_reads_.emplace(last_hedged_, std::move(hedge->hedged));
    hedge->request.hedge = last_hedged_;
  }
  requests_.push_urgent({&hedge->request, 1});
}

}  // namespace forebay::read
