#define _XOPEN_SOURCE 700
#include <sys/wait.h>
#include <unistd.h>

#include "c_support.h"

// A fork of a program with a feeder: it hears that the feeder is not its own, and the parent's run continues.

static void check_refused(forebay_feeder* feeder, forebay_batch* held, const Pictures* pictures) {
  forebay_batch* batch = NULL;
  char* text = NULL;
  CHECK_FAILS(forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &batch, &error), FOREBAY_ERROR, "fork");
  CHECK_FAILS(forebay_feeder_next_epoch(feeder, &error), FOREBAY_ERROR, "fork");
  CHECK_FAILS(forebay_feeder_state(feeder, &text, NULL, &error), FOREBAY_ERROR, "fork");
  CHECK_FAILS(forebay_feeder_save(feeder, "never-written", &error), FOREBAY_ERROR, "fork");
  CHECK_FAILS(forebay_feeder_summary(feeder, &text, &error), FOREBAY_ERROR, "fork");
  CHECK_FAILS(forebay_feeder_close(feeder, &error), FOREBAY_ERROR, "fork");
  CHECK(batch == NULL && text == NULL);
  CHECK(forebay_batch_ids(held)[0] == 0 && forebay_feeder_steps(feeder) == 1);
  forebay_batch_release(held);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_ERROR && pictures->destroyed == 0);
}

void test_forks(void) {
  Pictures pictures;
  forebay_dataset dataset;
  forebay_feeder_options options;
  forebay_feeder* feeder = NULL;
  forebay_batch* batch = NULL;
  pid_t child = 0;
  int status = -1;
  int steps = 1;
  pictures_begin(&pictures);
  dataset = dataset_of(&pictures, 40);
  options = options_of(&dataset);
  feeder = feeder_of(&options);
  batch = next_of(feeder);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    const int before = failed_checks;
    alarm(60);  // what waits for a thread that is not there
    check_refused(feeder, batch, &pictures);
    fflush(stderr);
    _exit(failed_checks == before ? 0 : 1);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(forebay_batch_ids(batch)[0] == 0);
  forebay_batch_release(batch);
  for (; (batch = next_of(feeder)) != NULL; ++steps) forebay_batch_release(batch);
  CHECK(steps == 10);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK && pictures.destroyed == 1);
  pictures_end(&pictures);
}
