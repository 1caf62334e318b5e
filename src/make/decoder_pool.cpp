// The decoder threads. Each takes a few samples at a time from the queue of encoded samples, about
// 100 microseconds' worth of work, and reads those that no reader has read yet (QuickReader). It
// passes one after the other to the handler and then returns their buffers together. The handler
// belongs to the pipeline: it makes the sample in its slot and publishes slots that are complete. A
// bad sample goes to the sink and the thread continues; any other exception ends the run.

#include "decoder_pool.hpp"

#include <algorithm>
#include <exception>
#include <forebay/error.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "read/quick_reader.hpp"
#include "read/workload.hpp"

namespace forebay::make {
namespace {

// Another thread wrote the sample's bytes, so they are not in this core's cache. Prefetches the
// beginning (all of a small image) while the core is busy with the previous sample.
void fetch_ahead(const read::EncodedSample& sample) noexcept {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kMost = 16 * kLine;
  for (std::size_t at = 0; at < std::min(sample.bytes.size(), kMost); at += kLine) {
    __builtin_prefetch(sample.bytes.data() + at);
  }
}

using Activity = WorkerStatus::Activity;

// The work of one decoder thread.
class Decoder {
 public:
  // `links` must outlive it.
  Decoder(const DecoderLinks& links, unsigned thread, WorkerStatus& status)
      : links_(links), status_(status), samples_(std::max(read::ChunkSize::kMost, links.at_once)), thread_(thread) {
    if (links.reads) reader_.emplace(*links.reads, status);
  }

  // Waits for samples and handles some. False if there will be no more.
  [[nodiscard]] bool work();

 private:
  [[nodiscard]] std::uint32_t handle(const read::EncodedSample& sample);

  std::optional<read::QuickReader> reader_;
  const DecoderLinks& links_;
  WorkerStatus& status_;
  std::vector<read::EncodedSample> samples_;  // taken from the queue together
  read::ChunkSize chunk_;
  unsigned thread_;
};

// finish_taken() must come before the buffers are returned and before the thread may wait: no
// finished sample may stay uncounted while the thread sleeps.
bool Decoder::work() {
  const bool together = links_.at_once > 0;
  const std::size_t taken =
      links_.encoded.take(std::span(samples_).first(together ? links_.at_once : chunk_.at_once()));
  if (taken == 0) return false;
  const std::size_t here = reader_ ? reader_->read(std::span(samples_).first(taken)) : taken;
  if (here == 0) {
    status_.set(Activity::idle);
    return true;
  }
  const auto samples = std::span(samples_).first(here);
  status_.set(Activity::decoding, samples[0].request.sample);
  if (together) links_.handler.prepare(samples, thread_);
  std::uint64_t made = 0;
  std::uint64_t decode_ns = 0;
  for (std::size_t i = 0; i < here; ++i) {
    if (i + 1 < here) fetch_ahead(samples[i + 1]);
    made += handle(samples[i]);
    if (i + 1 == here) links_.handler.finish_taken(thread_);  // part of the work
    const auto next = i + 1 < here ? Activity::decoding : Activity::idle;
    const std::int64_t ns = status_.set(next, i + 1 < here ? samples[i + 1].request.sample : 0);
    chunk_.add(ns);
    decode_ns += static_cast<std::uint64_t>(ns);
  }
  links_.buffers.give_back(samples);
  links_.totals.samples.fetch_add(made, std::memory_order_relaxed);
  links_.totals.decode_ns.fetch_add(decode_ns, std::memory_order_relaxed);
  return true;
}

std::uint32_t Decoder::handle(const read::EncodedSample& sample) {
  try {
    return links_.handler.handle(sample, thread_);
  } catch (const SampleError& error) {
    links_.sink.bad_sample(sample.request, error.what());
    return 0;
  }
}

}  // namespace

DecoderPool::DecoderPool(DecoderLinks links, unsigned threads, unsigned most)
    : links_(std::move(links)),
      workers_("forebay-dec",
               {.body = [this](unsigned thread, WorkerStatus& status) { run(thread, status); },
                .end = [this] { links_.encoded.close(); }},
               std::max(1U, threads), std::max({1U, threads, most})) {}

void DecoderPool::run(unsigned thread, WorkerStatus& status) noexcept {
  try {
    Decoder decoder(links_, thread, status);
    while (workers_.may_work(thread) && decoder.work()) {
    }
  } catch (...) {
    links_.sink.worker_failed(std::current_exception());
  }
}

}  // namespace forebay::make
