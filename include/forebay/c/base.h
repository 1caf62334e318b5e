#ifndef FOREBAY_C_BASE_H
#define FOREBAY_C_BASE_H

// NOLINTBEGIN(modernize-*): it is C

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Part of <forebay/forebay.h>: version, status codes and errors.

#ifdef __GNUC__
#define FOREBAY_API __attribute__((visibility("default")))
#else
#define FOREBAY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// The version of this interface, which is independent of Forebay's.
//
// Compatibility: a program compiled with (major, minor) runs with every library of the same major and the same or a
// later minor version. A minor version adds functions, constants, and members at the end of structs; it never removes
// or changes any. The major version is in the library's name: libforebay_c.so.1.
#define FOREBAY_C_VERSION_MAJOR 1
#define FOREBAY_C_VERSION_MINOR 0
#define FOREBAY_C_VERSION (FOREBAY_C_VERSION_MAJOR * 1000 + FOREBAY_C_VERSION_MINOR)

// FOREBAY_C_VERSION of the loaded library. Any thread.
FOREBAY_API int32_t forebay_c_version(void);
// The version of Forebay, as "0.1.0". Any thread; the text lives as long as the library.
FOREBAY_API const char* forebay_version(void);

// Structs that cross this interface begin with `struct_size`, which the caller sets to sizeof(the struct), so that the
// library knows which members the caller's version has. Zero-initialise them, as in
//
//   forebay_tensor tensor = {.struct_size = sizeof tensor};
//
// A forebay_view comes in arrays; its size is passed beside them.
//
// A member that is zero has its default. A struct that is smaller than in version 1.0 is refused, and so is one with
// members that the library does not know, unless they are zero. Where the library fills in a struct, it writes only the
// members that fit.

// The result of a function. Negative: it failed. Later versions may add codes.
typedef int32_t forebay_status;
enum {
  FOREBAY_OK = 0,
  FOREBAY_END_OF_EPOCH = 1,        // no more batches in this epoch: call forebay_feeder_next_epoch()
  FOREBAY_END_OF_RUN = 2,          // no more batches: of the epochs, of the steps, or after a stop
  FOREBAY_NOT_READY = 3,           // no batch within the given time
  FOREBAY_ERROR = -1,              // none of the errors below; the message says what is wrong
  FOREBAY_ERROR_ARGUMENT = -2,     // a mistake in the call itself (null, a wrong struct_size, ...); nothing was done
  FOREBAY_ERROR_CONFIG = -3,       // a configuration that cannot be honoured
  FOREBAY_ERROR_SAMPLE = -4,       // a sample that cannot be served
  FOREBAY_ERROR_TRANSIENT = -5,    // the same, but the read may succeed later; callbacks return it to be called again
  FOREBAY_ERROR_WATCHDOG = -6,     // no fresh batch, or no other rank, for policy.watchdog_s
  FOREBAY_ERROR_BUSY = -7,         // another thread, or a callback, called a feeder that is inside a call
  FOREBAY_ERROR_INTERRUPTED = -8,  // while_waiting returned true
  FOREBAY_ERROR_MEMORY = -9        // out of memory
};

// The name of a code, such as "FOREBAY_ERROR_CONFIG"; "?" for an unknown code. Any thread; never null.
FOREBAY_API const char* forebay_status_name(forebay_status status);

// Why a function failed. Functions that can fail take `forebay_error** error` as their last parameter. It may be null.
// Otherwise the function sets *error to null if it succeeds (a status of 0 or more) and to a new object if it fails,
// which the caller frees with forebay_error_free(). The previous value of *error is ignored. Errors are kept nowhere
// else, so threads never see each other's.
typedef struct forebay_error forebay_error;

// What was wrong, where, and what to do: UTF-8, except for file names, whose bytes are kept. Lives as long as the
// object. For a null `error` the text says that there is no error, or was no memory to describe it. Never null.
FOREBAY_API const char* forebay_error_message(const forebay_error* error);
// The status that the function returned; FOREBAY_OK for null.
FOREBAY_API forebay_status forebay_error_status(const forebay_error* error);
// Null is allowed. Any thread.
FOREBAY_API void forebay_error_free(forebay_error* error);

// Frees a text that a function returned. Null is allowed. Any thread.
FOREBAY_API void forebay_text_free(char* text);

// How many bytes a callback may write to its `message`: what went wrong, as a NUL-terminated string.
#define FOREBAY_MESSAGE_SIZE 1024

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-*)

#endif
