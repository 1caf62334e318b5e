#include "reader_pool.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/retry.hpp"
#include "reader.hpp"

namespace forebay::read {
namespace {

// One for each reader that there may ever be, because hedging refers to them while the pool grows.
// A deque, because they cannot be moved.
std::deque<Workload> make_workloads(unsigned readers, bool watched) {
  std::deque<Workload> workloads;
  while (workloads.size() < readers) workloads.emplace_back(watched);
  return workloads;
}

}  // namespace

ReaderPool::ReaderPool(const ReaderLinks& links, const ReaderOptions& options)
    : links_(links),
      options_(options),
      workloads_(make_workloads(std::max({1U, options.threads, options.most}), options.hedge)),
      hedging_(options.hedge ? std::make_unique<Hedging>(workloads_, links.requests, links.encoded, links.sink)
                             : nullptr),
      workers_(
          "forebay-io",
          {.body = [this](unsigned thread, WorkerStatus& status) { run(thread, status); }, .end = [this] { end(); }},
          std::max(1U, options.threads), std::max({1U, options.threads, options.most})) {}

// Hedging ends first, because it pushes requests. Then every wait of a reader is broken: for a
// retry, for requests, for memory.
void ReaderPool::end() noexcept {
  if (hedging_) hedging_->stop();
  stop_.raise();
  links_.requests.close();
  links_.budget.close();
}

void ReaderPool::run(unsigned thread, WorkerStatus& status) noexcept {
  try {
    const InterruptCheck check([this] {
      if (stop_.is_raised()) throw Stopped();
    });
    Reader reader(links_, options_, stop_, workloads_[thread], hedging_.get(), status);
    while (workers_.may_work(thread) && reader.work()) {
    }
  } catch (const Stopped&) {  // NOLINT(bugprone-empty-catch): the thread was asked to end
  } catch (...) {
    links_.sink.worker_failed(std::current_exception());
  }
}

}  // namespace forebay::read
