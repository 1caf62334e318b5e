// The Python interface of a feeder; forebay/feeder.py adds the parts written in Python. Names that
// start with an underscore are for that file.

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include <forebay/config.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "base/launch.hpp"
#include "config/values.hpp"
#include "measure/figures.hpp"

#include "communicator.hpp"
#include "feeder.hpp"

namespace forebay::python {
namespace {

using namespace nb::literals;

// A file's path, as encoded by Python's os.fsencode().
std::string file_of(const nb::bytes& path) { return {path.c_str(), path.size()}; }

// An iterator over a feeder's batches. Asking for the next batch releases the previous one, even if
// the program still has its object.
class Batches {
 public:
  // `stream`: None = the feeder's. `is_whole_run`: warns if there is no batch.
  Batches(nb::object feeder, nb::handle stream, bool is_whole_run)
      : object_(std::move(feeder)), feeder_(nb::cast<PythonFeeder*>(object_)), is_whole_run_(is_whole_run) {
    if (!stream.is_none()) stream_.emplace(stream);
  }

  nb::object next() {
    if (last_.is_valid()) nb::cast<Batch*>(last_)->release();
    last_.reset();
    std::optional<Batch> batch = stream_ ? feeder_->next(*stream_) : feeder_->next();
    if (!batch && is_whole_run_ && !has_served_) object_.attr("_warn_of_empty_loop")();
    if (!batch) throw nb::stop_iteration();
    has_served_ = true;
    last_ = nb::cast(*std::move(batch));
    return last_;
  }
  int show_references(visitproc visit, void* arg) const {
    Py_VISIT(object_.ptr());
    return 0;
  }

 private:
  nb::object object_;
  PythonFeeder* feeder_;
  bool is_whole_run_;
  bool has_served_ = false;
  std::optional<GivenStream> stream_;
  nb::object last_;
};

// What a feeder calls may refer to the feeder, so Python's collector has to see those references. To clear none of them
// is enough: each cycle goes through an object of the program.
template <typename Bound>
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? nb::inst_ptr<Bound>(self)->show_references(visit, arg) : 0;
}

int end_later(void* self) {
  nb::inst_ptr<PythonFeeder>(nb::steal(static_cast<PyObject*>(self)))->end();
  return 0;
}

// Ends the threads before anything that they call is taken apart. The collector may run on one of these threads, which
// cannot wait for itself: then the main thread does it.
void finalize(nb::handle self) {
  if (!nb::inst_ready(self)) return;
  auto* const feeder = nb::inst_ptr<PythonFeeder>(self);
  if (feeder->is_by_trainer()) return feeder->end();
  self.inc_ref();
  (void)Py_AddPendingCall(end_later, self.ptr());  // if too many wait already, this one stays as it is
}

// Without the GIL, because a file system may hang.
Options load(const std::string& file) {
  const nb::gil_scoped_release others_may_run;
  return load_options(file);
}

nb::dict values_of(const Options& options) {
  nb::dict all;
  for (const auto& [key, value] : config::settings_of(options)) all[key.c_str()] = value;
  return all;
}

nb::dict described(const Field& field) {
  nb::dict all;
  all["name"] = field.name;
  all["kind"] = to_string(field.kind);
  all["dtype"] = to_string(field.dtype);
  nb::list shape;
  for (const std::int64_t extent : field.shape) shape.append(extent);
  all["shape"] = nb::tuple(shape);
  all["classes"] = to_paths(field.classes);
  return all;
}

void bind_options(nb::module_& module) {
  nb::class_<Options>(module, "Options", "A checked configuration.")
      .def(
          "to_toml", [](const Options& self) { return to_toml(self); }, "Every key with its value.")
      .def("values", &values_of, nb::sig("def values(self) -> dict[str, str]"),
           "All values as TOML, by the full name of each key.")
      .def_prop_ro(
          "dataset_path", [](const Options& self) { return to_path(self.dataset.path); }, "The key dataset.path.");
  module.def(
      "stream_number", [](nb::handle stream) { return reinterpret_cast<std::uintptr_t>(stream_of(stream).handle); },
      "stream"_a.none());
  module.def(
      "load_options", [](const nb::bytes& file) { return load(file_of(file)); }, "file"_a);
  module.def(
      "parse_options",
      [](const std::string& toml, const std::string& origin, const Options& defaults) {
        return parse_options(toml, origin, {}, defaults);
      },
      "toml"_a, "origin"_a, "defaults"_a);
  module.def("default_options", [] { return Options(); });
  module.def(
      "config_keys",
      [] {
        nb::list all;
        for (const ConfigKey& key : config_keys()) {
          all.append(nb::make_tuple(key.section, key.name, key.expected, key.default_value, key.help));
        }
        return all;
      },
      nb::sig("def config_keys() -> list[tuple[str, str, str, str, str]]"),
      "Section, name, permitted values, default and explanation of every configuration key.");
  module.def(
      "launched",
      []() -> std::optional<std::pair<std::string, std::string>> {
        const auto launch = launched_with_others();
        return launch ? std::optional(std::pair(launch->processes, launch->variable)) : std::nullopt;
      },
      "How many processes mpirun or srun started, this one included, and the variable that says so.");
  module.def(
      "first_error",
      [](nb::object communicator, const std::string& mine) {
        const auto raised = std::make_shared<Raised>();
        const PythonCommunicator ranks(std::move(communicator), raised);
        try {
          const nb::gil_scoped_release others_may_run;
          return first_error(ranks, mine);
        } catch (...) {
          raised->rethrow();
          throw;
        }
      },
      "communicator"_a, "mine"_a);
}

// Functions that may wait release the GIL inside PythonFeeder.
void bind_running(nb::class_<PythonFeeder>& feeder) {
  feeder
      .def(
          "next",
          [](PythonFeeder& self, nb::handle stream) {
            return stream.is_none() ? self.next() : self.next(GivenStream(stream));
          },
          "stream"_a = nb::none(), nb::sig("def next(self, stream: typing.Any = None) -> Batch | None"),
          "The next step's batch, or None at the end. It is yours until release(), the end of its `with` block, or "
          "until nothing refers to it. `stream`: a CUDA stream on which the batch is used, as a number or an object.")
      .def("next_epoch", &PythonFeeder::next_epoch,
           "Begins the next epoch, or continues an unfinished one; False when the run has ended.")
      .def(
          "_batches",
          [](nb::handle self, nb::handle stream, bool is_whole_run) {
            return Batches(nb::borrow(self), stream, is_whole_run);
          },
          "stream"_a.none(), "is_whole_run"_a = false,
          nb::sig("def _batches(self, stream: typing.Any, is_whole_run: bool = False) -> Batches"))
      .def(
          "_use_streams",
          [](PythonFeeder& self, nb::handle stream, const nb::list& also) {
            std::vector<GivenStream> others;
            for (const nb::handle other : also) others.emplace_back(other);
            self.use_streams(GivenStream(stream), std::move(others));
          },
          "stream"_a.none(), "also"_a,
          nb::sig("def _use_streams(self, stream: typing.Any, also: list[typing.Any]) -> None"))
      .def_prop_ro("_is_occupied", &PythonFeeder::is_occupied)
      .def_prop_ro("_leases", &PythonFeeder::leases, "Batches that the program holds.")
      .def("request_stop", &PythonFeeder::request_stop,
           "Asks all ranks to stop soon, at the same step. May be called from any thread and from signal handlers.")
      .def("_close", &PythonFeeder::close, "begin"_a,
           nb::sig("def _close(self, begin: typing.Callable[[], None]) -> None"));
}

void bind_state(nb::class_<PythonFeeder>& feeder) {
  feeder.def("_state", [](PythonFeeder& self) { return self.call([&] { return self.own().state(); }); })
      .def("_place", &PythonFeeder::place)
      .def("_restore_state",
           [](PythonFeeder& self, const std::string& text) { self.call([&] { self.own().restore_state(text); }); })
      .def("_save",
           [](PythonFeeder& self, const nb::bytes& path) {
             const std::string file = file_of(path);
             self.call([&] { self.own().save(file); });
           })
      .def(
          "finish_saves", [](PythonFeeder& self) { self.call([&] { self.own().finish_saves(); }); },
          "Waits until all saves are on disk. Collective.")
      .def("_restore_if_present", [](PythonFeeder& self, const nb::bytes& path) {
        const std::string file = file_of(path);
        return self.call([&] { return self.own().restore_if_present(file); });
      });
}

// ask() keeps the GIL and is for quick questions; call() releases it.
void bind_knowledge(nb::class_<PythonFeeder>& feeder) {
  const auto ask = [](auto member) {
    return [member](PythonFeeder& self) { return self.ask([member](const Feeder& f) { return (f.*member)(); }); };
  };
  feeder.def_prop_ro("steps", ask(&Feeder::steps), "Steps since the run began, including those before it was resumed.")
      .def_prop_ro("was_stopped", ask(&Feeder::was_stopped), "True if the run ended because a stop was requested.")
      .def_prop_ro("epochs_completed", ask(&Feeder::epochs_completed), "Epochs of which every batch has been served.")
      .def_prop_ro("steps_per_epoch", ask(&Feeder::steps_per_epoch),
                   "Steps in an epoch if every step on every rank is fresh.")
      .def_prop_ro("batches_per_epoch", ask(&Feeder::batches_per_epoch), "Batches in an epoch over all ranks.")
      .def_prop_ro(
          "classes",
          [](PythonFeeder& self) { return self.ask([](const Feeder& f) { return to_paths(f.dataset().classes()); }); },
          nb::sig("def classes(self) -> list[str]"), "The class names, in the order of their numbers.")
      .def_prop_ro(
          "dataset_size",
          [](PythonFeeder& self) { return self.ask([](const Feeder& f) { return f.dataset().size(); }); },
          "Samples in the dataset.")
      .def(
          "sample_name",
          [](PythonFeeder& self, std::uint64_t number) {
            return self.ask([number](const Feeder& f) {
              if (number >= f.dataset().size()) throw nb::index_error("the dataset has no sample of this number");
              return to_path(f.dataset().name(number));
            });
          },
          "number"_a, nb::sig("def sample_name(self, number: int) -> str"),
          "The file of the sample with this number in batch.ids, followed by its record, object or frame if the "
          "file holds several.")
      .def("describe", ask(&Feeder::describe), "The sizes of the worker pools and of the queue, in a line.")
      .def(
          "to_toml", [](PythonFeeder& self) { return self.ask([](const Feeder& f) { return to_toml(f.options()); }); },
          "The configuration in effect: every key with its value.")
      .def(
          "_values",
          [](PythonFeeder& self) { return self.ask([](const Feeder& f) { return values_of(f.options()); }); },
          nb::sig("def _values(self) -> dict[str, str]"))
      .def(
          "_fields",
          [](PythonFeeder& self) {
            nb::list all;
            for (const Field& field : *self.fields()) all.append(described(field));
            return all;
          },
          nb::sig("def _fields(self) -> list[dict[str, typing.Any]]"))
      .def(
          "_summary",
          [](PythonFeeder& self) {
            const Summary summary = self.call([&] { return self.summary(); });
            return std::pair(to_json(summary), measure::summary_text(summary));
          },
          "The summary as JSON, and as lines of a label and its text.")
      .def("_profile", [](PythonFeeder& self) { return self.call([&] { return to_json(self.feeder().profile()); }); });
}

}  // namespace

void bind_feeder(nb::module_& module) {
  bind_options(module);
  std::array iterator_slots{PyType_Slot{Py_tp_traverse, reinterpret_cast<void*>(traverse<Batches>)},
                            PyType_Slot{0, nullptr}};
  std::array feeder_slots{PyType_Slot{Py_tp_traverse, reinterpret_cast<void*>(traverse<PythonFeeder>)},
                          PyType_Slot{0, nullptr}};
  nb::class_<Batches>(module, "Batches", "An iterator over a feeder's batches.", nb::type_slots(iterator_slots.data()))
      .def(
          "__iter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __iter__(self) -> Batches"))
      .def("__next__", &Batches::next, nb::sig("def __next__(self) -> Batch"));
  nb::class_<PythonFeeder> feeder(module, "FeederBase", nb::type_slots(feeder_slots.data()));
  feeder.def(
      "__init__",
      [](PythonFeeder* self, const Options& options, nb::object communicator, std::shared_ptr<Dataset> dataset,
         const nb::bytes& resume, const nb::bytes& trace, double trace_s, nb::object log, nb::object waiting,
         nb::object policy, nb::object operations, nb::object source) {
        new (self) PythonFeeder({.options = options,
                                 .communicator = std::move(communicator),
                                 .dataset = std::move(dataset),
                                 .resume = file_of(resume),
                                 .trace = file_of(trace),
                                 .trace_s = trace_s,
                                 .log = std::move(log),
                                 .waiting = std::move(waiting),
                                 .policy = std::move(policy),
                                 .operations = std::move(operations),
                                 .source = std::move(source)});
      },
      "options"_a, "communicator"_a.none(), "dataset"_a.none(), "resume"_a, "trace"_a, "trace_s"_a, "log"_a.none(),
      "waiting"_a.none(), "policy"_a.none() = nb::none(), "operations"_a = nb::tuple(), "source"_a.none() = nb::none());
  feeder.def("__del__", finalize, nb::sig("def __del__(self) -> None"));
  bind_running(feeder);
  bind_state(feeder);
  bind_knowledge(feeder);
}

}  // namespace forebay::python
