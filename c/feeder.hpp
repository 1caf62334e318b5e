#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <forebay/forebay.h>
#include <forebay/feeder.hpp>

#include "batch.hpp"
#include "errors.hpp"

namespace forebay::c {

// What ends a wait of the feeder, by what its hook throws: the caller's callback, or a deadline.
class Waiting {
 public:
  struct OutOfTime {};

  Waiting(bool (*hook)(void*), void* context) : hook_(hook), context_(context) {}

  // `seconds`: negative = no limit.
  void begin(double seconds) {
    was_interrupted_ = false;
    deadline_.reset();
    if (!(seconds < 0)) deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(limited(seconds));
  }
  // A wait calls it every few milliseconds. Throws OutOfTime, or FOREBAY_ERROR_INTERRUPTED.
  void look() {
    if (hook_ != nullptr && hook_(context_)) {
      was_interrupted_ = true;
      throw StatusError(FOREBAY_ERROR_INTERRUPTED, "while_waiting ended the wait");
    }
    if (deadline_ && Clock::now() >= *deadline_) throw OutOfTime();
  }
  // Since begin(): with several ranks all get an error in place of the exception.
  [[nodiscard]] bool was_interrupted() const noexcept { return was_interrupted_; }

 private:
  using Clock = std::chrono::steady_clock;
  // Short enough to be added to any time.
  static std::chrono::duration<double> limited(double seconds) noexcept {
    constexpr double kYear = 365.0 * 24 * 3600;
    return std::chrono::duration<double>(seconds < kYear ? seconds : kYear);
  }

  bool (*hook_)(void*);
  void* context_;
  std::optional<Clock::time_point> deadline_;
  bool was_interrupted_ = false;
};

// A field as texts and pointers that stay where they are.
struct DescribedField {
  explicit DescribedField(Field described);
  DescribedField(DescribedField&&) noexcept = default;
  DescribedField& operator=(DescribedField&&) noexcept = default;

  Field field;
  std::vector<const char*> classes;  // of `field`
};

}  // namespace forebay::c

struct forebay_feeder {
  std::shared_ptr<forebay::c::Waiting> waiting;
  bool is_alone = true;
  forebay::Feeder feeder;
  std::shared_ptr<forebay::c::Batches> batches;
  std::vector<forebay::c::DescribedField> fields;
  bool by_epochs = false;  // an epoch was begun
  std::atomic<bool> is_occupied{false};
};

namespace forebay::c {

// While a call is inside the feeder.
class Occupied {
 public:
  // Throws FOREBAY_ERROR_ARGUMENT for null, Error in a fork, and FOREBAY_ERROR_BUSY while another call is inside.
  explicit Occupied(forebay_feeder* feeder) : feeder_(*given(feeder, "feeder")) {
    feeder_.feeder.require_own_process();  // first: a thread that was inside when the process forked does not come out
    // Acquire and release: the previous thread's use of the feeder happens before the next one's.
    if (feeder_.is_occupied.exchange(true, std::memory_order_acquire)) {
      throw StatusError(FOREBAY_ERROR_BUSY,
                        "the feeder is in use: one thread calls it at a time, and callbacks may call "
                        "forebay_feeder_request_stop() alone");
    }
  }
  ~Occupied() { feeder_.is_occupied.store(false, std::memory_order_release); }
  Occupied(const Occupied&) = delete;
  Occupied& operator=(const Occupied&) = delete;

 private:
  forebay_feeder& feeder_;
};

// work(feeder) as one call, whose waits end after `timeout_s` (negative: no limit); returns a status.
template <typename Work>
forebay_status call_within(forebay_feeder* feeder, double timeout_s, forebay_error** error, Work&& work) noexcept {
  return guarded(error, [&] {
    const Occupied occupied(feeder);
    feeder->waiting->begin(timeout_s);
    try {
      return forebay_status{work(*feeder)};
    } catch (const Waiting::OutOfTime&) {
      return forebay_status{FOREBAY_NOT_READY};
    } catch (const Error& failure) {
      if (feeder->waiting->was_interrupted()) throw StatusError(FOREBAY_ERROR_INTERRUPTED, failure.what());
      throw;
    }
  });
}

// work(feeder.feeder), which says nothing but what it throws.
template <typename Work>
forebay_status call(forebay_feeder* feeder, forebay_error** error, Work&& work) noexcept {
  return call_within(feeder, -1, error, [&](forebay_feeder& inside) {
    work(inside.feeder);
    return FOREBAY_OK;
  });
}

// A copy for the caller, who ends it with forebay_text_free(); `length` may be null.
void hand_over(const std::string& text, char** out, size_t* length);

}  // namespace forebay::c
