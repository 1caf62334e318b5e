// Datasets that call Python for the bytes of a sample (object_dataset), and what they share with
// those that ask worker processes (processes.cpp): answers with several parts, and the exceptions
// behind errors.
//
// Reader threads are C++ threads. They take the GIL to call Python, and must not hold it while they
// wait for memory (reserve()), since whoever would free memory may need the GIL. An answer has the
// image and all fields at once. The image is delivered immediately; the fields are kept per thread
// until read_field() asks for them, so that Python is called once per sample.
//
// Python objects must be released with the GIL held and without mutex_: a destructor may run Python
// code.

#include "answers.hpp"

#include <algorithm>

namespace forebay::python {
namespace {

// The bytes of a Python object. Holds the buffer until they are copied, so that Python can neither
// move nor free them.
class Returned {
 public:
  // REQUIRES: the GIL.
  explicit Returned(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~Returned() {
    if (!is_running()) return;
    const nb::gil_scoped_acquire gil;
    PyBuffer_Release(&view_);
  }
  Returned(const Returned&) = delete;
  Returned& operator=(const Returned&) = delete;
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

Part part_of(nb::handle item) {
  if (nb::isinstance<nb::str>(item)) return {.path = path_of(item)};
  auto returned = std::make_shared<const Returned>(item);
  const std::span<const std::byte> bytes = returned->bytes();
  return {.path = "", .bytes = bytes, .owner = std::move(returned)};
}

void deliver(const Part& part, ReadTarget& target) {
  if (!part.path.empty()) return read_file(part.path, target);
  // reserve() may wait for other readers, which may need the GIL, so it must not be held here.
  std::ranges::copy(part.bytes, target.reserve(part.bytes.size()).begin());
}

// Whether the exception means that a store failed or that the process reached a limit. Such errors
// are retried before the sample counts as bad. REQUIRES: the GIL.
bool may_pass(const nb::python_error& raised) {
  if (raised.matches(PyExc_TimeoutError) || raised.matches(PyExc_ConnectionError) ||
      raised.matches(PyExc_MemoryError)) {
    return true;
  }
  if (!raised.matches(PyExc_OSError)) return false;
  const nb::object number = nb::getattr(raised.value(), "errno", nb::none());
  int error = 0;
  return nb::try_cast(number, error) && error_may_pass(error);
}

// The program is a function, or the __getitem__ of an object.
class ObjectDataset final : public AnsweringDataset {
 public:
  using AnsweringDataset::AnsweringDataset;

  void close() override {
    {
      const nb::gil_scoped_release readers_may_need_it;
      forget_answers();
    }
    failures().forget();
  }

 private:
  [[nodiscard]] std::vector<Part> ask(std::uint64_t id, ReadTarget& /*target*/) const override {
    if (!is_running()) throw SampleError("the interpreter has ended");
    const nb::gil_scoped_acquire gil;
    try {
      const nb::object answer = program()(id);
      std::vector<Part> parts;
      if (fields().empty()) {
        parts.push_back(part_of(answer));
      } else {
        for (const nb::handle item : nb::cast<nb::list>(answer)) parts.push_back(part_of(item));
      }
      return parts;
    } catch (const nb::python_error& raised) {
      throw failures().keep(raised);
    }
  }
};

}  // namespace

// Encodes like os.fsencode(), so that file names that are not UTF-8 are preserved.
std::string path_of(nb::handle text) {
  const nb::object encoded = nb::steal(PyUnicode_EncodeFSDefault(text.ptr()));
  if (!encoded.is_valid()) throw nb::python_error();
  const nb::bytes bytes = nb::borrow<nb::bytes>(encoded);
  return {bytes.c_str(), bytes.size()};
}

// C++ errors carry only text through the library. So an exception is kept with its text, by which
// explain() finds the one that an Error is about.
SampleError Failures::keep(const nb::python_error& raised) {
  const auto kind = may_pass(raised) ? SampleError::Kind::transient : SampleError::Kind::permanent;
  std::string text = text_of(raised);
  try {
    // Before Python 3.12 an exception that was not caught yet consists of three parts.
    const nb::object where = raised.traceback().is_valid() ? nb::borrow(raised.traceback()) : nb::none();
    text = utf8_of(nb::module_::import_("forebay._samples").attr("told_of")(raised.type(), raised.value(), where));
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): without the place, the message is still right
  }
  Kept oldest;  // destroyed after the lock is released
  const std::scoped_lock lock(mutex_);
  if (kept_.size() == kMost) {
    oldest = std::move(kept_.front());
    kept_.pop_front();
  }
  kept_.push_back({text, std::current_exception()});
  return SampleError(text, kind);
}

const char* class_of(const Error& error) noexcept {
  if (dynamic_cast<const ConfigError*>(&error) != nullptr) return "ConfigError";
  if (dynamic_cast<const WatchdogError*>(&error) != nullptr) return "WatchdogError";
  return dynamic_cast<const SampleError*>(&error) != nullptr ? "SampleError" : "Error";
}

// Raises an exception for `error` with the Python exception as its cause ("raise ... from").
void Failures::explain(const Error& error) {
  const std::string_view message = error.what();
  std::exception_ptr raised;
  {
    const std::scoped_lock lock(mutex_);
    const auto told =
        std::ranges::find_if(kept_, [&](const Kept& kept) { return message.find(kept.text) != message.npos; });
    if (told == kept_.end()) return;
    raised = told->raised;
  }
  try {
    std::rethrow_exception(raised);
  } catch (const nb::python_error& kept) {
    nb::python_error cause = kept;  // a copy: raising moves the value out, and a later call may ask again
    nb::raise_from(cause, nb::module_::import_("forebay.errors").attr(class_of(error)), "%s", error.what());
  }
}

void Failures::forget() {
  std::deque<Kept> all;
  const std::scoped_lock lock(mutex_);
  all.swap(kept_);
}

// A part is released as soon as it has been copied.
void AnsweringDataset::read(std::uint64_t id, ReadTarget& target) const {
  std::vector<Part> parts = ask(id, target);
  deliver(parts.front(), target);
  parts.front() = {};
  if (!fields().empty()) keep(id, std::move(parts));
}

// Calls Python again if the answer is gone: the reader may retry a field, perhaps on another
// thread.
void AnsweringDataset::read_field(std::uint64_t id, std::size_t field, ReadTarget& target) const {
  std::vector<Part> parts = take_kept(id);
  if (parts.empty()) parts = ask(id, target);
  deliver(std::exchange(parts[field + 1], {}), target);
  if (field + 1 < fields().size()) keep(id, std::move(parts));
}

std::vector<Part> AnsweringDataset::take_kept(std::uint64_t id) const {
  Answer answer;  // destroyed after the lock is released: its objects need the GIL
  const std::scoped_lock lock(mutex_);
  const auto found = kept_.find(std::this_thread::get_id());
  if (found == kept_.end()) return {};
  answer = std::move(found->second);
  kept_.erase(found);
  return answer.id == id ? std::move(answer.parts) : std::vector<Part>();
}

void AnsweringDataset::keep(std::uint64_t id, std::vector<Part> parts) const {
  Answer older;  // destroyed after the lock is released: its objects need the GIL
  const std::scoped_lock lock(mutex_);
  older = std::exchange(kept_[std::this_thread::get_id()], {id, std::move(parts)});
}

void AnsweringDataset::forget_answers() noexcept {
  std::unordered_map<std::thread::id, Answer> all;  // destroyed after the lock is released
  const std::scoped_lock lock(mutex_);
  all.swap(kept_);
}

std::shared_ptr<AnsweringDataset> object_dataset(nb::object read, std::uint64_t size, SampleList list,
                                                 std::string identity) {
  return std::make_shared<ObjectDataset>(std::move(read), size, std::move(list), std::move(identity));
}

}  // namespace forebay::python
