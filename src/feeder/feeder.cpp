// The public Feeder: every function forwards to Feeder::Impl, after a check that this process is
// the one that made the feeder, because after a fork() the child has none of its threads. Objects
// that resume or begin anew replace the whole Impl, which is why it is a pointer. All of it is the
// trainer's thread, except request_stop(), which any thread and a signal handler may call.

#include <algorithm>
#include <forebay/feeder.hpp>

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/launch.hpp"
#include "base/limits.hpp"
#include "base/text.hpp"
#include "feeder_impl.hpp"

namespace forebay {

namespace {

// Started by mpirun but not told of the other ranks, each process would train on everything and
// overwrite the others' files.
std::unique_ptr<Communicator> only_rank() {
  if (const auto launch = launched_with_others()) {
    throw ConfigError(
        "Feeder(options) is one rank on its own, but this process was started as one of " + launch->processes + " (" +
        launch->variable +
        "): each of them would serve the whole dataset and write the same files. Give the feeder its ranks: "
        "Feeder(options, mpi.world()) with a forebay::MpiSession mpi(argc, argv), or "
        "Feeder(options, *forebay::make_communicator(comm)). If each process is to be a job of its own, say so: "
        "Feeder(options, *forebay::solo_communicator())");
  }
  return solo_communicator();
}

[[noreturn]] void no_memory_to_start() {
  std::throw_with_nested(
      Error("no memory is left to start with" + memory_limit() +
            ": lower queue.capacity, queue.pool, workers.bytes or dataset.batch_size, or give the process more"));
}

}  // namespace

Feeder::Feeder(Options options, Parts parts) try
    : stop_(std::make_shared<StopRequest>()),
      impl_(std::make_unique<Impl>(std::move(options), only_rank(), std::move(parts), stop_)) {
} catch (const std::bad_alloc&) {
  no_memory_to_start();
}

Feeder::Feeder(Options options, const Communicator& communicator, Parts parts) try
    : stop_(std::make_shared<StopRequest>()),
      impl_(std::make_unique<Impl>(std::move(options), communicator.duplicate(), std::move(parts), stop_)) {
} catch (const std::bad_alloc&) {
  no_memory_to_start();
}

Feeder::Feeder(Feeder&&) noexcept = default;
Feeder& Feeder::operator=(Feeder&&) noexcept = default;
Feeder::~Feeder() = default;

bool Feeder::is_forked() const noexcept { return impl_->process().is_forked(); }
void Feeder::require_own_process() const { impl_->process().require("this feeder"); }

Feeder::Impl& Feeder::own() const {
  require_own_process();
  return *impl_;
}

std::optional<Lease> Feeder::next(StreamView stream) { return own().next(stream); }

// The first call decides how the ranks end epochs; where the run was begun for a loop over batches
// it may have to start anew, from the same state.
bool Feeder::next_epoch() {
  if (auto other = own().begun_by_epochs()) impl_ = std::move(other);
  return impl_->next_epoch();
}

StreamView Feeder::stream() const noexcept { return impl_->run().stream; }
void Feeder::request_stop() noexcept { stop_->make(); }
std::string Feeder::state() { return own().state(); }
void Feeder::save(const std::string& file) { own().save(file); }
void Feeder::finish_saves() { own().finish_saves(); }

void Feeder::restore(const std::string& file) {
  if (!restore_if_present(file)) throw ConfigError(file + ": there is no such file to resume from");
}

// The new Impl is made before the old one goes, so a state that is refused leaves the feeder as it
// was.
bool Feeder::restore_if_present(const std::string& file) {
  own().require_not_begun();  // before the ranks talk of the file: after close() they cannot
  auto saved = impl_->saved_in(file);
  if (!saved) return false;
  impl_ = impl_->resumed(std::move(*saved));
  return true;
}

void Feeder::restore_state(std::string_view state) {
  impl_ = own().resumed({std::string(state), "the state given to restore_state()"});
}

std::uint64_t Feeder::steps() const noexcept { return impl_->run().steps(); }
bool Feeder::was_stopped() const noexcept { return impl_->was_stopped(); }
std::uint64_t Feeder::epochs_completed() const noexcept { return impl_->epochs_completed(); }
std::uint64_t Feeder::batches_per_epoch() const noexcept { return impl_->run().order->batches(); }
std::uint64_t Feeder::steps_per_epoch() const noexcept {
  return order::most_batches(impl_->run().schedule->ledger().partition());
}
const Dataset& Feeder::dataset() const noexcept { return *impl_->run().dataset; }
std::shared_ptr<const Dataset> Feeder::shared_dataset() const noexcept { return impl_->run().dataset; }
const std::vector<Field>& Feeder::fields() const noexcept { return impl_->run().fields; }
std::size_t Feeder::field_number(std::string_view name) const {
  const std::vector<Field>& all = fields();
  const auto found = std::ranges::find(all, name, &Field::name);
  if (found != all.end()) return static_cast<std::size_t>(found - all.begin());
  throw ConfigError("a batch has no field \"" + std::string(name) + "\"; it has \"" +
                    joined(all, "\", \"", &Field::name) + "\"");
}
const Options& Feeder::options() const noexcept { return impl_->run().options; }
std::string Feeder::describe() const { return impl_->run().describe(); }
Summary Feeder::summary() const { return own().run().summary(); }
Profile Feeder::profile() const { return own().run().journal->profile(summary()); }
// The error of a failed save is thrown here, last, because no later call could do so.
void Feeder::close() {
  own().end_reads();
  impl_->close();
  impl_->throw_failed_save();
}

}  // namespace forebay
