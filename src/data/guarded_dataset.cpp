// Wraps datasets that a program brings. Reader threads call them, and so does the thread that sets
// up a run. Whatever they throw must be reported together with the sample or function concerned,
// and must neither end the process nor pass for an error of Forebay's own. Datasets of an index are
// not wrapped.

#include "guarded_dataset.hpp"

#include <exception>
#include <new>
#include <string>
#include <utility>

#include <forebay/error.hpp>

#include "base/limits.hpp"
#include "base/wait.hpp"
#include "index_image.hpp"
#include "video_samples.hpp"

namespace forebay::data {
namespace {

// Describes the current exception, for a message. REQUIRES: called within a catch block.
std::string what_was_thrown() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return "there is no memory (std::bad_alloc)";
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an object that is not a std::exception";
  }
}

// "sample(17)", for messages.
std::string call_of(const char* function, std::uint64_t id) {
  return std::string(function) + "(" + std::to_string(id) + ")";
}

std::string named(const Dataset& dataset, const std::string& function) {
  return "the program's dataset \"" + std::string(dataset.format()) + "\": " + function;
}

// The result of a dataset's function; whatever it throws becomes an Error.
template <typename Call>
auto guard(const Dataset& dataset, const std::string& function, Call&& function_call) {
  try {
    return function_call();
  } catch (...) {
    throw Error(named(dataset, function) + " threw: " + what_was_thrown());
  }
}

// Remembers what reserve() threw, because that ends the read, whatever the dataset does with it: a
// dataset that catches everything must not turn the reader's own exceptions into errors of the
// sample. A read may call reserve() more than once, for example for a second attempt; only a
// failure of the last call counts.
class WatchedTarget final : public ReadTarget {
 public:
  explicit WatchedTarget(ReadTarget& target) : target_(target) {}

  std::span<std::byte> reserve(std::size_t bytes) override {
    was_asked_ = true;
    failure_ = nullptr;
    try {
      return target_.reserve(bytes);
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }
  [[nodiscard]] bool was_asked() const noexcept { return was_asked_; }
  void rethrow_own_failure() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  ReadTarget& target_;
  bool was_asked_ = false;
  std::exception_ptr failure_;
};

// Wraps a dataset that the program brought (C++, C or Python): foreign code that runs on Forebay's
// threads, where an exception of an unknown type would end the process. Errors of reading become
// errors of the sample, everything else an Error that names the function. What the interface
// declares noexcept is passed on as it is.
class GuardedDataset final : public Dataset {
 public:
  explicit GuardedDataset(std::shared_ptr<const Dataset> dataset) : dataset_(std::move(dataset)) {}

  [[nodiscard]] std::string_view format() const noexcept override { return dataset_->format(); }
  [[nodiscard]] std::uint64_t size() const noexcept override { return dataset_->size(); }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return dataset_->classes(); }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return dataset_->skipped(); }
  [[nodiscard]] IndexCounts counts() const noexcept override { return dataset_->counts(); }

  [[nodiscard]] Sample sample(std::uint64_t id) const override {
    return guard(*dataset_, call_of("sample", id), [&] { return dataset_->sample(id); });
  }
  [[nodiscard]] std::uint64_t source(std::uint64_t id) const override {
    return guard(*dataset_, call_of("source", id), [&] { return dataset_->source(id); });
  }
  [[nodiscard]] std::vector<std::byte> serialize() const override {
    return guard(*dataset_, "serialize()", [&] { return dataset_->serialize(); });
  }

  // Called when something else has gone wrong, which must be reported even if the name is not available.
  [[nodiscard]] std::string name(std::uint64_t id) const override {
    const std::string number = "sample " + std::to_string(id);
    try {
      const std::string name = dataset_->name(id);
      return name.empty() ? number : name;
    } catch (...) {
      return number + " (its name(): " + what_was_thrown() + ")";
    }
  }

  void read(std::uint64_t id, ReadTarget& target) const override {
    read_part("read()", id, target, [&](ReadTarget& watched) { dataset_->read(id, watched); });
  }
  [[nodiscard]] std::span<const std::byte> tables(std::uint32_t key) const override {
    return guard(*dataset_, "tables()", [&] { return dataset_->tables(key); });
  }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return dataset_->fields(); }
  [[nodiscard]] std::string field_name(std::uint64_t id, std::size_t field) const override {
    try {
      return dataset_->field_name(id, field);
    } catch (...) {
      return "its field_name(): " + what_was_thrown();
    }
  }
  void read_field(std::uint64_t id, std::size_t field, ReadTarget& target) const override {
    read_part("read_field()", id, target, [&](ReadTarget& watched) { dataset_->read_field(id, field, watched); });
  }

 private:
  // SampleError passes unchanged: with it a dataset says that a sample is bad, perhaps only for now
  // (is_transient). A lack of memory concerns the process and ends the run, whereas any other
  // exception costs only the sample. A read that did not call reserve() would leave the sample with
  // whatever was in the memory before.
  template <typename Read>
  static void read_part(const char* function, std::uint64_t id, ReadTarget& target, Read&& read) {
    const auto call = [&] { return std::string(function) + " of sample " + std::to_string(id); };
    WatchedTarget watched(target);
    try {
      read(watched);
    } catch (const SampleError&) {
      watched.rethrow_own_failure();
      throw;
    } catch (const Stopped&) {  // a wait for a store
      throw;
    } catch (const std::bad_alloc&) {
      watched.rethrow_own_failure();
      throw out_of_memory("for " + call() +
                          ", which threw std::bad_alloc (did it check the length that it allocates?)");
    } catch (...) {
      watched.rethrow_own_failure();
      throw SampleError(call() + " threw: " + what_was_thrown());
    }
    watched.rethrow_own_failure();
    if (!watched.was_asked()) throw SampleError(call() + " returned without calling reserve()");
  }

  std::shared_ptr<const Dataset> dataset_;
};

}  // namespace

// Forebay's own datasets keep the contract, and their reads are on the hot path, so they get no
// wrapper.
std::shared_ptr<const Dataset> guarded(std::shared_ptr<const Dataset> dataset) {
  if (image_of(*dataset) != nullptr) return dataset;
  return std::make_shared<const GuardedDataset>(std::move(dataset));
}

bool may_be_label(const Dataset& dataset, std::int64_t label) {
  const auto classes = static_cast<std::int64_t>(dataset.classes().size());
  return label >= -1 && (classes == 0 || label < classes);
}

void require_class(const Dataset& dataset, std::uint64_t id, std::int64_t label) {
  if (may_be_label(dataset, label)) return;
  const std::size_t classes = dataset.classes().size();
  throw Error(named(dataset, call_of("sample", id)) + " gives the label " + std::to_string(label) + ", and " +
              (classes == 0 ? "labels are -1, for none, or numbers from 0"
                            : "labels are -1, for none, to " + std::to_string(classes - 1) + ", by classes()"));
}

// Called when a run is set up, on the caller's thread, so that errors appear there with a clear
// message and not in the first batch.
void try_out(const Dataset& dataset, const ClipOptions& clip) {
  (void)fingerprint(dataset);
  if (dataset.size() == 0) return;
  require_clips(dataset, clip);
  (void)dataset.source(0);
}

}  // namespace forebay::data
