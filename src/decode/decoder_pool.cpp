#include "decoder_pool.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <forebay/error.hpp>
#include <utility>

namespace forebay {
namespace {

using Activity = WorkerStatus::Activity;
using Clock = std::chrono::steady_clock;

void add_ns(std::atomic<std::uint64_t>& total, Clock::duration duration) noexcept {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  total.fetch_add(static_cast<std::uint64_t>(ns), std::memory_order_relaxed);
}

}  // namespace

DecoderPool::DecoderPool(const DecoderLinks& links, unsigned threads)
    : links_(links), statuses_(std::max(1U, threads)) {
  threads_.reserve(statuses_.size());
  try {
    for (unsigned thread = 0; thread < statuses_.size(); ++thread)
      threads_.emplace_back([this, thread] { run(thread); });
  } catch (...) {
    stop();
    throw;
  }
}

void DecoderPool::stop() {
  links_.encoded.close();
  threads_.clear();  // joins
}

void DecoderPool::run(unsigned thread) noexcept {
  WorkerStatus& status = statuses_[thread];
  try {
    EncodedSample sample;
    status.set(Activity::idle);
    while (links_.encoded.take(sample)) {
      status.set(Activity::decoding, sample.request.sample);
      decode(sample, thread);
      links_.buffers.give_back(std::move(sample.bytes));
      status.set(Activity::idle);
    }
  } catch (...) {
    links_.sink.worker_failed(std::current_exception());
  }
  status.set(Activity::stopped);
}

void DecoderPool::decode(const EncodedSample& sample, unsigned thread) {
  const auto begin = Clock::now();
  try {
    links_.handler.handle(sample, thread);
    links_.totals.samples.fetch_add(1, std::memory_order_relaxed);
  } catch (const SampleError& error) {
    links_.sink.bad_sample(sample.request, error.what());
  }
  add_ns(links_.totals.decode_ns, Clock::now() - begin);
}

}  // namespace forebay
