#include "reader_pool.hpp"

#include <algorithm>
#include <exception>

#include "reader.hpp"

namespace forebay {
namespace {

std::deque<Desk> make_desks(unsigned readers, bool watched) {
  std::deque<Desk> desks;
  while (desks.size() < readers) desks.emplace_back(watched);
  return desks;
}

}  // namespace

ReaderPool::ReaderPool(const ReaderLinks& links, const ReaderOptions& options)
    : links_(links),
      options_(options),
      desks_(make_desks(std::max({1U, options.threads, options.most}), options.hedge)),
      hedging_(options.hedge ? std::make_unique<Hedging>(desks_, links.requests, links.encoded, links.sink) : nullptr),
      workers_(
          "forebay-io",
          {.body = [this](unsigned thread, WorkerStatus& status) { run(thread, status); }, .end = [this] { end(); }},
          std::max(1U, options.threads), std::max({1U, options.threads, options.most})) {}

void ReaderPool::end() noexcept {
  if (hedging_) hedging_->stop();
  stop_.raise();
  links_.requests.close();
  links_.budget.close();
}

void ReaderPool::run(unsigned thread, WorkerStatus& status) noexcept {
  try {
    Reader reader(links_, options_, stop_, desks_[thread], hedging_.get(), status);
    while (workers_.may_work(thread) && reader.work()) {
    }
  } catch (const Stopped&) {  // NOLINT(bugprone-empty-catch): the thread was asked to end
  } catch (...) {
    links_.sink.worker_failed(std::current_exception());
  }
}

}  // namespace forebay
