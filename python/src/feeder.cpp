// A feeder in Python. One thread of the program makes it and calls it. While it is inside the
// library the GIL is released; it is taken again for everything in Python: the dataset, the policy,
// operations, the logger, and the hook that checks for signals.
//
// Exceptions: a Python exception cannot pass through the library unchanged. So it is kept in Raised
// while an Error goes through the library; on the way out the original is raised again, or becomes
// the cause of the Error.
//
// A feeder may be destroyed at any moment, even while another exception is in flight, in a forked
// child, or after the interpreter has ended. The code checks for each of these where it matters
// (error_scope, is_forked, is_running).

#include "feeder.hpp"

#include <chrono>
#include <thread>

#include <forebay/error.hpp>

#include <nanobind/stl/string.h>

#include "answers.hpp"
#include "communicator.hpp"
#include "given.hpp"

namespace forebay::python {
namespace {

// An exception from a logger does not end the run. KeyboardInterrupt and the like, which signal
// handlers may raise between any two instructions, still reach the trainer. Text that is not UTF-8
// is shown with replacement characters.
Logger logger_of(const nb::object& log, const std::shared_ptr<Raised>& raised) {
  if (log.is_none()) return {};
  return [held = raised->hold(log), raised](LogLevel level, std::string_view text) {
    if (!is_running()) throw Error("the interpreter has ended");
    const nb::gil_scoped_acquire gil;
    const nb::error_scope outside;  // a feeder may be destroyed while an exception is in flight
    const std::string_view name = to_string(level);
    try {
      held.get()(nb::str(name.data(), name.size()),
                 nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace")));
    } catch (const nb::python_error& error) {
      if (raised->is_by_trainer() && !error.matches(PyExc_Exception)) raised->keep();
      throw Error(text_of(error));
    }
  };
}

// Runs the handlers of signals that have arrived, on the main thread, and then `waiting`. An
// exception from either ends the wait. While C++ code runs, Python handles signals only when asked
// to.
std::function<void()> while_waiting(const nb::object& waiting, const std::shared_ptr<Raised>& raised) {
  return [held = raised->hold(waiting), raised] {
    with_python(*raised, [&held] {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!held.get().is_none()) held.get()();
    });
  };
}

// Makes the feeder, or, if a source of batches is given, sets `source` and returns null. If the
// start is interrupted, a dataset that asks processes is abandoned: readers that wait for a process
// would never end.
std::unique_ptr<Feeder> make(Ingredients given, const std::shared_ptr<Raised>& raised,
                             std::unique_ptr<SourceFeeder>& source) {
  Parts parts;
  auto* const asked = dynamic_cast<AnsweringDataset*>(given.dataset.get());  // valid as long as the feeder
  if (asked != nullptr) {
    raised->ask(&asked->failures());
    // One reader thread for each process.
    if (given.options.workers.io == 0) given.options.workers.io = asked->at_once();
  }
  parts.dataset = std::move(given.dataset);
  parts.resume = std::move(given.resume);
  parts.trace = std::move(given.trace);
  parts.trace_s = given.trace_s;
  parts.log = logger_of(given.log, raised);
  const auto is_starting = std::make_shared<bool>(true);
  parts.while_waiting = [hear = while_waiting(given.waiting, raised), asked, is_starting] {
    try {
      hear();
    } catch (...) {
      if (*is_starting && asked != nullptr) asked->abandon();  // no feeder will come to close it
      throw;
    }
  };
  add_policy(parts.policies, given.policy, raised);
  add_operations(parts.operations, given.operations, raised);
  const std::unique_ptr<Communicator> ranks = given.communicator.is_none()
                                                  ? solo_communicator()
                                                  : std::make_unique<PythonCommunicator>(given.communicator, raised);
  std::unique_ptr<Feeder> made;
  std::shared_ptr<BatchSource> batches;
  std::string place;
  if (!given.source.is_none()) {
    batches = source_of(given.source, raised);
    place = nb::cast<std::string>(given.source.attr("place"));
  }
  try {
    const nb::gil_scoped_release others_may_run;
    if (batches) {
      source = make_source_feeder(std::move(given.options), *ranks, batches, std::move(parts), place);
    } else {
      made = std::make_unique<Feeder>(std::move(given.options), *ranks, std::move(parts));
    }
  } catch (const Error& error) {
    raised->rethrow();
    raised->explain(error);
    throw;
  } catch (...) {
    raised->rethrow();
    throw;
  }
  if (*raised) {
    const nb::gil_scoped_release others_may_run;  // its threads may need to log before they end
    made.reset();
    source.reset();
  }
  raised->rethrow();
  *is_starting = false;
  return made;
}

// Reports an exception that a destructor cannot raise. REQUIRES: the GIL.
void write_unraisable(const std::exception_ptr& thrown) noexcept {
  try {
    std::rethrow_exception(thrown);
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an exception of an unknown type");
  }
  PyErr_WriteUnraisable(nullptr);
}

// What a reuse may serve again. Images rendered at each serving are new every time. Policy "block"
// on a single rank waits for a new batch in every step, and an evaluation serves each batch once.
Batch::Reuse reuse_of(const Ingredients& given) {
  const bool waits = given.policy.is_none() && given.options.policy.name == "block" && given.communicator.is_none();
  const bool may_return = !given.options.run.eval && !waits;
  return {.of_images = may_return && given.options.transform.when == When::enqueue, .of_fields = may_return};
}

}  // namespace

void Raised::explain(const Error& error) {
  if (policy_) std::rethrow_exception(std::exchange(policy_, nullptr));
  if (failures_ != nullptr) failures_->explain(error);
  if (!elsewhere_) return;
  try {
    std::rethrow_exception(std::exchange(elsewhere_, nullptr));
  } catch (nb::python_error& cause) {
    nb::raise_from(cause, nb::module_::import_("forebay.errors").attr(class_of(error)), "%s", error.what());
  }
}

PythonFeeder::PythonFeeder(Ingredients ingredients)
    : reuse_(reuse_of(ingredients)),
      asked_(std::dynamic_pointer_cast<AnsweringDataset>(ingredients.dataset)),
      own_(make(std::move(ingredients), raised_, source_)),
      feeder_(source_ ? &source_->feeder() : own_.get()),
      fields_(std::make_shared<const Fields>(feeder_->fields())) {}

// In a forked child everything belongs to the parent.
PythonFeeder::~PythonFeeder() {
  if (feeder_->is_forked()) return;
  end();
  const nb::gil_scoped_release others_may_run;
  own_.reset();
  source_.reset();
}

void PythonFeeder::end() noexcept {
  if (feeder_->is_forked() || std::exchange(is_ended_, true)) return;
  const nb::error_scope outside;  // the code below must not see an exception that is in flight
  try {
    close(nb::handle());
  } catch (...) {
    write_unraisable(std::current_exception());
  }
}

int PythonFeeder::show_references(visitproc visit, void* arg) const {
  if (asked_) Py_VISIT(asked_->program().ptr());
  return raised_->show_references(visit, arg);
}

Feeder& PythonFeeder::own() const {
  if (own_) return *own_;
  throw Error(
      "this feeder serves batches of a source, of which it knows no state: use state_dict() and load_state_dict() of "
      "what forebay.reuse() returned");
}

// First the readers are released (abandon), or closing would wait for them. The processes end after
// the feeder's threads.
void PythonFeeder::close(nb::handle begin) {
  feeder_->require_own_process();
  const Occupied occupied(*this);  // first: a close() that is refused must not change anything
  if (begin.is_valid()) begin();
  if (asked_) asked_->abandon();
  try {
    run([this] { source_ ? source_->close() : own_->close(); });
  } catch (...) {
    if (asked_) asked_->close();
    throw;
  }
  if (asked_) asked_->close();
}

// The batch keeps the stream's object alive, because the stream is used when the batch ends.
std::optional<Batch> PythonFeeder::next(const GivenStream& stream) {
  wait_for_computations();
  std::optional<Lease> lease =
      call([this, view = stream.view] { return source_ ? source_->next(view) : own_->next(view); });
  if (!lease) return std::nullopt;
  Batch batch(*std::move(lease), fields_, leases_, reuse_);
  batch.lease()->keep(stream.object);
  for (const GivenStream& other : also_) batch.lease()->use_on(other);
  return batch;
}

bool PythonFeeder::next_epoch() {
  return call([this] { return source_ ? source_->next_epoch() : own_->next_epoch(); });
}

std::string PythonFeeder::place() {
  return ask([this](const Feeder&) { return source_->state(); });
}

// Notebooks keep the last error, with the variables of the functions that it passed through: a batch
// may be among them.
void forget_last_error() {
  const nb::object error = nb::getattr(nb::module_::import_("sys"), "last_value", nb::none());
  if (error.is_none()) return;
  nb::module_::import_("traceback").attr("clear_frames")(error.attr("__traceback__"));
  nb::module_::import_("gc").attr("collect")();
}

// Only if as many batches are held as are allowed: then next() could only fail, while forgetting an
// error or waiting for JAX may free one.
void PythonFeeder::wait_for_computations() {
  feeder_->require_own_process();
  const Options& options = feeder_->options();
  const auto most = static_cast<std::uint32_t>(options.queue.max_leases);
  if (leases_->count() < most) return;
  forget_last_error();
  constexpr std::chrono::duration<double> kPatience{60};  // if no watchdog is configured
  const std::chrono::duration<double> patience{options.policy.watchdog_s};
  const auto begin = std::chrono::steady_clock::now();
  while (leases_->is_computing() && leases_->count() >= most) {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (std::chrono::steady_clock::now() - begin > (patience.count() > 0 ? patience : kPatience)) return;
    const nb::gil_scoped_release others_may_run;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void PythonFeeder::refuse() const {
  throw Error(
      "the feeder is in use: one thread makes it and calls it, and a signal handler may call request_stop() alone");
}

}  // namespace forebay::python
