#ifndef FOREBAY_TESTS_C_SUPPORT_H
#define FOREBAY_TESTS_C_SUPPORT_H

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <forebay/forebay.h>

// What the tests of the C interface share. They are written in C themselves, so they have their own
// checks.

extern int failed_checks;

#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) {                                                      \
      fprintf(stderr, "%s:%d: CHECK(%s)\n", __FILE__, __LINE__, #condition); \
      ++failed_checks;                                                       \
    }                                                                        \
  } while (0)

// `call` takes &error as its last argument and must succeed.
#define CHECK_OK(call)                                                                               \
  do {                                                                                               \
    forebay_error* error = NULL;                                                                     \
    const forebay_status status = (call);                                                            \
    if (status != FOREBAY_OK || error != NULL) {                                                     \
      fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, forebay_status_name(status), \
              forebay_error_message(error));                                                         \
      ++failed_checks;                                                                               \
    }                                                                                                \
    forebay_error_free(error);                                                                       \
  } while (0)

// `call` must fail with this code and a message that contains `words`.
#define CHECK_FAILS(call, code, words)                                                          \
  do {                                                                                          \
    forebay_error* error = NULL;                                                                \
    const forebay_status status = (call);                                                       \
    if (status != (code) || forebay_error_status(error) != (code) ||                            \
        strstr(forebay_error_message(error), (words)) == NULL) {                                \
      fprintf(stderr, "%s:%d: %s: %s: %s\n  and not %s: ...%s...\n", __FILE__, __LINE__, #call, \
              forebay_status_name(status), forebay_error_message(error), #code, (words));       \
      ++failed_checks;                                                                          \
    }                                                                                           \
    forebay_error_free(error);                                                                  \
  } while (0)

enum { kSide = 4, kPixels = kSide * kSide };

// Samples of 4 x 4 grey pixels that depend on the sample's number: pixel i of sample s is (7 s + i)
// mod 256, and its class is s mod 10.
typedef struct Pictures {
  pthread_mutex_t mutex;
  pthread_cond_t opened;
  long permits;            // how many reads may begin; further ones wait, but not for ever
  unsigned long begun;     // reads, including those that wait
  uint64_t bad;            // this sample always fails ...
  uint64_t flaky;          // ... and this one fails once
  uint64_t without_room;   // reading this one forgets to ask for room
  uint64_t odd;            // describing this one fails
  uint64_t without_field;  // no field of this one can be read
  unsigned long failures_of_flaky;
  int destroyed;
} Pictures;

#define kNobody UINT32_MAX

void pictures_begin(Pictures* pictures);
void pictures_open(Pictures* pictures, long permits);
unsigned long pictures_begun(Pictures* pictures);
void pictures_end(Pictures* pictures);
unsigned char pixel_of(uint64_t id, size_t i);
forebay_dataset dataset_of(Pictures* pictures, uint64_t size);

// Counts the log lines that contain `words`, from any thread.
typedef struct Lines {
  pthread_mutex_t mutex;
  const char* words;
  int found;
} Lines;
void lines_begin(Lines* lines, const char* words);
int lines_found(Lines* lines);
void lines_look(void* context, int32_t level, const char* text);

// Batches of 4 such samples: bytes as they are, in order unless `more` says otherwise.
extern const char* const kPlain;
forebay_feeder_options options_of(const forebay_dataset* dataset);
// Makes a feeder with these options. Returns null, with a failed check, if that fails.
forebay_feeder* feeder_of(const forebay_feeder_options* options);
// The next batch, or null at the end. Anything else is a failed check.
forebay_batch* next_of(forebay_feeder* feeder);

// The test suites.
void test_arguments(void);
void test_batches(void);
void test_tensors_for_others(void);
void test_datasets(void);
void test_policies(void);
void test_communicators(void);
void test_waits(void);
void test_endless_read(void);
void test_forks(void);
void test_states(void);

#endif
