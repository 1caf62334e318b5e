#include "pipeline.hpp"

#include <bit>
#include <utility>

#include "decode/raw_sample.hpp"
#include "worker_report.hpp"

namespace forebay {

Pipeline::Pipeline(const PipelineLinks& links, std::shared_ptr<SlotStore> store, const WorkerPlan& plan,
                   std::uint32_t ahead)
    : links_(links),
      store_(std::move(store)),
      ahead_(ahead),
      plan_(std::bit_ceil(ahead_ + 1)),
      ring_(static_cast<std::uint32_t>(links.options.queue.capacity), store_->size(), 0),
      transform_(links.options.transform, links.options.seed, links.options.run.eval,
                 Transform::stores_for(links.options.transform, links.order.options().batch_size)),
      jpeg_{.exif = links.options.transform.exif, .max_pixels = links.options.transform.max_pixels},
      throttle_(links.options.storage, links.options.seed, links.node_bandwidth),
      budget_(static_cast<std::size_t>(links.options.workers.bytes)),
      bad_(links.dataset, links.order, links.options.on_bad, requests_, links.quarantine, links.console, links.failure,
           [this] { ring_.wake(); }),
      benches_(plan.decode),
      decoders_({.encoded = encoded_, .buffers = budget_, .handler = *this, .sink = bad_, .totals = totals_},
                plan.decode),
      readers_({.dataset = links.dataset,
                .requests = requests_,
                .budget = budget_,
                .encoded = encoded_,
                .sink = bad_,
                .totals = totals_,
                .throttle = throttle_.is_active() ? &throttle_ : nullptr},
               {.threads = plan.io}),
      issuer_([this] { issue(); }) {}

void Pipeline::stop() {
  if (!issuer_.joinable()) return;
  stopped_ = true;
  ring_.wake();
  issuer_.join();
  readers_.stop();
  decoders_.stop();
}

void Pipeline::plan(const BatchRef& batch) noexcept {
  const std::uint64_t turn = ring_.planned();
  plan_[turn & (plan_.size() - 1)] = batch;
  ring_.plan(turn + 1);
}

void Pipeline::issue() {
  try {
    SlotRing::Claim claim{};
    issuer_status_.set(WorkerStatus::Activity::waiting_slot);
    while (ring_.claim(stopped_, claim)) request_batch(claim);
    issuer_status_.set(WorkerStatus::Activity::stopped);
  } catch (...) {
    bad_.worker_failed(std::current_exception());
  }
}

void Pipeline::request_batch(const SlotRing::Claim& claim) {
  const Order& order = links_.order;
  const std::uint64_t batch_size = order.options().batch_size;
  SlotStore::Slot& slot = store_->slot(claim.slot);
  slot.batch = planned(claim.turn);
  slot.turn = claim.turn;
  slot.uses = 0;
  // Relaxed: the decoders get the slot through the queues, which order it.
  slot.missing.store(slot.batch.size, std::memory_order_relaxed);
  for (std::uint32_t index = 0; index < slot.batch.size; ++index) {
    const std::uint64_t position = slot.batch.batch * batch_size + index;
    requests_.push({.order = claim.turn * batch_size + index,
                    .epoch = slot.batch.epoch,
                    .position = position,
                    .sample = order.sample(slot.batch.epoch, position),
                    .attempt = 0,
                    .slot = claim.slot,
                    .index = index});
  }
}

void Pipeline::handle(const EncodedSample& encoded, unsigned thread) {
  const ReadRequest& request = encoded.request;
  Bench& bench = benches_[thread];
  const Sample sample = links_.dataset.sample(request.sample);
  if (sample.encoding == Encoding::jpeg) {
    bench.decoder.decode(encoded.bytes, jpeg_, bench.image);
  } else {
    decode_raw(encoded.bytes, sample.width, sample.height, sample.channels, bench.image);
  }
  transform_.apply(bench.image, sample.box, request.epoch, request.position,
                   store_->sample(request.slot, request.index), bench.scratch);
  store_->labels(request.slot)[request.index] = sample.label;
  store_->ids(request.slot)[request.index] = request.sample;
  SlotStore::Slot& slot = store_->slot(request.slot);
  const std::uint64_t turn = slot.turn;
  // acq_rel: ring invariant R3.
  if (slot.missing.fetch_sub(1, std::memory_order_acq_rel) == 1) ring_.publish(turn);
}

std::string Pipeline::report() const {
  WorkerReport report(links_.dataset);
  report.add("issuer", {&issuer_status_, 1});
  report.add("reader", readers_.statuses());
  report.add("decoder", decoders_.statuses());
  return report.text();
}

}  // namespace forebay
