#include "errors.hpp"

#include <cstdlib>

namespace forebay::c {

std::string failure_of(std::string_view call, forebay_status status, const char* message) {
  const std::string why = *message != '\0' ? message : forebay_status_name(status);
  return std::string(call) + " failed: " + why;
}

}  // namespace forebay::c

int32_t forebay_c_version() { return FOREBAY_C_VERSION; }
const char* forebay_version() { return FOREBAY_VERSION; }

const char* forebay_status_name(forebay_status status) {
  switch (status) {
    case FOREBAY_OK: return "FOREBAY_OK";
    case FOREBAY_END_OF_EPOCH: return "FOREBAY_END_OF_EPOCH";
    case FOREBAY_END_OF_RUN: return "FOREBAY_END_OF_RUN";
    case FOREBAY_NOT_READY: return "FOREBAY_NOT_READY";
    case FOREBAY_ERROR: return "FOREBAY_ERROR";
    case FOREBAY_ERROR_ARGUMENT: return "FOREBAY_ERROR_ARGUMENT";
    case FOREBAY_ERROR_CONFIG: return "FOREBAY_ERROR_CONFIG";
    case FOREBAY_ERROR_SAMPLE: return "FOREBAY_ERROR_SAMPLE";
    case FOREBAY_ERROR_TRANSIENT: return "FOREBAY_ERROR_TRANSIENT";
    case FOREBAY_ERROR_WATCHDOG: return "FOREBAY_ERROR_WATCHDOG";
    case FOREBAY_ERROR_BUSY: return "FOREBAY_ERROR_BUSY";
    case FOREBAY_ERROR_INTERRUPTED: return "FOREBAY_ERROR_INTERRUPTED";
    case FOREBAY_ERROR_MEMORY: return "FOREBAY_ERROR_MEMORY";
    default: return "?";
  }
}

const char* forebay_error_message(const forebay_error* error) {
  return error == nullptr ? "there is no error, or no memory to describe it" : error->message.c_str();
}
forebay_status forebay_error_status(const forebay_error* error) {
  return error == nullptr ? FOREBAY_OK : error->status;
}
// Null is allowed, as in free().
void forebay_error_free(forebay_error* error) { delete error; }
void forebay_text_free(char* text) { std::free(text); }
