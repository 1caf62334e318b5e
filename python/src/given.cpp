// Parts that a program writes in Python: policies, operations on pixels, and sources of batches.
//
// Policies are called on the thread that calls next(), operations on decoder threads, each with the
// GIL held. Their exceptions are kept (Raised) and become an Error for the library.

#include "given.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include <forebay/error.hpp>

#include <nanobind/stl/string.h>

namespace forebay::python {
namespace {

// Converts what decide() returned; the message shows any other value.
Decision decision_of(nb::handle said) {
  if (nb::isinstance<nb::str>(said)) {
    const std::string text = nb::cast<std::string>(said);
    for (const Decision decision : {Decision::fresh, Decision::reuse, Decision::wait}) {
      if (text == to_string(decision)) return decision;
    }
  }
  const std::string text = nb::cast<std::string>(nb::repr(said));
  throw Error("policy.name: decide() returned " + text + R"(; it returns "fresh", "reuse" or "wait")");
}

// Calls the policy. Its exception is kept, because the library may report the error in a later
// call.
template <typename Work>
auto ask(Raised& raised, Work&& work) {
  const nb::gil_scoped_acquire gil;
  const nb::error_scope outside;
  try {
    return work();
  } catch (const nb::python_error& error) {
    raised.keep_of_policy();
    throw Error(text_of(error));
  }
}

class PythonPolicy final : public Policy {
 public:
  // REQUIRES: the GIL.
  PythonPolicy(const nb::object& policy, std::shared_ptr<Raised> raised)
      : decide_(raised->hold(policy.attr("decide"))), raised_(std::move(raised)) {
    if (nb::hasattr(policy, "served")) served_ = raised_->hold(policy.attr("served"));
  }

  [[nodiscard]] Decision decide(const Signals& signals) override {
    return ask(*raised_, [&] { return decision_of(decide_.get()(signals)); });
  }
  void served(Decision decision, const Signals& signals) override {
    if (!served_) return;
    ask(*raised_, [&] {
      const std::string_view name = to_string(decision);
      served_.get()(nb::str(name.data(), name.size()), signals);
    });
  }

 private:
  Held decide_;
  Held served_;
  std::shared_ptr<Raised> raised_;
};

class PythonSource final : public BatchSource {
 public:
  // REQUIRES: the GIL.
  PythonSource(nb::handle intake, std::shared_ptr<Raised> raised)
      : begin_(raised->hold(intake.attr("begin"))),
        take_(raised->hold(intake.attr("take"))),
        raised_(std::move(raised)) {}

  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  void begin_epoch(std::uint64_t /*epoch*/) override {
    with_python(*raised_, [this] { begin_.get()(); });
  }
  [[nodiscard]] bool next() override {
    if (!is_running()) throw Error("the interpreter has ended");
    const nb::gil_scoped_acquire gil;
    try {
      const nb::object number = take_.get()();
      if (number.is_none()) return false;
      number_ = nb::cast<std::int64_t>(number);
      return true;
    } catch (const nb::python_error& error) {
      throw Error(text_of(error));
    }
  }
  void fill(std::size_t /*field*/, std::span<std::byte> to) override {
    std::memcpy(to.data(), &number_, sizeof(number_));
  }

 private:
  Held begin_;
  Held take_;
  std::shared_ptr<Raised> raised_;
  std::int64_t number_ = 0;
  std::vector<Field> fields_{{.name = "number", .kind = FieldKind::array, .dtype = DType::int64, .shape = {1}}};
};

// Draws a seed from the sample's own random stream, so that results do not depend on threads.
class PythonOperation final : public Operation {
 public:
  // REQUIRES: the GIL.
  PythonOperation(const nb::handle given, std::shared_ptr<Raised> raised)
      : run_(raised->hold(given.attr("run"))),
        empty_(nb::module_::import_("numpy").attr("empty")),
        raised_(std::move(raised)),
        keeps_places_(nb::cast<bool>(given.attr("keeps_places"))),
        in_evaluation_(nb::cast<bool>(given.attr("in_evaluation"))) {}

  void apply(const PixelView& view, Random& random) const override {
    const std::uint64_t seed = random.bits();
    if (!is_running()) throw Error("the interpreter has ended");
    const nb::gil_scoped_acquire gil;
    try {
      const nb::object pixels = empty_.get()(nb::make_tuple(view.height, view.width, kColours), "uint8");
      copy_to(view, pixels);
      copy_from(run_.get()(pixels, seed), view);
    } catch (const nb::python_error& error) {
      raised_->keep_elsewhere();
      throw Error(text_of(error));
    }
  }
  [[nodiscard]] bool keeps_places() const noexcept override { return keeps_places_; }
  [[nodiscard]] bool in_evaluation() const noexcept override { return in_evaluation_; }

 private:
  static constexpr std::size_t kColours = 3;

  // Other threads may run Python while pixels are copied. The program gets an array of its own,
  // which it may keep; the view's memory it may not.
  static void copy_to(const PixelView& view, const nb::object& pixels) {
    const Buffer buffer(pixels, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS);
    const nb::gil_scoped_release others_may_run;
    std::byte* to = buffer.bytes().data();
    for (const Pixel& pixel : view.pixels) {
      to[0] = std::byte{pixel.red};
      to[1] = std::byte{pixel.green};
      to[2] = std::byte{pixel.blue};
      to += kColours;
    }
  }
  // REQUIRES: `pixels` has as many bytes as the view, which forebay/policy.py has checked.
  static void copy_from(const nb::object& pixels, const PixelView& view) {
    const Buffer buffer(pixels, PyBUF_C_CONTIGUOUS);
    const nb::gil_scoped_release others_may_run;
    const std::byte* from = buffer.bytes().data();
    for (Pixel& pixel : view.pixels) {
      pixel.red = static_cast<std::uint8_t>(from[0]);
      pixel.green = static_cast<std::uint8_t>(from[1]);
      pixel.blue = static_cast<std::uint8_t>(from[2]);
      from += kColours;
    }
  }

  Held run_;
  Held empty_;
  std::shared_ptr<Raised> raised_;
  bool keeps_places_;
  bool in_evaluation_;
};

}  // namespace

std::shared_ptr<BatchSource> source_of(nb::handle intake, std::shared_ptr<Raised> raised) {
  return std::make_shared<PythonSource>(intake, std::move(raised));
}

void add_policy(PolicyRegistry& policies, const nb::object& given, const std::shared_ptr<Raised>& raised) {
  if (given.is_none()) return;
  policies.add(nb::cast<std::string>(given.attr("name")),
               [make = raised->hold(given.attr("make")), raised](const auto&) {
                 return with_python(*raised, [&] { return std::make_unique<PythonPolicy>(make.get()(), raised); });
               });
}

void add_operations(OperationRegistry& operations, const nb::object& given, const std::shared_ptr<Raised>& raised) {
  for (const nb::handle each : given) {
    operations.add(nb::cast<std::string>(each.attr("name")),
                   [held = raised->hold(nb::borrow(each)), raised](const TransformOptions&) {
                     return with_python(*raised, [&]() -> std::unique_ptr<const Operation> {
                       return std::make_unique<PythonOperation>(held.get(), raised);
                     });
                   });
  }
}

void bind_signals(nb::module_& module) {
  nb::class_<Signals>(module, "Signals", "What a policy may know when it decides a step.")
      .def_ro("step", &Signals::step, "Steps served so far.")
      .def_ro(
          "depth", &Signals::depth,
          "Batches ready now. Equal to capacity once the last batch of the run is ready, and while other ranks wait "
          "for what is ready here.")
      .def_ro("capacity", &Signals::capacity, "Batches that may be ready.")
      .def_ro("uses", &Signals::uses, "How often the batch that a reuse would serve was served; 0 = there is none.")
      .def_ro("produced", &Signals::produced, "Batches made since the start.")
      .def_ro("now_s", &Signals::now_s, "Seconds since the first step.")
      .def_ro("blocked_s", &Signals::blocked_s, "Those of them in which a full queue blocked the producer.")
      .def_ro("waited_s", &Signals::waited_s, "Seconds already spent waiting in this step.");
}

}  // namespace forebay::python
