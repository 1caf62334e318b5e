// Called by readers and decoders the moment a sample turns out to be bad, on their threads. In
// order: under on_bad = "fail" the run ends; in evaluation the sample is left out of its batch;
// otherwise it is logged once, and its position gets a replacement, asked for ahead of all other
// requests because its batch may be the next one to be served. The trainer's thread collects at
// each step what was found, for the job's budget of bad samples.
//
// Which sample replaces another depends on seed, epoch, position and attempt alone
// (Order::replacement), so a run that resumes, and one with other threads, serves the same. See
// docs/decisions/0026-bad-samples-have-a-limit.md.

#include "bad_samples.hpp"

#include <new>
#include <string>
#include <utility>

#include <forebay/error.hpp>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "shared_read.hpp"

namespace forebay::produce {

BadSamples::BadSamples(const Dataset& dataset, const Order& order, OnBad on_bad, read::ReadQueue& requests,
                       measure::QuarantineLog& quarantine, measure::ConsoleLog& console, Failure& failure,
                       LeaveOut leave_out, std::function<void()> failed)
    : dataset_(dataset),
      order_(order),
      on_bad_(on_bad),
      requests_(requests),
      quarantine_(quarantine),
      console_(console),
      failure_(failure),
      leave_out_(std::move(leave_out)),
      failed_(std::move(failed)) {}

// All samples of a group share the bytes that are bad. A failure to report, such as of memory, ends
// the run: it must not lose a sample silently.
void BadSamples::bad_sample(const read::ReadRequest& request, std::string_view reason) noexcept {
  try {
    for (std::uint32_t i = 0; i < request.count; ++i) settle(member_of(request, i, order_), reason);
  } catch (...) {
    worker_failed(std::current_exception());
  }
}

void BadSamples::will_retry(const read::ReadRequest& request, std::string_view reason) noexcept {
  const std::uint64_t before = retries_.fetch_add(1, std::memory_order_relaxed);
  if (before >= kRetriesTold) return;
  try {
    console_.warn(printable(dataset_.name(request.sample)) + ": " + printable(reason) + "; reading it again" +
                  (before + 1 == kRetriesTold ? " (further retries are only counted)" : ""));
  } catch (...) {
    worker_failed(std::current_exception());
  }
}

// bad_alloc does not say where; it is replaced by an Error with the limits of the process if there
// is memory for that. The first failure raised wins, and `failed_` breaks the waits so that next()
// throws it.
void BadSamples::worker_failed(std::exception_ptr error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    try {
      error = std::make_exception_ptr(out_of_memory("for a worker thread"));
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): then the plain error says it
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): it says what it is
  }
  failure_.raise(std::move(error));
  failed_();
}

// The reason may begin with the file's name, as errors of files do; it is not said twice.
void BadSamples::settle(const read::ReadRequest& request, std::string_view reason) {
  const std::string path = dataset_.name(request.sample);
  if (on_bad_ == OnBad::fail) {
    const std::string place = path + ": ";
    throw SampleError((reason.starts_with(place) ? std::string(reason) : place + std::string(reason)) +
                      R"( (on_bad = "fail"; "replace" would quarantine the sample and continue))");
  }
  if (leave_out_) {
    quarantine(request, path, reason, std::nullopt);
    return leave_out_(request);
  }
  if (request.attempt + 1 >= kMostAttempts) {
    throw Error("position " + std::to_string(request.position) + " of epoch " + std::to_string(request.epoch) + ": " +
                std::to_string(kMostAttempts) + " samples in a row are bad, the last " + path + ": " +
                std::string(reason) + "; with telemetry.dir a log names them all");
  }
  read::ReadRequest again = request;
  ++again.attempt;
  again.sample = order_.replacement(request.epoch, request.position, again.attempt);
  quarantine(request, path, reason, again.sample);
  requests_.push_urgent({&again, 1});
}

// A sample that is requested again, as in the next epoch, is replaced again but not logged again.
// found_ is stored last: collect() takes the lock only when it has changed.
void BadSamples::quarantine(const read::ReadRequest& request, const std::string& path, std::string_view reason,
                            std::optional<std::uint64_t> replacement) {
  const std::scoped_lock lock(mutex_);
  if (!known_.insert(request.sample).second) return;
  in_order_.push_back({request.sample, std::string(reason)});
  quarantine_.add({.sample = request.sample,
                   .path = path,
                   .reason = reason,
                   .epoch = request.epoch,
                   .position = request.position,
                   .attempt = request.attempt,
                   .replacement = replacement});
  found_.store(in_order_.size(), std::memory_order_release);
}

}  // namespace forebay::produce
