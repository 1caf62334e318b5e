#define _XOPEN_SOURCE 700
#include "c_support.h"

#include <time.h>

// Waits that end early: through a timeout, the program's hook, or a request to stop. And calls from
// within callbacks.

// What the hook that is called during waits does.
typedef struct Hook {
  Pictures* pictures;
  forebay_feeder* feeder;
  int calls;
  int interrupts_at;  // the call that ends the wait
  int opens_at;       // the call that lets reads through
  forebay_status inside;
  forebay_status ended;
} Hook;

static bool look(void* context) {
  Hook* const hook = context;
  forebay_batch* batch = NULL;
  ++hook->calls;
  if (hook->calls == hook->opens_at) pictures_open(hook->pictures, 1000000);
  if (hook->feeder != NULL) {
    hook->inside = forebay_feeder_next(hook->feeder, FOREBAY_NO_TIMEOUT, NULL, &batch, NULL);
    hook->ended = forebay_feeder_free(hook->feeder);
  }
  return hook->calls == hook->interrupts_at;
}

// A feeder that delivers its first batch and no other.
static forebay_feeder* waiting_feeder(Pictures* pictures, Hook* hook, const forebay_dataset* dataset) {
  forebay_feeder_options options = options_of(dataset);
  const char* setting = "queue.capacity=1";
  forebay_feeder* feeder = NULL;
  forebay_batch* batch = NULL;
  pictures->permits = 4;
  options.settings = &setting;
  options.setting_count = 1;
  options.while_waiting = look;
  options.waiting_context = hook;
  feeder = feeder_of(&options);
  batch = next_of(feeder);
  CHECK(forebay_batch_step(batch) == 0);
  forebay_batch_release(batch);
  return feeder;
}

static void test_timeout(void) {
  Pictures pictures;
  forebay_dataset dataset;
  Hook hook = {.pictures = &pictures};
  forebay_feeder* feeder = NULL;
  forebay_batch* batch = (forebay_batch*)&hook;
  pictures_begin(&pictures);
  dataset = dataset_of(&pictures, 40);
  feeder = waiting_feeder(&pictures, &hook, &dataset);
  for (int i = 0; i < 3; ++i) {
    forebay_error* error = NULL;
    CHECK(forebay_feeder_next(feeder, i == 0 ? 0 : 0.01, NULL, &batch, &error) == FOREBAY_NOT_READY);
    CHECK(batch == NULL && error == NULL);
  }
  CHECK(forebay_feeder_steps(feeder) == 1);
  pictures_open(&pictures, 1000000);
  CHECK(forebay_feeder_next(feeder, 60, NULL, &batch, NULL) == FOREBAY_OK);
  CHECK(forebay_batch_step(batch) == 1 && forebay_batch_ids(batch)[0] == 4);
  forebay_batch_release(batch);
  CHECK(forebay_feeder_next(feeder, 1e300, NULL, &batch, NULL) == FOREBAY_OK);
  forebay_batch_release(batch);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
  pictures_end(&pictures);
}

static void test_interrupts(void) {
  Pictures pictures;
  forebay_dataset dataset;
  forebay_feeder_options options;
  Hook hook = {.pictures = &pictures};
  forebay_feeder* feeder = NULL;
  forebay_batch* batch = NULL;
  unsigned long begun = 0;
  pictures_begin(&pictures);
  dataset = dataset_of(&pictures, 40);
  feeder = waiting_feeder(&pictures, &hook, &dataset);
  hook.feeder = feeder;
  hook.interrupts_at = hook.calls + 2;
  CHECK_FAILS(forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &batch, &error), FOREBAY_ERROR_INTERRUPTED,
              "while_waiting");
  CHECK(hook.inside == FOREBAY_ERROR_BUSY && hook.ended == FOREBAY_ERROR_BUSY);
  hook.opens_at = hook.calls + 1;
  batch = next_of(feeder);  // the same step as before
  CHECK(forebay_batch_step(batch) == 1 && forebay_batch_ids(batch)[0] == 4);
  forebay_batch_release(batch);
  hook.feeder = NULL;
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);

  // Waits while closing, because a read is under way.
  memset(&hook, 0, sizeof hook);
  hook.pictures = &pictures;
  begun = pictures_begun(&pictures);
  feeder = waiting_feeder(&pictures, &hook, &dataset);
  for (int i = 0; i < 6000 && pictures_begun(&pictures) == begun + 4; ++i) {
    CHECK(forebay_feeder_next(feeder, 0.01, NULL, &batch, NULL) == FOREBAY_NOT_READY);
  }
  hook.interrupts_at = hook.calls + 1;
  CHECK_FAILS(forebay_feeder_close(feeder, &error), FOREBAY_ERROR_INTERRUPTED, "while_waiting");
  CHECK(forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &batch, NULL) == FOREBAY_END_OF_RUN);
  hook.opens_at = hook.calls + 1;
  CHECK_OK(forebay_feeder_close(feeder, &error));
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);

  // Waits while the feeder is made, because nothing is read.
  memset(&hook, 0, sizeof hook);
  hook.pictures = &pictures;
  hook.interrupts_at = 1;
  pictures.permits = 0;
  options = options_of(&dataset);
  options.while_waiting = look;
  options.waiting_context = &hook;
  hook.opens_at = 1;  // then the reads in progress can end
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_INTERRUPTED, "while_waiting");
  CHECK(feeder == NULL && hook.calls == 1 && pictures.destroyed == 3);
  pictures_end(&pictures);
}

static void* stop_it(void* feeder) {
  forebay_feeder_request_stop(feeder);
  return NULL;
}

static void test_stop(void) {
  Pictures pictures;
  forebay_dataset dataset;
  forebay_feeder_options options;
  forebay_feeder* feeder = NULL;
  forebay_batch* batch = NULL;
  pthread_t thread;
  int steps = 0;
  pictures_begin(&pictures);
  dataset = dataset_of(&pictures, 400);
  options = options_of(&dataset);
  feeder = feeder_of(&options);
  CHECK(!forebay_feeder_was_stopped(feeder));
  CHECK(pthread_create(&thread, NULL, stop_it, feeder) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  for (; (batch = next_of(feeder)) != NULL; ++steps) forebay_batch_release(batch);
  CHECK(steps < 10 && forebay_feeder_was_stopped(feeder));
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
  pictures_end(&pictures);
}

void test_waits(void) {
  test_timeout();
  test_interrupts();
  test_stop();
}

// A read that never returns holds up no call: its thread is left behind, and the dataset, which it
// uses, is not destroyed.
void test_endless_read(void) {
  static Pictures pictures;  // the thread uses it until the program ends
  static Lines lines;
  const char* const settings[] = {"queue.capacity=1", "workers.hedge=off"};
  forebay_dataset dataset;
  forebay_feeder_options options;
  forebay_feeder* feeder = NULL;
  forebay_batch* batch = NULL;
  struct timespec before;
  struct timespec after;
  pictures_begin(&pictures);
  lines_begin(&lines, "left behind");
  pictures.permits = 4;
  dataset = dataset_of(&pictures, 40);
  options = options_of(&dataset);
  options.settings = settings;
  options.setting_count = 2;
  options.log = lines_look;
  options.log_context = &lines;
  feeder = feeder_of(&options);
  forebay_batch_release(next_of(feeder));
  for (int i = 0; i < 6000 && pictures_begun(&pictures) == 4; ++i) {
    CHECK(forebay_feeder_next(feeder, 0.01, NULL, &batch, NULL) == FOREBAY_NOT_READY);
  }
  clock_gettime(CLOCK_MONOTONIC, &before);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
  clock_gettime(CLOCK_MONOTONIC, &after);
  CHECK(after.tv_sec - before.tv_sec < 40);
  CHECK(lines_found(&lines) >= 1);
  CHECK(pictures.destroyed == 0);
}
