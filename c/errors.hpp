#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <forebay/forebay.h>
#include <forebay/error.hpp>

struct forebay_error {
  forebay_status status;
  std::string message;
};

// Turns exceptions into status codes and messages, and those of callbacks into exceptions.
namespace forebay::c {

// An error with its own status code.
class StatusError final : public Error {
 public:
  StatusError(forebay_status status, const std::string& message) : Error(message), status_(status) {}
  [[nodiscard]] forebay_status status() const noexcept { return status_; }

 private:
  forebay_status status_;
};

// Throws FOREBAY_ERROR_ARGUMENT: the caller broke the contract.
[[noreturn]] inline void refuse(const std::string& message) { throw StatusError(FOREBAY_ERROR_ARGUMENT, message); }

// Throws FOREBAY_ERROR_ARGUMENT for null.
template <typename Given>
Given* given(Given* pointer, const char* name) {
  if (pointer == nullptr) refuse(std::string(name) + " is null");
  return pointer;
}

// Makes an error object for the caller, unless `error` is null. Inline, because both libraries of
// this interface use it.
inline forebay_status described(forebay_error** error, forebay_status status, const char* message) noexcept {
  if (error == nullptr) return status;
  try {
    *error = new forebay_error{status, message};
  } catch (...) {
    *error = nullptr;
  }
  return status;
}

// Describes the exception in flight. REQUIRES: called within a catch block.
inline forebay_status report(forebay_error** error) noexcept {
  try {
    throw;
  } catch (const StatusError& thrown) {
    return described(error, thrown.status(), thrown.what());
  } catch (const ConfigError& thrown) {
    return described(error, FOREBAY_ERROR_CONFIG, thrown.what());
  } catch (const SampleError& thrown) {
    const forebay_status status = thrown.is_transient() ? FOREBAY_ERROR_TRANSIENT : FOREBAY_ERROR_SAMPLE;
    return described(error, status, thrown.what());
  } catch (const WatchdogError& thrown) {
    return described(error, FOREBAY_ERROR_WATCHDOG, thrown.what());
  } catch (const std::bad_alloc&) {
    return described(error, FOREBAY_ERROR_MEMORY, "there is no memory");
  } catch (const std::exception& thrown) {
    return described(error, FOREBAY_ERROR, thrown.what());
  } catch (...) {
    return described(error, FOREBAY_ERROR, "an error of unknown type");
  }
}

// Runs work(), which returns a status, or nothing if it succeeds unless it throws. Any exception
// becomes a status and an error.
template <typename Work>
forebay_status guarded(forebay_error** error, Work&& work) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
      std::forward<Work>(work)();
      return FOREBAY_OK;
    } else {
      return std::forward<Work>(work)();
    }
  } catch (...) {
    return report(error);
  }
}

// The message for a failed callback: "CALL failed: MESSAGE", with the status's name if the callback
// wrote none.
[[nodiscard]] std::string failure_of(std::string_view call, forebay_status status, const char* message);

// Buffer for a callback's message. Only the first byte is initialised, because every step makes
// several calls.
class Message {
 public:
  Message() noexcept { text_[0] = '\0'; }
  [[nodiscard]] char* room() noexcept { return text_; }
  // The text, always terminated, even if the callback did not terminate it.
  [[nodiscard]] const char* text() noexcept {
    text_[FOREBAY_MESSAGE_SIZE - 1] = '\0';
    return text_;
  }

 private:
  char text_[FOREBAY_MESSAGE_SIZE];
};

}  // namespace forebay::c
