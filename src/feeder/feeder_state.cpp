#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <forebay/config.hpp>

#include "feeder_impl.hpp"
#include "job/resume.hpp"
#include "ranks/collectively.hpp"

namespace forebay {

void Feeder::Impl::take_over(std::optional<Predecessor> before) {
  std::optional<SavedState> saved;
  if (before) {
    saved = std::move(before->saved);
    device_ = std::move(before->device);
    stream_ = before->stream;
    loop_at_start_ = before->loop;
  } else {
    saved = saved_in(parts_.resume);
  }
  if (!saved) return;
  refuse_in_evaluation(saved->source);
  resumed_ = parse_state(saved->text, saved->source);
  resumed_from_ = *std::move(saved);
}

void Feeder::Impl::refuse_in_evaluation(const std::string& source) const {
  if (!options_.run.eval) return;
  throw ConfigError(source + ": an evaluation begins at the beginning (run.eval = true); it cannot go on from " +
                    "a saved state");
}

void Feeder::Impl::make_schedule() {
  const std::uint32_t ranks = communicator_->size();
  const Deal deal{.batches = order_->batches(),
                  .shards = static_cast<std::uint32_t>(options_.mpi.virtual_shards),
                  .ranks = ranks,
                  .epochs = options_.run.eval        ? 1
                            : options_.run.steps > 0 ? UINT64_MAX
                                                     : static_cast<std::uint64_t>(options_.run.epochs)};
  const bool in_turn = loop_at_start_ == Loop::epochs || options_.mpi.epoch_end == EpochEnd::reuse;
  const bool keep_epoch_order = in_turn && Ranks::hand_over(options_, ranks);
  if (!resumed_) {
    schedule_ = std::make_unique<Schedule>(*order_, Ledger(deal), communicator_->rank(), keep_epoch_order);
  } else {
    require_same_job(*resumed_, job(), resumed_from_.source);
    Ledger ledger(deal, resumed_->epochs, resumed_->opened, std::move(resumed_->left), resumed_->ranks);
    schedule_ = std::make_unique<Schedule>(*order_, std::move(ledger), communicator_->rank(), keep_epoch_order);
  }
}

const JobState& Feeder::Impl::job() {
  if (!job_) job_ = state_of(options_, *safe_dataset_, *order_, communicator_->size());
  return *job_;
}

bool Feeder::Impl::was_complete() const noexcept {
  if (!resumed_) return false;
  return options_.run.steps > 0 ? resumed_->steps >= static_cast<std::uint64_t>(options_.run.steps)
                                : resumed_->epochs >= static_cast<std::uint64_t>(options_.run.epochs);
}

std::uint64_t Feeder::Impl::job_fresh_samples() const noexcept {
  const Tally* const heard = ranks_->heard();
  const std::uint64_t before = resumed_ ? resumed_->fresh_samples : 0;
  return before + (heard != nullptr ? static_cast<std::uint64_t>(heard->samples) : 0);
}

// Of the batches that are planned only those that next() has returned were delivered: the others are left.
std::vector<Piece> Feeder::Impl::left() const {
  const std::uint32_t rank = communicator_->rank();
  std::vector<Piece> left;
  for (const Piece& piece : schedule_->ledger().pieces()) {
    if (piece.owner == rank) left.push_back(piece);
  }
  const std::uint32_t shards = schedule_->ledger().deal().shards;
  const SlotRing& ring = pipeline_->ring();
  for (std::uint64_t turn = ring.taken(); turn < ring.planned(); ++turn) {
    const BatchRef& batch = pipeline_->planned(turn);
    if (batch.padding) continue;
    const std::uint64_t block = batch.batch / shards;
    left.push_back({.epoch = batch.epoch,
                    .begin = block,
                    .end = block + 1,
                    .shard = static_cast<std::uint32_t>(batch.batch % shards),
                    .owner = rank});
  }
  tidy(left);
  return left;
}

std::string Feeder::Impl::state() {
  if (closed_) throw Error("the state of a feeder is asked for before close(), which ends the talk between the ranks");
  if (options_.run.eval) throw Error("an evaluation (run.eval = true) has no state to save: it begins anew");
  if (refused_ && communicator_->size() == 1) {
    throw Error("there is no state to save: a batch was lost when the device failed, so go on from the last state " +
                ("that was saved (" + cause_ + ")"));
  }
  JobState state = job();
  state.steps = steps();
  state.opened = schedule_->ledger().opened();
  state.fresh_samples = resumed_ ? resumed_->fresh_samples : 0;
  for (RankPart& part : gather_parts(*communicator_, {state.steps, server_->counts().fresh_samples, left()})) {
    state.fresh_samples += part.fresh_samples;
    state.left.insert(state.left.end(), part.left.begin(), part.left.end());
  }
  tidy(state.left);
  state.epochs = state.left.empty() ? state.opened : state.left.front().epoch;
  return to_text(state);
}

void Feeder::Impl::save(const std::filesystem::path& file) {
  std::string text = state();
  // Once the run has ended nothing is held up any more, and the program may end.
  saves_->save(file, std::move(text), ended_);
}

void Feeder::Impl::finish_saves() {
  if (!closed_) saves_->finish();  // close() has
}

void Feeder::Impl::throw_failed_save() {
  if (const std::string failure = saves_->take_failure(); !failure.empty()) throw Error(failure);
}

void Feeder::Impl::require_not_begun() const {
  if (closed_)
    throw Error("restore() comes before close(), which ends the talk between the ranks: make another feeder");
  if (steps_made() > 0 || is_in_epoch_) {
    throw Error(
        "restore() comes before the first next() and next_epoch(): make another feeder, or give it Parts::resume");
  }
}

std::unique_ptr<Feeder::Impl> Feeder::Impl::resumed(SavedState saved) {
  require_not_begun();
  // Whatever the other feeder would refuse is refused here, while this one can still be used as it is.
  refuse_in_evaluation(saved.source);
  const JobState state = parse_state(saved.text, saved.source);
  require_same_job(state, job(), saved.source);
  collectively(*communicator_, [&] {
    if (!is_replay(options_)) return;
    ReplayedRun(options_, communicator_->rank(), communicator_->size(), state.steps).require_dataset(*safe_dataset_);
  });
  std::unique_ptr<Communicator> again = communicator_->duplicate();
  Parts parts = parts_;
  parts.dataset = dataset_;
  ended_ = true;  // on all ranks: nobody leaves
  close();
  // The device need not have room for both.
  gpu_decoding_.reset();
  store_->give_back_memory();
  auto other = std::make_unique<Impl>(options_, std::move(again), std::move(parts), stop_,
                                      Predecessor{std::move(saved), device_, stream_, ranks_->loop()});
  other->saves_->take_over(saves_->take_failure());
  return other;
}

std::optional<SavedState> Feeder::Impl::saved_in(const std::filesystem::path& file) {
  if (saves_) saves_->wait();  // it may be writing this very file
  auto text = share_state(file, *communicator_);
  if (!text) return std::nullopt;
  return SavedState{std::move(*text), file.string()};
}

}  // namespace forebay
