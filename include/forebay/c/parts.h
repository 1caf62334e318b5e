#ifndef FOREBAY_C_PARTS_H
#define FOREBAY_C_PARTS_H

// NOLINTBEGIN(modernize-*): it is C

#include <forebay/c/batch.h>

// Part of <forebay/forebay.h>: what a program may bring itself, as structs of callbacks.
//
// A callback gets the `context` that stands beside it. It returns normally: it must not throw, longjmp, end the thread,
// or call the feeder, except forebay_feeder_request_stop(). Those that can fail return FOREBAY_OK or an error code, and
// may write why to `message`, which has FOREBAY_MESSAGE_SIZE bytes and is empty at first.

#ifdef __cplusplus
extern "C" {
#endif

// ---- a dataset

enum forebay_encoding {
  FOREBAY_ENCODED_IMAGE = 0,  // an image file: a JPEG, a PNG or any other kind in docs/data.md
  FOREBAY_RAW_PIXELS = 1      // width * height * channels bytes, rows from the top
};

// What is known of a sample without reading it. The library has set every member to what an unlabelled image file has.
typedef struct forebay_sample {
  size_t struct_size;     // set by the library: that of its version
  int64_t label;          // index into forebay_dataset::classes; -1 = unlabelled
  int32_t encoding;       // forebay_encoding
  int32_t width, height;  // raw pixels: their number; image: what its box is of, or 0
  int32_t channels;       // raw pixels: 1 or 3
  bool planar;            // raw pixels: one channel after the other
  bool bgr;               // raw pixels: the first of three channels is blue
  bool has_box;           // only this region is served; right and bottom are just past it
  int32_t left, top, right, bottom;
  int32_t reserved;  // 0
} forebay_sample;

// Where a read puts its bytes.
typedef struct forebay_target forebay_target;
// Room for that many bytes, which the callback then fills; called once in each read, with their exact number. May wait
// for room. Null: the read must end, so return any error. The memory is valid until the callback returns.
FOREBAY_API void* forebay_target_reserve(forebay_target* target, size_t bytes);

// A dataset of the program's own; it must be equal on all ranks. The library copies the struct and the texts in it.
// Callbacks run on many threads at once, also twice at once for the same sample.
typedef struct forebay_dataset {
  size_t struct_size;
  void* context;
  const char* name;  // a word for messages; null: "callbacks"
  uint64_t size;     // samples; 1 or more
  const char* const* classes;
  size_t class_count;
  // What distinguishes these samples from others, and decides which one a number stands for. Saved states and ranks are
  // compared by it, by `name`, `size` and `classes`.
  const void* identity;
  size_t identity_size;
  // Describes a sample. Null: all are unlabelled image files.
  forebay_status (*sample)(void* context, uint64_t id, forebay_sample* sample, char* message);
  // Reads a sample. FOREBAY_ERROR_TRANSIENT: it is asked again, later; any other error: a bad sample.
  forebay_status (*read)(void* context, uint64_t id, forebay_target* target, char* message);
  // What samples have beside image and label; null: nothing. Shapes are as forebay/field.hpp says for datasets,
  // is_ragged follows from the kind. read_field() reads one of them, by its number in `fields`, as read() reads the
  // image; Dataset::read_field() in forebay/dataset.hpp says what the bytes are.
  const forebay_field* fields;
  size_t field_count;
  forebay_status (*read_field)(void* context, uint64_t id, size_t field, forebay_target* target, char* message);
  // Writes a sample's path or other name for logs and errors to `name`, FOREBAY_MESSAGE_SIZE bytes. Null: its number.
  void (*name_of)(void* context, uint64_t id, char* name);
  // Called once for each forebay_feeder_new(), after everything else and on any thread, also when that fails, unless
  // with FOREBAY_ERROR_ARGUMENT: then nothing was taken. May be null.
  void (*destroy)(void* context);
} forebay_dataset;

// ---- a policy

// What a policy may know; forebay/policy.hpp explains the numbers.
typedef struct forebay_signals {
  size_t struct_size;  // set by the library
  uint64_t step;       // steps served so far
  uint32_t depth;      // batches ready now
  uint32_t capacity;   // batches that may be ready; with queue.capacity = "auto" more may be later
  uint64_t uses;       // how often the batch that a reuse would serve was served; 0 = there is none
  uint64_t produced;   // batches made since the start
  double now_s;        // seconds since the first step
  double blocked_s;    // part of it in which a full queue blocked the producer
  double waited_s;     // seconds already spent waiting in this step
} forebay_signals;

enum forebay_decision {
  FOREBAY_FRESH = 0,  // serve the next batch, and wait for it if the queue is empty
  FOREBAY_REUSE = 1,  // serve a resident batch again
  FOREBAY_WAIT = 2    // wait briefly, then ask again
};

// A policy of the program's own, in effect where policy.name is its name. Called on the feeder's thread.
typedef struct forebay_policy {
  size_t struct_size;
  void* context;
  const char* name;
  // Returns a forebay_decision. Anything else is an error, which ends the run.
  int32_t (*decide)(void* context, const forebay_signals* signals);
  // What was served in the end, once per step. May be null.
  void (*served)(void* context, int32_t decision, const forebay_signals* signals);
  void (*destroy)(void* context);  // as of a forebay_dataset
} forebay_policy;

// ---- the ranks of a job

// Handed to callbacks that wait for other ranks. They call look(context) again and again while they wait, about every
// 50 us, and stop waiting and return FOREBAY_ERROR_INTERRUPTED when it returns true.
typedef struct forebay_waiting {
  size_t struct_size;  // set by the library
  void* context;
  bool (*look)(void* context);
} forebay_waiting;

// Carries the traffic between the ranks of a job: forebay_mpi_communicator() fills one in, or a program brings its own.
// forebay_feeder_new() works on duplicates. The struct need not outlive it, the caller's context must outlive all
// duplicates. One thread calls everything: the feeder's. All ranks make the calls marked collective in the same order.
typedef struct forebay_communicator {
  size_t struct_size;
  void* context;
  uint32_t rank;
  uint32_t size;
  // Collective: the context of a communicator of the same ranks, whose traffic cannot meet this one's.
  forebay_status (*duplicate)(void* context, void** duplicate, char* message);
  // Ends a context that duplicate() returned; without close() before it, it must not wait for other ranks.
  void (*destroy)(void* context);
  // Starts a reduction over all ranks, element by element and in place: the last `minima` values become the minimum,
  // those before them the sum. `values` stay valid until test() says that it is done, or close(). There are 17
  // channels, from 0, with one operation each. Collective in the order of the calls; never blocks.
  forebay_status (*start_reduction)(void* context, uint32_t channel, int64_t* values, size_t count, size_t minima,
                                    char* message);
  // *done: the channel's reduction is complete, or there is none. Never blocks.
  forebay_status (*test)(void* context, uint32_t channel, bool* done, char* message);
  // Collective, blocking: the root's bytes on every rank. All give the same size.
  forebay_status (*broadcast)(void* context, void* bytes, size_t size, uint32_t root, char* message);
  // Collective, blocking: `size` bytes of every rank, by rank, to `all`. All give the same size. After an error it is
  // not called again.
  forebay_status (*all_gather)(void* context, const void* mine, size_t size, void* all, const forebay_waiting* waiting,
                               char* message);
  // Collective, blocking: memory that the ranks of this node share, zero at first. release_shared() ends it. Null:
  // every rank is on a node of its own.
  forebay_status (*share_on_node)(void* context, size_t bytes, void** memory, char* message);
  void (*release_shared)(void* context, void* memory, size_t bytes);
  // Sends a message to every other rank, in the order of the calls. Never blocks.
  forebay_status (*tell)(void* context, const void* text, size_t size, char* message);
  // The next message of another rank that has arrived: *from, and *text of *size bytes, which stay valid until the next
  // call; *text is null if there is none. Never blocks. Also called by look().
  forebay_status (*listen)(void* context, uint32_t* from, const void** text, size_t* size, char* message);
  // Collective: ends all open operations and receives what was sent. *closed: the other ranks came within timeout_s;
  // otherwise it may be called again. Afterwards only destroy() is called.
  forebay_status (*close)(void* context, double timeout_s, bool* closed, const forebay_waiting* waiting, char* message);
  // Other ranks wait for this one and cannot be told. The job may be ended here, with this cause. May be null.
  void (*abort)(void* context, const char* cause);
} forebay_communicator;

// ---- lines for people

enum forebay_log_level { FOREBAY_LOG_INFO = 0, FOREBAY_LOG_WARNING = 1, FOREBAY_LOG_ERROR = 2 };

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-*)

#endif
