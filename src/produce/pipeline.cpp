// The production side of one rank. The trainer's thread plans batches (plan, plan_ahead) and never
// waits here. The issuer thread claims a slot for the next planned turn and requests its samples:
// from the readers, or from the decoders if reads are quick. Readers hand bytes to decoders; a
// decoder makes its sample in place in the slot (handle) and counts it. Whoever counts the last
// sample of a slot publishes it, on the host by itself and on a device through the uploader, which
// copies first.
//
// Requests, coalesced reads apart (coalesced_reads.hpp), exist only for slots that are claimed, so no
// thread ever waits for one behind it, and any byte budget is enough. The parts are members in the order in which they
// depend on each other, and stop() ends the threads from the front to the back: issuer, readers, decoders, uploader.

#include "pipeline.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include <forebay/error.hpp>

#include "base/clock.hpp"
#include "base/limits.hpp"
#include "base/text.hpp"
#include "base/thread.hpp"
#include "data/guarded_dataset.hpp"
#include "data/source_files.hpp"
#include "data/video_samples.hpp"
#include "read/requests.hpp"
#include "shared_read.hpp"

namespace forebay::produce {
namespace {

// With dataset.order = "shards" samples are shuffled within windows, and reads are coalesced within
// one. So many more batches are planned ahead that a window is known as a whole when its first
// batch is requested. At most kMost, chosen to bound the plan's memory: reads of what lies beyond
// are simply not coalesced with the rest.
std::uint32_t batches_of_window(const Order& order) {
  constexpr std::uint64_t kMost = 1024;
  if (!order.is_windowed()) return 0;
  const std::uint64_t batches = order.options().window / order.options().batch_size + 1;
  return static_cast<std::uint32_t>(std::min({batches, order.batches(), kMost}));
}

// Reads can be merged only where the order keeps neighbours in a file near each other: without
// shuffling, or within windows.
std::unique_ptr<read::CoalescedReads> make_coalesced_reads(const PipelineLinks& links, read::ByteBudget& budget,
                                                           read::ReadQueue& requests, read::EncodedQueue& encoded) {
  const data::PlacedSamples* const samples = data::placed_samples(links.dataset);
  if (samples == nullptr || (links.order.options().shuffle && !links.order.is_windowed())) return nullptr;
  return std::make_unique<read::CoalescedReads>(*samples, budget, requests, encoded,
                                                static_cast<std::size_t>(links.options.workers.bytes));
}

// Decoders make quick reads themselves where a reader would have to take its core from a decoder
// (docs/decisions/0023-decoders-read-what-is-quick.md). Not if the store may hang, because a
// hanging decoder would hold back samples that are ready, and not if reads are coalesced, because
// those are made in advance.
bool decoders_may_read(const PipelineLinks& links, const WorkerPlan& plan, bool is_throttled, bool coalesces) {
  const bool use_all_cores = plan.first.decode != plan.most.decode || plan.first.decode >= plan.cores;
  return use_all_cores && !links.may_be_slow && links.gpu_decoding == nullptr && !is_throttled && !coalesces;
}

// One for each possible decoder thread, so that a thread that starts later finds its own.
std::vector<make::SampleMaker::Workspace> make_workspaces(unsigned threads, const PipelineLinks& links,
                                                          make::TableCache& tables) {
  std::vector<make::SampleMaker::Workspace> workspaces(threads);
  for (auto& workspace : workspaces)
    workspace.decoder = make::ImageDecoder(links.jpeg_kernels, links.decode_index, &tables);
  return workspaces;
}

}  // namespace

Pipeline::Pipeline(const PipelineLinks& links, std::shared_ptr<SlotStore> store, const WorkerPlan& plan,
                   std::uint32_t ahead)
    : links_(links),
      store_(std::move(store)),
      ahead_(ahead + batches_of_window(links.order)),
      plan_(std::bit_ceil(ahead_ + 1)),
      ring_(links.capacity, store_->size(), 0, [this] { return are_decoders_busy(); }),
      maker_(links.options.transform, links.options.seed, links.options.run.eval, links.operations,
             make::Transform::stores_for(links.options.transform, store_->format().pictures()),
             data::clip_rule(links.options.dataset.clip)),
      field_maker_(links.dataset.fields().empty()
                       ? std::nullopt
                       : std::optional(make::FieldMaker(*store_->format().fields, links.options.transform))),
      mixer_(make::is_mixed(links.options)
                 ? std::optional(make::BatchMixer(links.options, *store_->format().fields, store_->format().views))
                 : std::nullopt),
      throttle_(links.options.storage, links.options.seed, links.node_bandwidth),
      encoded_(links.capacity.most),
      budget_(static_cast<std::size_t>(links.options.workers.bytes)),
      coalesced_(make_coalesced_reads(links, budget_, requests_, encoded_)),
      pace_(decoders_may_read(links, plan, throttle_.is_active(), coalesced_ != nullptr)
                ? std::optional<read::ReadPace>(std::in_place)
                : std::nullopt),
      outage_(links.options.policy.watchdog_s, &links.time,
              [&console = links.console](const std::string& line) { console.warn(line); }),
      errors_(
          links.dataset, links.order, links.options.on_bad, requests_, links.quarantine, links.console, links.failure,
          links.options.run.eval ? BadSamples::LeaveOut([this](const auto& request) { leave_out(request); }) : nullptr,
          [this] { ring_.wake(); }),
      tables_([&dataset = links.dataset](std::uint32_t key) { return dataset.tables(key); }),
      workspaces_(make_workspaces(plan.most.decode, links, tables_)),
      written_(workspaces_.size()),
      decoders_({.encoded = encoded_,
                 .buffers = budget_,
                 .handler = *this,
                 .sink = errors_,
                 .totals = totals_,
                 .at_once = links.gpu_decoding == nullptr ? 0 : device::GpuDecoding::kMost,
                 .reads = pace_ ? std::optional(reader_links()) : std::nullopt},
                plan.first.decode, plan.most.decode),
      readers_(reader_links(), {.threads = plan.first.io, .most = plan.most.io, .hedge = hedges()}),
      tuning_({.readers = readers_.workers(),
               .decoders = decoders_.workers(),
               .ring = ring_,
               .observe = [this] { return observe(); },
               .tell = links.tell},
              plan) {
  if (store_->staging() != nullptr) {
    uploader_.emplace(store_, ring_, [this](const std::exception_ptr& error) { errors_.worker_failed(error); });
  }
  if (links.options.workers.direct) {  // before anything is read
    const std::string problem = data::bypass_page_cache(links.dataset);
    if (!problem.empty()) links.tell("workers.direct has no effect: " + problem);
  }
  issuer_ = start_thread("forebay-issue", [this] { issue(); });
}

// "Half of all batches under way are not begun", in samples. Asked by publishers and by the
// consumer, so it reads two atomics and no more.
bool Pipeline::are_decoders_busy() const noexcept {
  if (!pace_ || !pace_->is_quick()) return false;
  const std::uint64_t batch_size = links_.order.options().batch_size;
  return encoded_.size_guess() >= std::max(1U, ring_.capacity() / 2) * batch_size;
}

read::ReaderLinks Pipeline::reader_links() {
  return {.dataset = links_.dataset,
          .requests = requests_,
          .budget = budget_,
          .encoded = encoded_,
          .sink = errors_,
          .totals = totals_,
          .outage = &outage_,
          .throttle = throttle_.is_active() ? &throttle_ : nullptr,
          .coalesced = coalesced_.get(),
          .pace = pace_ ? &*pace_ : nullptr};
}

// The tuning ends before the issuer is joined, and before the pools are stopped, because it starts
// threads in them.
void Pipeline::end_issue() {
  if (!issuer_.joinable()) return;
  stopped_ = true;
  ring_.wake();
  tuning_.stop();
  issuer_.join();
}

void Pipeline::stop() {
  end_issue();
  readers_.stop();
  decoders_.stop();
  if (uploader_) uploader_->stop();
}

// The batch is recorded before ring_.plan(), whose release publishes it to the issuer (R7).
void Pipeline::plan(const BatchRef& batch) noexcept {
  const std::uint64_t turn = ring_.planned();
  plan_[turn & (plan_.size() - 1)] = batch;
  ring_.plan(turn + 1);
}

std::uint64_t Pipeline::planned_of(std::uint64_t epoch) const noexcept {
  std::uint64_t batches = 0;
  for (std::uint64_t turn = ring_.taken(); turn < ring_.planned(); ++turn)
    batches += planned(turn).epoch == epoch ? 1 : 0;
  return batches;
}

// The issuer thread, until stop(). What it throws becomes the rank's failure, which next() throws.
void Pipeline::issue() {
  try {
    ring::SlotRing::Claim claim{};
    issuer_status_.set(WorkerStatus::Activity::waiting_slot);
    while (ring_.claim(stopped_, claim)) {
      issuer_status_.set(WorkerStatus::Activity::requesting);
      request_batch(claim);
      issuer_status_.set(WorkerStatus::Activity::waiting_slot);
    }
    issuer_status_.set(WorkerStatus::Activity::stopped);
  } catch (...) {
    errors_.worker_failed(std::current_exception());
  }
}

// `order` numbers all samples of this rank in the order in which they are needed: it is the
// priority of a request. `position` is the place in the epoch, from which everything random about
// the sample is drawn.
read::ReadRequest Pipeline::request_for(std::uint64_t turn, std::uint32_t index, std::uint32_t slot) const noexcept {
  const BatchRef& batch = planned(turn);
  const std::uint64_t batch_size = links_.order.options().batch_size;
  const std::uint64_t position = batch.batch * batch_size + index;
  return {.order = turn * batch_size + index,
          .turn = turn,
          .epoch = batch.epoch,
          .position = position,
          .sample = links_.order.sample(batch.epoch, position),
          .attempt = 0,
          .slot = slot,
          .index = index};
}

void Pipeline::request_batch(const ring::SlotRing::Claim& claim) {
  const BatchRef& batch = planned(claim.turn);
  store_->begin(claim.slot, claim.turn, batch);
  encoded_.begin_turn(claim.turn);
  issued_.clear();
  for (std::uint32_t index = 0; index < batch.size; ++index) {
    const read::ReadRequest request = request_for(claim.turn, index, claim.slot);
    // Samples that share their image's bytes may have fields of their own.
    if (coalesced_ || field_maker_) {
      issued_.push_back(request);
    } else {
      add_request(issued_, request, links_.dataset);
    }
  }
  if (coalesced_) {
    plan_coalesced_reads(claim.turn);
    coalesced_->request(issued_);
  }
  request_issued();
}

// Whether reads are quick is asked for a batch as a whole, here, so that its samples go one way.
void Pipeline::request_issued() {
  if (!pace_ || !pace_->is_quick(steady_ns())) return requests_.push(issued_);
  unread_.clear();
  for (const read::ReadRequest& request : issued_)
    unread_.push_back({.request = request, .bytes = {}, .is_read = false});
  encoded_.push(unread_);
}

// A batch may lie across the border of two windows, so each window it touches is looked at once.
void Pipeline::plan_coalesced_reads(std::uint64_t turn) {
  const BatchRef& batch = planned(turn);
  const std::uint64_t batch_size = links_.order.options().batch_size;
  const std::uint64_t end = batch.batch * batch_size + batch.size;
  for (std::uint64_t position = batch.batch * batch_size; position < end;) {
    const PositionRange window = links_.order.window(position);
    if (!coalesced_->is_planned(batch.epoch, position)) {
      collect(turn, batch.epoch, window);
      coalesced_->plan(planned_);
    }
    position = window.end;
  }
}

// Ring invariant R7 holds for all turns from the claimed one to the last that is planned.
void Pipeline::collect(std::uint64_t turn, std::uint64_t epoch, const PositionRange& window) {
  planned_.clear();
  for (const std::uint64_t last = ring_.seen_planned(); turn < last; ++turn) {
    const BatchRef& batch = planned(turn);
    const std::size_t before = planned_.size();
    for (std::uint32_t index = 0; index < batch.size && batch.epoch == epoch; ++index) {
      const std::uint64_t position = batch.batch * links_.order.options().batch_size + index;
      if (window.contains(position)) planned_.push_back(request_for(turn, index, 0));
    }
    if (planned_.size() == before) return;
  }
}

void Pipeline::prepare(std::span<const read::EncodedSample> samples, unsigned thread) {
  links_.gpu_decoding->begin(samples, links_.dataset, thread);
}

// Counted before the sample can be served, so whoever was served all samples sees the counts of
// all. nvJPEG decodes several images at once (prepare); here one of them is picked up.
const make::StoredPicture* Pipeline::decoded_on_gpu(const read::EncodedSample& encoded, unsigned thread) {
  const make::StoredPicture* const decoded = links_.gpu_decoding->picture(encoded, thread);
  const read::ReadRequest& request = encoded.request;
  if (links_.dataset.sample(request.sample).encoding == Encoding::image) {
    auto& count = decoded != nullptr ? totals_.nvjpeg_samples : totals_.nvjpeg_fallbacks;
    count.fetch_add(request.count, std::memory_order_relaxed);
  }
  return decoded;
}

// A decoder thread, with one sample, or with a group of samples that show parts of the same image.
// Returns how many were made. A bad sample is not among them: its SampleError is reported here for
// a group, and by the caller for a single sample. What is written is counted per thread and told to
// the slot in one step (finish_written), because the slot's count is shared by all decoders.
std::uint32_t Pipeline::handle(const read::EncodedSample& encoded, unsigned thread) {
  const make::StoredPicture* const decoded = links_.gpu_decoding == nullptr ? nullptr : decoded_on_gpu(encoded, thread);
  make::SampleMaker::Workspace& workspace = workspaces_[thread];
  Written& written = written_[thread];
  const read::ReadRequest& request = encoded.request;
  // A slot waits for its own samples alone.
  if (written.slot != request.slot) finish_written(thread);
  written.slot = request.slot;
  if (request.count == 1) {
    make_one(encoded, decoded, request, workspace);
    ++written.samples;
    return 1;
  }
  if (make_together(encoded, decoded, workspace)) {
    written.samples += request.count;
    return request.count;
  }
  std::uint32_t made = 0;
  for (std::uint32_t i = 0; i < request.count; ++i) {
    const read::ReadRequest member = member_of(request, i, links_.order);
    try {
      make_one(encoded, decoded, member, workspace);
      ++written.samples;
      ++made;
    } catch (const SampleError& error) {
      errors_.bad_sample(member, error.what());
    }
  }
  return made;
}

// Makes a sample: its views, or the canvas from which they are drawn later. Each view is drawn by a
// position of its own. Label and id are written before it is known whether the bytes are good: if
// not, the replacement overwrites them.
void Pipeline::add_members(const read::ReadRequest& request, std::vector<make::SampleMaker::Member>& members) {
  const std::uint32_t views = store_->format().views_made();
  const Sample sample = links_.dataset.sample(request.sample);
  data::require_class(links_.dataset, request.sample, sample.label);
  for (std::uint32_t view = 0; view < views; ++view) {
    members.push_back({.sample = sample,
                       .epoch = request.epoch,
                       .position = request.position * views + view,
                       .out = store_->sample(request.slot, request.index * views + view)});
  }
  store_->set_label_and_id(request.slot, request.index, sample.label, request.sample);
}

// An operation's own error and lack of memory are not the sample's fault: they end the run, with
// the sample's name.
void Pipeline::make_one(const read::EncodedSample& encoded, const make::StoredPicture* decoded,
                        const read::ReadRequest& request, make::SampleMaker::Workspace& workspace) {
  std::vector<make::SampleMaker::Member>& members = workspace.members;
  members.clear();
  add_members(request, members);
  try {
    if (members.size() == 1 || !maker_.make_together(encoded.image(), members, workspace, decoded)) {
      for (auto& [sample, epoch, position, out, axes] : members) {
        maker_.make(encoded.image(), sample, epoch, position, out, workspace, decoded);
        axes = workspace.fields.axes;
      }
    }
  } catch (const make::OperationError& error) {
    throw Error(links_.dataset.name(request.sample) + ": " + error.what());
  } catch (const std::bad_alloc&) {
    throw out_of_memory("to decode " + links_.dataset.name(request.sample));
  }
  if (workspace.fields.turn.is_annotated_as_stored) [[unlikely]]
    tell_of_turn(members.front().sample, request);
  if (field_maker_) make_fields(encoded, request, workspace);
}

// COCO and other formats state an image's size. Where that is the size before its EXIF orientation,
// the annotator saw the image unturned, and so the boxes are turned with it; that is worth a line,
// once per run.
void Pipeline::tell_of_turn(const Sample& sample, const read::ReadRequest& request) {
  if (has_told_of_turn_.exchange(true, std::memory_order_relaxed)) return;
  links_.console.warn(printable(links_.dataset.name(request.sample)) + ": its annotation states the size " +
                      std::to_string(sample.width) + "x" + std::to_string(sample.height) +
                      ", that of the image before its EXIF orientation, so its boxes are turned as the image is; " +
                      "further ones are turned without a word");
}

void Pipeline::count(make::SampleMaker::Workspace& workspace) noexcept {
  // A sample counts once for each of its views.
  const auto add = [views = store_->format().views_made()](std::atomic<std::uint64_t>& total, std::uint64_t& counted) {
    if (counted >= views) total.fetch_add(counted / views, std::memory_order_relaxed);
    counted %= views;
  };
  add(totals_.shrinkable, workspace.shrinkable);
  add(totals_.own_jpeg, workspace.own_jpeg);
  add(totals_.indexed_jpeg, workspace.indexed_jpeg);
}

// Masks and boxes are cropped and mirrored like their view. Views of a canvas are drawn later; the
// other fields are the same in all of them.
void Pipeline::make_fields(const read::EncodedSample& encoded, const read::ReadRequest& request,
                           make::SampleMaker::Workspace& workspace) {
  const std::size_t fields = links_.dataset.fields().size();
  const std::uint32_t views = store_->format().views;
  for (std::uint32_t view = 0; view < views; ++view) {
    const make::SampleMaker::Member& member =
        workspace.members[std::min<std::size_t>(view, workspace.members.size() - 1)];
    workspace.fields.axes = member.axes;
    const make::FieldMaker::Target target{store_->slot(request.slot).filled, request.index * views + view,
                                          *member.out.view};
    for (std::size_t field = 0; field < fields; ++field) {
      try {
        field_maker_->make(field, encoded.field(field, fields), target, workspace.decoder, workspace.fields);
      } catch (const SampleError& error) {
        throw read::field_error(links_.dataset, request.sample, field, error);
      }
    }
  }
}

bool Pipeline::make_together(const read::EncodedSample& encoded, const make::StoredPicture* decoded,
                             make::SampleMaker::Workspace& workspace) {
  const read::ReadRequest& request = encoded.request;
  workspace.members.clear();
  for (std::uint32_t i = 0; i < request.count; ++i) add_members(member_of(request, i, links_.order), workspace.members);
  if (!maker_.make_together(encoded.image(), workspace.members, workspace, decoded)) return false;
  if (workspace.fields.turn.is_annotated_as_stored) [[unlikely]]
    tell_of_turn(workspace.members.front().sample, request);
  return true;
}

// In evaluation a replacement would be evaluated twice, so the batch is smaller instead.
void Pipeline::leave_out(const read::ReadRequest& request) {
  store_->leave_out(request.slot, request.index);
  finish(request.slot, 1);
}

// Whoever was served all samples knows the counts of all: they come first.
void Pipeline::finish_written(unsigned thread) {
  Written& written = written_[thread];
  if (written.samples == 0) return;
  count(workspaces_[thread]);
  finish(written.slot, std::exchange(written.samples, 0));
}

// The turn is read before the count: the one that counts the last sample may see its slot
// published, taken and claimed anew at once.
void Pipeline::finish(std::uint32_t slot_number, std::uint32_t samples) {
  const std::uint64_t turn = store_->slot(slot_number).turn;
  if (!store_->count_down(slot_number, samples)) return;
  if (links_.options.run.eval) {
    store_->close_gaps(slot_number);
  } else {
    const SlotStore::Slot& slot = store_->slot(slot_number);
    if (mixer_) mixer_->mix(slot.batch, {store_->labels(slot_number), store_->format().rows()}, slot.filled);
    store_->keep(slot_number);
  }
  if (uploader_) {
    uploader_->push(slot_number);
  } else {
    ring_.publish(turn);
  }
}

}  // namespace forebay::produce
