#ifndef FOREBAY_FOREBAY_H
#define FOREBAY_FOREBAY_H

// Forebay for C, and for every language that can call C: link libforebay_c (forebay::c, pkg-config forebay-c).
// docs/c-interface.md shows it in use. C99; nothing but this header and those of forebay/c/ is needed.
//
// Handles are opaque and owned by whoever created them. Strings passed in are NUL-terminated and copied. No exception
// leaves a function, and no function keeps state outside its handles.

#include <forebay/c/base.h>
#include <forebay/c/batch.h>
#include <forebay/c/parts.h>

// NOLINTBEGIN(modernize-*): it is C

#ifdef __cplusplus
extern "C" {
#endif

// The options of a feeder. With everything but struct_size zero they are the defaults. The contexts of the two
// callbacks must outlive the feeder; everything else need only live until the call returns.
typedef struct forebay_feeder_options {
  size_t struct_size;
  const char* file;             // a TOML file, or
  const char* text;             // the same as a string; null: the defaults
  const char* const* settings;  // "section.key=value", applied on top, in order
  size_t setting_count;
  const forebay_communicator* communicator;  // the ranks of the job; null: a single rank
  bool is_solo;  // this process is a job of its own although a launcher started several; only without a communicator
  const forebay_dataset* dataset;  // null: dataset.path
  const forebay_policy* policy;    // null: one of Forebay's
  const char* resume;              // a state file from which the job resumes if rank 0 finds it; null: none
  const char* trace;  // where forebay_feeder_close() writes a trace of the threads (docs/telemetry.md); null: nowhere
  double trace_s;     // how many seconds from the start it covers; 0 = 10
  // Called on the feeder's thread about every 5 ms while forebay_feeder_new() waits for the index or the first batch,
  // forebay_feeder_next() for a batch and, with one rank, forebay_feeder_close() for reads in progress, so that an
  // interpreter can handle signals. If it returns true, the wait ends with FOREBAY_ERROR_INTERRUPTED. With one rank
  // forebay_feeder_next() may then be called again and resumes the same step, and forebay_feeder_close() must be called
  // again; with several, the run ends on all ranks. forebay_feeder_free() does not call it. Null: none.
  bool (*while_waiting)(void* context);
  void* waiting_context;
  // Receives log lines in place of standard error: UTF-8, without newline. `level`: forebay_log_level. Called on any
  // thread, one call at a time. Null: standard error.
  void (*log)(void* context, int32_t level, const char* text);
  void* log_context;
} forebay_feeder_options;

// Reads, decodes and assembles batches on threads of its own. One thread at a time may use a feeder, except for
// forebay_feeder_request_stop(); with several ranks it must always be the same one, which makes the communicator's
// calls. A call during another one fails with FOREBAY_ERROR_BUSY. A feeder does not survive fork(): in the child,
// functions that may wait for its threads fail with FOREBAY_ERROR, forebay_feeder_free() included, which leaves
// everything as it is. Batches may be released there.
typedef struct forebay_feeder forebay_feeder;

// Creates a feeder and waits for the first batch. Collective with several ranks, like all functions below that say so.
// On failure *feeder is null. Fails with FOREBAY_ERROR_CONFIG (unknown keys, wrong values, no such data) or
// FOREBAY_ERROR, on all ranks alike.
FOREBAY_API forebay_status forebay_feeder_new(const forebay_feeder_options* options, forebay_feeder** feeder,
                                              forebay_error** error);
// Closes and frees the feeder; collective. Batches that are held stay valid. Null is allowed. Fails with
// FOREBAY_ERROR_BUSY, and frees nothing, while another call is in progress. An error that forebay_feeder_close() would
// return is logged.
FOREBAY_API forebay_status forebay_feeder_free(forebay_feeder* feeder);

// A value for timeout_s.
#define FOREBAY_NO_TIMEOUT (-1.0)

// The next step's batch. Collective. While a batch is ready it does not allocate, lock or enter the kernel, with the
// exceptions listed at Feeder::next() in forebay/feeder.hpp.
//   timeout_s   seconds to wait for a batch, checked about every 5 ms; negative: no limit. With several ranks it must
//               be negative, because all make the same steps: else FOREBAY_ERROR_ARGUMENT.
//   stream      the CUDA stream on which the batch will be used; null: the default stream, or no GPU.
//   batch       set to the batch, which the caller releases, or to null.
// Returns FOREBAY_OK; at the end FOREBAY_END_OF_EPOCH in a loop over epochs, FOREBAY_END_OF_RUN otherwise;
// FOREBAY_NOT_READY after the timeout, and the next call then continues the same step. Fails with FOREBAY_ERROR while
// queue.max_leases batches are held (with one rank the call may be repeated), and if the run has failed: with several
// ranks on all of them, at the same step.
FOREBAY_API forebay_status forebay_feeder_next(forebay_feeder* feeder, double timeout_s, void* stream,
                                               forebay_batch** batch, forebay_error** error);
// For a loop over epochs: begins an epoch, or continues an unfinished one, at whose end forebay_feeder_next() then
// returns FOREBAY_END_OF_EPOCH. Returns FOREBAY_END_OF_RUN if there is none. The first call precedes the first
// forebay_feeder_next(), is collective, and is made by all ranks or by none.
FOREBAY_API forebay_status forebay_feeder_next_epoch(forebay_feeder* feeder, forebay_error** error);
// Asks all ranks to stop at the same step, soon. May be called on any thread and in signal handlers, until
// forebay_feeder_free().
FOREBAY_API void forebay_feeder_request_stop(forebay_feeder* feeder);
// Stops the threads and writes all pending files; collective. Batches stay valid, and figures can still be queried. A
// second call does nothing.
FOREBAY_API forebay_status forebay_feeder_close(forebay_feeder* feeder, forebay_error** error);

// The position of the job, for checkpoints: *text is equal on all ranks and is freed with forebay_text_free(); *length
// does not count its terminating NUL, and `length` may be null. Collective, after any number of steps but not after
// forebay_feeder_close().
FOREBAY_API forebay_status forebay_feeder_state(forebay_feeder* feeder, char** text, size_t* length,
                                                forebay_error** error);
// Resumes from such a text. Collective, before the first step, with any number of ranks. Fails with
// FOREBAY_ERROR_CONFIG if it is not a state, or is the state of other data or another configuration; the feeder is then
// unchanged.
FOREBAY_API forebay_status forebay_feeder_restore_state(forebay_feeder* feeder, const char* text, size_t length,
                                                        forebay_error** error);
// The same with a file. A thread writes it, atomically; it is on disk after forebay_feeder_finish_saves() or
// forebay_feeder_close(). Collective. Also fails if an earlier save failed and that was not reported yet.
FOREBAY_API forebay_status forebay_feeder_save(forebay_feeder* feeder, const char* file, forebay_error** error);
FOREBAY_API forebay_status forebay_feeder_finish_saves(forebay_feeder* feeder, forebay_error** error);
// `was_there`: null if the file must exist; otherwise set to whether it does, and if not, the feeder is unchanged.
FOREBAY_API forebay_status forebay_feeder_restore(forebay_feeder* feeder, const char* file, bool* was_there,
                                                  forebay_error** error);

// The number of fields of a batch, 2 or more; 0 for null. Each field of boxes is followed by its classes, named
// NAME.class.
FOREBAY_API size_t forebay_feeder_field_count(const forebay_feeder* feeder);
// Describes a field; its strings live as long as the feeder.
FOREBAY_API forebay_status forebay_feeder_field(const forebay_feeder* feeder, size_t number, forebay_field* field,
                                                forebay_error** error);
// The number of the field with this name. If there is none, fails with FOREBAY_ERROR_CONFIG and lists the names.
FOREBAY_API forebay_status forebay_feeder_field_number(const forebay_feeder* feeder, const char* name, size_t* number,
                                                       forebay_error** error);

// Facts about the run; 0 for null. On the feeder's thread.
FOREBAY_API uint64_t
forebay_feeder_steps(const forebay_feeder* feeder);  // since the run began, those before a resume included
FOREBAY_API uint64_t forebay_feeder_epochs(const forebay_feeder* feeder);             // completed by the job
FOREBAY_API uint64_t forebay_feeder_batches_per_epoch(const forebay_feeder* feeder);  // over all ranks
FOREBAY_API uint64_t forebay_feeder_dataset_size(const forebay_feeder* feeder);       // samples
FOREBAY_API bool forebay_feeder_was_stopped(const forebay_feeder* feeder);  // it ended because a stop was requested

// Texts, to be freed with forebay_text_free().
FOREBAY_API forebay_status forebay_feeder_describe(forebay_feeder* feeder, char** text, forebay_error** error);
// The effective configuration, every key with its value, as TOML.
FOREBAY_API forebay_status forebay_feeder_configuration(forebay_feeder* feeder, char** toml, forebay_error** error);
// This rank's figures so far, and where its time went: JSON with the keys of docs/telemetry.md. Too slow for every
// step.
FOREBAY_API forebay_status forebay_feeder_summary(forebay_feeder* feeder, char** json, forebay_error** error);
FOREBAY_API forebay_status forebay_feeder_profile(forebay_feeder* feeder, char** json, forebay_error** error);

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-*)

#endif
