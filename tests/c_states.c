#define _XOPEN_SOURCE 700
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "c_support.h"

// A run that is stopped and resumed serves what an uninterrupted run serves.

enum { kSamples = 60, kSteps = 15, kStop = 6 };

// Records the first sample of each batch from the next step on, until `steps` steps were made.
static void follow(forebay_feeder* feeder, uint64_t* firsts, uint64_t steps) {
  while (forebay_feeder_steps(feeder) < steps) {
    forebay_batch* const batch = next_of(feeder);
    CHECK(batch != NULL);
    if (batch == NULL) return;
    firsts[forebay_batch_step(batch)] = forebay_batch_ids(batch)[0];
    forebay_batch_release(batch);
  }
}

static forebay_feeder* shuffled(const forebay_dataset* dataset, const char* resume) {
  static const char* const kSettings[] = {"dataset.shuffle=true"};
  forebay_feeder_options options = options_of(dataset);
  options.settings = kSettings;
  options.setting_count = 1;
  options.resume = resume;
  return feeder_of(&options);
}

static void check_rest(forebay_feeder* feeder, const uint64_t* whole) {
  uint64_t rest[kSteps] = {0};
  CHECK(forebay_feeder_steps(feeder) == kStop);
  follow(feeder, rest, kSteps);
  CHECK(memcmp(rest + kStop, whole + kStop, sizeof rest - kStop * sizeof *rest) == 0);
  CHECK(next_of(feeder) == NULL);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
}

// The program does not ask how the save ended, so a log line says it.
static void test_failed_save(const forebay_dataset* dataset, const char* folder) {
  forebay_feeder_options options = options_of(dataset);
  Lines lines;
  forebay_feeder* feeder = NULL;
  lines_begin(&lines, "cannot save the state to ");
  options.log = lines_look;
  options.log_context = &lines;
  feeder = feeder_of(&options);
  forebay_batch_release(next_of(feeder));
  forebay_feeder_save(feeder, folder, NULL);  // may already report the failure
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
  CHECK(lines_found(&lines) == 1);
}

void test_states(void) {
  Pictures pictures;
  forebay_dataset dataset;
  forebay_dataset other;
  forebay_feeder* feeder = NULL;
  uint64_t whole[kSteps] = {0};
  uint64_t part[kSteps] = {0};
  char folder[] = "/tmp/forebay-c-XXXXXX";
  char file[64];
  char* state = NULL;
  char* late = file;
  size_t length = 0;
  bool was_there = true;
  pictures_begin(&pictures);
  dataset = dataset_of(&pictures, kSamples);
  CHECK(mkdtemp(folder) != NULL);
  snprintf(file, sizeof file, "%s/feed.state", folder);

  feeder = shuffled(&dataset, NULL);
  follow(feeder, whole, kSteps);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);

  feeder = shuffled(&dataset, file);  // there is no state yet
  CHECK_OK(forebay_feeder_restore(feeder, file, &was_there, &error));
  CHECK(!was_there);
  CHECK_FAILS(forebay_feeder_restore(feeder, file, NULL, &error), FOREBAY_ERROR_CONFIG, "feed.state");
  CHECK_FAILS(forebay_feeder_restore(feeder, NULL, NULL, &error), FOREBAY_ERROR_ARGUMENT, "file is null");
  CHECK_FAILS(forebay_feeder_restore_state(feeder, "nonsense", 8, &error), FOREBAY_ERROR_CONFIG, "state");
  follow(feeder, part, kStop);
  CHECK(memcmp(part, whole, kStop * sizeof *part) == 0);
  CHECK_FAILS(forebay_feeder_restore(feeder, file, &was_there, &error), FOREBAY_ERROR, "");
  CHECK_FAILS(forebay_feeder_state(feeder, NULL, NULL, &error), FOREBAY_ERROR_ARGUMENT, "text is null");
  CHECK_OK(forebay_feeder_state(feeder, &state, &length, &error));
  CHECK(state != NULL && strlen(state) == length);
  CHECK_OK(forebay_feeder_save(feeder, file, &error));
  CHECK_OK(forebay_feeder_finish_saves(feeder, &error));
  CHECK_OK(forebay_feeder_close(feeder, &error));
  CHECK(forebay_feeder_state(feeder, &late, NULL, NULL) == FOREBAY_ERROR);
  CHECK(late == NULL);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);

  check_rest(shuffled(&dataset, file), whole);
  feeder = shuffled(&dataset, NULL);
  CHECK_OK(forebay_feeder_restore(feeder, file, &was_there, &error));
  CHECK(was_there);
  check_rest(feeder, whole);
  feeder = shuffled(&dataset, NULL);
  CHECK_OK(forebay_feeder_restore_state(feeder, state, length, &error));
  check_rest(feeder, whole);

  // A state of other data is refused, and the feeder serves from the beginning.
  other = dataset_of(&pictures, kSamples);
  other.identity = "Pictures";
  feeder = shuffled(&other, NULL);
  CHECK_FAILS(forebay_feeder_restore(feeder, file, NULL, &error), FOREBAY_ERROR_CONFIG, "feed.state");
  follow(feeder, part, 2);
  CHECK(memcmp(part, whole, 2 * sizeof *part) == 0);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);

  test_failed_save(&dataset, folder);
  CHECK(unlink(file) == 0 && rmdir(folder) == 0);
  forebay_text_free(state);
  pictures_end(&pictures);
}

// A program with a feeder forks. The child is told that the feeder is not its own, and the parent's
// run continues.

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
    alarm(60);  // in case it waits for a thread that does not exist
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
