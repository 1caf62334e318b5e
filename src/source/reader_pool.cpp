#include "reader_pool.hpp"

#include <algorithm>
#include <exception>

#include "reader.hpp"

namespace forebay {

ReaderPool::ReaderPool(const ReaderLinks& links, const ReaderOptions& options)
    : links_(links),
      options_(options),
      crew_("forebay-io",
            {.body = [this](unsigned thread, WorkerStatus& status) { run(thread, status); }, .end = [this] { end(); }},
            std::max(1U, options.threads), std::max({1U, options.threads, options.most})) {}

void ReaderPool::end() noexcept {
  stop_.raise();
  links_.requests.close();
  links_.budget.close();
}

void ReaderPool::run(unsigned thread, WorkerStatus& status) noexcept {
  try {
    Reader reader(links_, options_, stop_, status);
    while (crew_.may_work(thread) && reader.work()) {
    }
  } catch (const Stopped&) {  // NOLINT(bugprone-empty-catch): not an error, the thread ends as it was asked to
  } catch (...) {
    links_.sink.worker_failed(std::current_exception());
  }
}

}  // namespace forebay
