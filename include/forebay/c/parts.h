#ifndef FOREBAY_C_PARTS_H
#define FOREBAY_C_PARTS_H

// NOLINTBEGIN(modernize-*): it is C

#include <forebay/c/batch.h>

// Part of <forebay/forebay.h>: the parts that a program may supply itself, as structs of callbacks.
//
// A callback receives the `context` of its struct. It must return normally: it must not throw, longjmp, end the thread,
// or call the feeder, except for forebay_feeder_request_stop(). Callbacks that can fail return FOREBAY_OK or an error
// code, and may write the reason to `message`, which has FOREBAY_MESSAGE_SIZE bytes and is initially empty.

#ifdef __cplusplus
extern "C" {
#endif

// ---- a dataset

enum forebay_encoding {
  FOREBAY_ENCODED_IMAGE = 0,  // an image file: a JPEG, a PNG or any other kind in docs/data.md
  FOREBAY_RAW_PIXELS = 1      // width * height * channels bytes, rows from the top
};

// What is known about a sample without reading it. The library presets all members to those of an unlabelled image
// file.
typedef struct forebay_sample {
  size_t struct_size;     // set by the library, to the size in its version
  int64_t label;          // index into forebay_dataset::classes; -1 = unlabelled
  int32_t encoding;       // forebay_encoding
  int32_t width, height;  // raw pixels: the image's size; image: the size that its box refers to, or 0
  int32_t channels;       // raw pixels: 1 or 3
  bool planar;            // raw pixels: one channel after the other
  bool bgr;               // raw pixels: the first of three channels is blue
  bool has_box;           // only this region is served; right and bottom are just past it
  int32_t left, top, right, bottom;
  int32_t reserved;  // 0
} forebay_sample;

// Where a read stores its bytes.
typedef struct forebay_target forebay_target;
// Returns memory for exactly this many bytes, which the callback then fills. Called once in each read. May wait for
// memory. If it returns null, the read must end: return any error. The memory is valid until the callback returns.
FOREBAY_API void* forebay_target_reserve(forebay_target* target, size_t bytes);

// A dataset of the program's own, which must be equal on all ranks. The library copies the struct and the strings in
// it. Callbacks run on many threads concurrently, possibly twice for the same sample.
typedef struct forebay_dataset {
  size_t struct_size;
  void* context;
  const char* name;  // a word for use in messages; null: "callbacks"
  uint64_t size;     // samples; 1 or more
  const char* const* classes;
  size_t class_count;
  // Bytes that identify this set of samples and their numbering. They are compared, with `name`, `size` and `classes`,
  // between ranks and with saved states.
  const void* identity;
  size_t identity_size;
  // Describes a sample. Null: all samples are unlabelled image files.
  forebay_status (*sample)(void* context, uint64_t id, forebay_sample* sample, char* message);
  // Reads a sample. After FOREBAY_ERROR_TRANSIENT it is called again later; any other error makes it a bad sample.
  forebay_status (*read)(void* context, uint64_t id, forebay_target* target, char* message);
  // The fields besides image and label; null: none. Their shapes are those of a dataset (forebay/field.hpp); is_ragged
  // is derived from the kind. read_field() reads one of them, by its index in `fields`, as read() reads the image;
  // Dataset::read_field() in forebay/dataset.hpp defines the bytes.
  const forebay_field* fields;
  size_t field_count;
  forebay_status (*read_field)(void* context, uint64_t id, size_t field, forebay_target* target, char* message);
  // Writes a sample's path or other name, for logs and errors, to `name`, which has FOREBAY_MESSAGE_SIZE bytes. Null:
  // samples go by their numbers.
  void (*name_of)(void* context, uint64_t id, char* name);
  // Called once for each forebay_feeder_new(), after all other callbacks and on any thread, even if
  // that call fails, unless it fails with FOREBAY_ERROR_ARGUMENT: then nothing was taken over. May
  // be null.
  void (*destroy)(void* context);
} forebay_dataset;

// ---- a policy

// The inputs of a policy; forebay/policy.hpp explains the numbers.
typedef struct forebay_signals {
  size_t struct_size;  // set by the library
  uint64_t step;       // steps served so far
  uint32_t depth;      // batches ready now
  uint32_t capacity;   // batches that may be ready; can rise if queue.capacity = "auto"
  uint64_t uses;       // how often the batch that a reuse would serve was served; 0 = no such batch
  uint64_t produced;   // batches made since the start
  double now_s;        // seconds since the first step
  double blocked_s;    // seconds of it in which a full queue blocked the producer
  double waited_s;     // seconds already spent waiting in this step
} forebay_signals;

enum forebay_decision {
  FOREBAY_FRESH = 0,  // serve the next batch, and wait for it if the queue is empty
  FOREBAY_REUSE = 1,  // serve a resident batch again
  FOREBAY_WAIT = 2    // wait briefly, then ask again
};

// A policy of the program's own, used if policy.name is its name. Called on the feeder's thread.
typedef struct forebay_policy {
  size_t struct_size;
  void* context;
  const char* name;
  // Returns a forebay_decision. Any other value is an error and ends the run.
  int32_t (*decide)(void* context, const forebay_signals* signals);
  // Told once per step what was finally served. May be null.
  void (*served)(void* context, int32_t decision, const forebay_signals* signals);
  void (*destroy)(void* context);  // as in forebay_dataset
} forebay_policy;

// ---- the ranks of a job

// Passed to callbacks that wait for other ranks. While they wait they must call look(context) about every 50 us; when
// it returns true they must stop waiting and return FOREBAY_ERROR_INTERRUPTED.
typedef struct forebay_waiting {
  size_t struct_size;  // set by the library
  void* context;
  bool (*look)(void* context);
} forebay_waiting;

// Carries the traffic between the ranks of a job. forebay_mpi_communicator() fills one in, or a program brings its own.
// forebay_feeder_new() works on duplicates: the struct need not outlive that call, but the caller's context must
// outlive all duplicates. All callbacks run on one thread, the feeder's. All ranks make the calls marked collective in
// the same order.
typedef struct forebay_communicator {
  size_t struct_size;
  void* context;
  uint32_t rank;
  uint32_t size;
  // Collective: the context of a communicator over the same ranks whose traffic is kept apart from this one's.
  forebay_status (*duplicate)(void* context, void** duplicate, char* message);
  // Destroys a context that duplicate() returned. If close() was not called before, it must not wait for other ranks.
  void (*destroy)(void* context);
  // Starts a reduction over all ranks, element by element and in place: the last `minima` values become the minimum,
  // those before them the sum. `values` stays valid until test() reports completion, or until close(). There are 17
  // channels, numbered from 0, with at most one open operation each. Collective: all ranks call in the same order.
  // Never blocks.
  forebay_status (*start_reduction)(void* context, uint32_t channel, int64_t* values, size_t count, size_t minima,
                                    char* message);
  // Sets *done to whether the channel's reduction is complete, or true if none is open. Never blocks.
  forebay_status (*test)(void* context, uint32_t channel, bool* done, char* message);
  // Collective, blocking: copies the root's bytes to every rank. All ranks pass the same size.
  forebay_status (*broadcast)(void* context, void* bytes, size_t size, uint32_t root, char* message);
  // Collective, blocking: gathers `size` bytes of every rank in `all`, in rank order. All ranks pass the same size. Not
  // called again after an error.
  forebay_status (*all_gather)(void* context, const void* mine, size_t size, void* all, const forebay_waiting* waiting,
                               char* message);
  // Collective, blocking: allocates memory shared by the ranks of this node, initially zero; release_shared() frees it.
  // Null: every rank is on a node of its own.
  forebay_status (*share_on_node)(void* context, size_t bytes, void** memory, char* message);
  void (*release_shared)(void* context, void* memory, size_t bytes);
  // Sends a message to every other rank, in the order of the calls. Never blocks.
  forebay_status (*tell)(void* context, const void* text, size_t size, char* message);
  // The next message that has arrived from another rank: its sender *from, and *text of *size bytes, which stays valid
  // until the next call; *text is null if there is none. Never blocks. Also called from within look().
  forebay_status (*listen)(void* context, uint32_t* from, const void** text, size_t* size, char* message);
  // Collective: ends all open operations and receives outstanding messages. *closed: whether the other ranks arrived
  // within timeout_s; if not, it may be called again. Afterwards only destroy() is called.
  forebay_status (*close)(void* context, double timeout_s, bool* closed, const forebay_waiting* waiting, char* message);
  // Called if other ranks are waiting for this one and cannot be told. May end the job, with this cause. May be null.
  void (*abort)(void* context, const char* cause);
} forebay_communicator;

// ---- logging

enum forebay_log_level { FOREBAY_LOG_INFO = 0, FOREBAY_LOG_WARNING = 1, FOREBAY_LOG_ERROR = 2 };

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-*)

#endif
