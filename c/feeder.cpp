// The feeder in the C interface: running, stopping, saving. Every function that can fail goes
// through call() or call_within(). They turn exceptions into a status and an error object, refuse a
// second concurrent call, and end a wait after a timeout or an interruption.

#include "feeder.hpp"

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace forebay::c {

// Allocated with malloc(), because the caller, perhaps in another language, frees it with
// forebay_text_free().
void hand_over(const std::string& text, char** out, size_t* length) {
  auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  *out = copy;
  if (length != nullptr) *length = text.size();
}

}  // namespace forebay::c

using forebay::Feeder;
using forebay::c::call;
using forebay::c::call_within;
using forebay::c::given;
using forebay::c::guarded;

// In a forked child nothing is freed: the threads do not exist there, and MPI and files belong to
// the parent. If another thread is within a call, the feeder is not freed, and the caller gets
// FOREBAY_ERROR_BUSY.
forebay_status forebay_feeder_free(forebay_feeder* feeder) {
  if (feeder == nullptr) return FOREBAY_OK;
  if (feeder->feeder.is_forked()) return FOREBAY_ERROR;
  // From here on no other call may enter.
  if (feeder->is_occupied.exchange(true, std::memory_order_acquire)) return FOREBAY_ERROR_BUSY;
  feeder->waiting->begin(-1);
  delete feeder;
  return FOREBAY_OK;
}

// There is no timeout with several ranks: one that gave up alone would leave the others waiting in
// the step.
forebay_status forebay_feeder_next(forebay_feeder* feeder, double timeout_s, void* stream, forebay_batch** batch,
                                   forebay_error** error) {
  if (batch != nullptr) *batch = nullptr;
  return call_within(feeder, timeout_s, error, [&](forebay_feeder& running) {
    static_cast<void>(given(batch, "batch"));
    if (timeout_s >= 0 && !running.is_alone) {
      forebay::c::refuse("with several ranks there is no timeout: all make the same steps. Give FOREBAY_NO_TIMEOUT");
    }
    std::optional<forebay::Lease> lease = running.feeder.next({stream});
    if (!lease) return running.by_epochs ? FOREBAY_END_OF_EPOCH : FOREBAY_END_OF_RUN;
    *batch = running.batches->hold(*std::move(lease), running.batches);
    return FOREBAY_OK;
  });
}

forebay_status forebay_feeder_next_epoch(forebay_feeder* feeder, forebay_error** error) {
  return call_within(feeder, -1, error, [](forebay_feeder& running) {
    running.by_epochs = running.feeder.next_epoch();
    return running.by_epochs ? FOREBAY_OK : FOREBAY_END_OF_RUN;
  });
}

// May be called from a signal handler.
void forebay_feeder_request_stop(forebay_feeder* feeder) {
  if (feeder != nullptr) feeder->feeder.request_stop();
}

forebay_status forebay_feeder_close(forebay_feeder* feeder, forebay_error** error) {
  return call(feeder, error, [](Feeder& open) { open.close(); });
}

forebay_status forebay_feeder_state(forebay_feeder* feeder, char** text, size_t* length, forebay_error** error) {
  return call(feeder, error, [&](Feeder& running) {
    *given(text, "text") = nullptr;
    forebay::c::hand_over(running.state(), text, length);
  });
}

forebay_status forebay_feeder_restore_state(forebay_feeder* feeder, const char* text, size_t length,
                                            forebay_error** error) {
  return call(feeder, error, [&](Feeder& made) { made.restore_state(std::string_view(given(text, "text"), length)); });
}

forebay_status forebay_feeder_save(forebay_feeder* feeder, const char* file, forebay_error** error) {
  return call(feeder, error, [&](Feeder& running) { running.save(given(file, "file")); });
}

forebay_status forebay_feeder_finish_saves(forebay_feeder* feeder, forebay_error** error) {
  return call(feeder, error, [](Feeder& running) { running.finish_saves(); });
}

// With a null `was_there` the file must exist; otherwise it is restored if it exists.
forebay_status forebay_feeder_restore(forebay_feeder* feeder, const char* file, bool* was_there,
                                      forebay_error** error) {
  return call(feeder, error, [&](Feeder& made) {
    if (was_there == nullptr) return made.restore(given(file, "file"));
    *was_there = false;
    *was_there = made.restore_if_present(given(file, "file"));
  });
}
