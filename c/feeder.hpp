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

// Ends a wait of the feeder by throwing from its hook, when the caller's callback or a deadline
// says so.
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
  // Called every few milliseconds during a wait. Throws OutOfTime, or FOREBAY_ERROR_INTERRUPTED.
  void look() {
    if (hook_ != nullptr && hook_(context_)) {
      was_interrupted_ = true;
      throw StatusError(FOREBAY_ERROR_INTERRUPTED, "while_waiting ended the wait");
    }
    if (deadline_ && Clock::now() >= *deadline_) throw OutOfTime();
  }
  // Whether the callback has ended a wait since begin(). With several ranks the wait ends with
  // another error on all of them, so the exception itself does not show it.
  [[nodiscard]] bool was_interrupted() const noexcept { return was_interrupted_; }

 private:
  using Clock = std::chrono::steady_clock;
  // Limits a time so that adding it to a time point cannot overflow.
  static std::chrono::duration<double> limited(double seconds) noexcept {
    constexpr double kYear = 365.0 * 24 * 3600;
    return std::chrono::duration<double>(seconds < kYear ? seconds : kYear);
  }

  bool (*hook_)(void*);
  void* context_;
  std::optional<Clock::time_point> deadline_;
  bool was_interrupted_ = false;
};

// A field whose texts and pointers stay at the same addresses.
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
  bool by_epochs = false;  // in an epoch begun by forebay_feeder_next_epoch()
  std::atomic<bool> is_occupied{false};
};

namespace forebay::c {

// Marks the feeder as in use while a call is inside it.
class Occupied {
 public:
  // Throws FOREBAY_ERROR_ARGUMENT for null, Error in a fork, and FOREBAY_ERROR_BUSY while another call is inside.
  explicit Occupied(forebay_feeder* feeder) : feeder_(*given(feeder, "feeder")) {
    feeder_.feeder.require_own_process();  // first: a thread that was inside at the fork stays inside
    // Acquire, paired with the release in the destructor: the previous thread's use of the feeder
    // happens before this one's.
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

// Runs work(feeder) as one call, whose waits end after `timeout_s` (negative: no limit). Returns
// the status that work returns.
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

// Runs work(feeder.feeder), which returns nothing; it succeeds unless it throws.
template <typename Work>
forebay_status call(forebay_feeder* feeder, forebay_error** error, Work&& work) noexcept {
  return call_within(feeder, -1, error, [&](forebay_feeder& inside) {
    work(inside.feeder);
    return FOREBAY_OK;
  });
}

// Makes a copy for the caller, who frees it with forebay_text_free(); `length` may be null.
void hand_over(const std::string& text, char** out, size_t* length);

}  // namespace forebay::c
