#include "reader.hpp"

#include <forebay/error.hpp>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace forebay {
namespace {

using Activity = WorkerStatus::Activity;
using Clock = std::chrono::steady_clock;

// A read that took longer was not as quick as those before: other readers get the requests behind it.
constexpr auto kPatience = std::chrono::milliseconds(1);

}  // namespace

// Takes the sample's memory from the budget and gives it back unless the sample was handed on.
class Reader::Target final : public ReadTarget {
 public:
  Target(Reader& reader, const ReadRequest& request) : reader_(reader), request_(request) {}
  ~Target() override { give_back(); }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  std::span<std::byte> reserve(std::size_t bytes) override {
    give_back();  // a thread that waits must hold nothing
    try {
      if (auto buffer = reader_.links_.budget.try_take(request_.order, bytes)) {
        buffer_ = *std::move(buffer);
      } else {
        wait_for(bytes);
      }
    } catch (const std::bad_alloc&) {
      throw SampleError("there is no memory for its " + std::to_string(bytes) + " bytes");
    } catch (const std::length_error&) {
      throw SampleError("no memory could hold its " + std::to_string(bytes) + " bytes");
    }
    return buffer_;
  }

  [[nodiscard]] std::size_t size() const noexcept { return buffer_.size(); }
  // Nanoseconds that were spent reading before the last wait.
  [[nodiscard]] std::int64_t read_before() const noexcept { return read_before_; }
  [[nodiscard]] std::vector<std::byte> release() noexcept { return std::exchange(buffer_, {}); }

 private:
  void wait_for(std::size_t bytes) {
    reader_.hand_over();
    read_before_ += reader_.status_.set(Activity::waiting_budget, request_.sample);
    buffer_ = reader_.links_.budget.take(request_.order, bytes);
    reader_.status_.set(Activity::reading, request_.sample);
  }
  void give_back() noexcept {
    if (buffer_.capacity() != 0) reader_.links_.budget.give_back(std::exchange(buffer_, {}));
  }

  Reader& reader_;
  const ReadRequest& request_;
  std::vector<std::byte> buffer_;
  std::int64_t read_before_ = 0;
};

Reader::Reader(const ReaderLinks& links, const ReaderOptions& options, StopSignal& stop, WorkerStatus& status)
    : links_(links), options_(options), stop_(stop), status_(status) {
  if (links_.throttle != nullptr && !links_.throttle->is_active()) links_.throttle = nullptr;
  read_.reserve(Pace::kMost);
}

bool Reader::work() {
  const std::size_t taken = links_.requests.take(std::span(requests_).first(pace_.at_once()));
  const auto requests = std::span(requests_).first(taken);
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < taken; ++i) {
    serve(requests[i]);
    if (i + 1 == taken || Clock::now() - begin < kPatience) continue;
    links_.requests.push_urgent(requests.subspan(i + 1));
    break;
  }
  hand_over();
  status_.set(Activity::idle);
  return taken > 0;
}

void Reader::serve(const ReadRequest& request) {
  auto backoff = options_.backoff;
  for (std::uint32_t retry = 0;; ++retry, backoff *= 2) {
    try {
      return read(request, retry);
    } catch (const SampleError& error) {
      if (!error.is_transient()) return links_.sink.bad_sample(request, error.what());
      if (retry + 1 >= options_.attempts) {
        const std::string tries = " (read " + std::to_string(retry + 1) + " times)";
        return links_.sink.bad_sample(request, error.what() + tries);
      }
      links_.sink.will_retry(request, error.what());
    }
    links_.totals.retries.fetch_add(1, std::memory_order_relaxed);
    hand_over();
    status_.set(Activity::retrying, request.sample);
    stop_.sleep_until(Clock::now() + backoff);
  }
}

void Reader::read(const ReadRequest& request, std::uint32_t retry) {
  status_.set(Activity::reading, request.sample);
  Target target(*this, request);
  if (links_.throttle != nullptr) links_.throttle->before_read(request, retry, stop_);
  links_.dataset.read(request.sample, target);
  if (links_.throttle != nullptr) links_.throttle->after_read(target.size(), stop_);
  const std::int64_t ns = target.read_before() + status_.set(Activity::reading, request.sample);
  pace_.add(ns);
  links_.totals.read_ns.fetch_add(static_cast<std::uint64_t>(ns), std::memory_order_relaxed);
  links_.totals.bytes_read.fetch_add(target.size(), std::memory_order_relaxed);
  links_.totals.reads.fetch_add(1, std::memory_order_relaxed);
  read_.push_back({.request = request, .bytes = target.release()});
}

void Reader::hand_over() {
  links_.encoded.push(read_);
  read_.clear();
}

}  // namespace forebay
