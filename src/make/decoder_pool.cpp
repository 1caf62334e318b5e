#include "decoder_pool.hpp"

#include <algorithm>
#include <exception>
#include <forebay/error.hpp>
#include <utility>
#include <vector>

#include "read/workload.hpp"

namespace forebay {
namespace {

// Another thread has written the sample's bytes: the first ones, of a small image all, come to this core while it is
// busy with the sample before.
void fetch_ahead(const EncodedSample& sample) noexcept {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kMost = 16 * kLine;
  for (std::size_t at = 0; at < std::min(sample.bytes.size(), kMost); at += kLine) {
    __builtin_prefetch(sample.bytes.data() + at);
  }
}

}  // namespace

using Activity = WorkerStatus::Activity;

DecoderPool::DecoderPool(const DecoderLinks& links, unsigned threads, unsigned most)
    : links_(links),
      workers_("forebay-dec",
               {.body = [this](unsigned thread, WorkerStatus& status) { run(thread, status); },
                .end = [this] { links_.encoded.close(); }},
               std::max(1U, threads), std::max({1U, threads, most})) {}

void DecoderPool::run(unsigned thread, WorkerStatus& status) noexcept {
  try {
    work(thread, status);
  } catch (...) {
    links_.sink.worker_failed(std::current_exception());
  }
}

void DecoderPool::work(unsigned thread, WorkerStatus& status) {
  std::vector<EncodedSample> samples(std::max(Pace::kMost, links_.at_once));
  const bool together = links_.at_once > 0;
  Pace pace;
  while (workers_.may_work(thread)) {
    const std::size_t taken = links_.encoded.take(std::span(samples).first(together ? links_.at_once : pace.at_once()));
    if (taken == 0) return;
    status.set(Activity::decoding, samples[0].request.sample);
    if (together) links_.handler.prepare(std::span(samples).first(taken), thread);
    std::uint64_t made = 0;
    std::uint64_t decode_ns = 0;
    for (std::size_t i = 0; i < taken; ++i) {
      if (i + 1 < taken) fetch_ahead(samples[i + 1]);
      made += handle(samples[i], thread);
      const auto next = i + 1 < taken ? Activity::decoding : Activity::idle;
      const std::int64_t ns = status.set(next, i + 1 < taken ? samples[i + 1].request.sample : 0);
      pace.add(ns);
      decode_ns += static_cast<std::uint64_t>(ns);
    }
    links_.handler.finish_taken(thread);
    links_.buffers.give_back(std::span(samples).first(taken));
    links_.totals.samples.fetch_add(made, std::memory_order_relaxed);
    links_.totals.decode_ns.fetch_add(decode_ns, std::memory_order_relaxed);
  }
}

std::uint32_t DecoderPool::handle(const EncodedSample& sample, unsigned thread) {
  try {
    return links_.handler.handle(sample, thread);
  } catch (const SampleError& error) {
    links_.sink.bad_sample(sample.request, error.what());
    return 0;
  }
}

}  // namespace forebay
