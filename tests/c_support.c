#define _XOPEN_SOURCE 700
#include "c_support.h"

#include <errno.h>
#include <time.h>

int failed_checks = 0;

unsigned char pixel_of(uint64_t id, size_t i) { return (unsigned char)((id * 7 + i) & 0xff); }

void pictures_begin(Pictures* pictures) {
  memset(pictures, 0, sizeof *pictures);
  pthread_mutex_init(&pictures->mutex, NULL);
  pthread_cond_init(&pictures->opened, NULL);
  pictures->permits = 1000000;
  pictures->bad = pictures->flaky = pictures->without_room = kNobody;
  pictures->odd = pictures->without_field = kNobody;
}

void pictures_open(Pictures* pictures, long permits) {
  pthread_mutex_lock(&pictures->mutex);
  pictures->permits += permits;
  pthread_cond_broadcast(&pictures->opened);
  pthread_mutex_unlock(&pictures->mutex);
}

unsigned long pictures_begun(Pictures* pictures) {
  unsigned long begun = 0;
  pthread_mutex_lock(&pictures->mutex);
  begun = pictures->begun;
  pthread_mutex_unlock(&pictures->mutex);
  return begun;
}

void pictures_end(Pictures* pictures) {
  pthread_cond_destroy(&pictures->opened);
  pthread_mutex_destroy(&pictures->mutex);
}

// Waits for a bounded time, so that a failing test ends.
static int begin_read(Pictures* pictures, uint64_t id) {
  struct timespec limit;
  int fails = 0;
  clock_gettime(CLOCK_REALTIME, &limit);
  limit.tv_sec += 60;
  pthread_mutex_lock(&pictures->mutex);
  ++pictures->begun;
  while (pictures->permits == 0) {
    if (pthread_cond_timedwait(&pictures->opened, &pictures->mutex, &limit) == ETIMEDOUT) break;
  }
  if (pictures->permits > 0) --pictures->permits;
  if (id == pictures->flaky && pictures->failures_of_flaky == 0) {
    ++pictures->failures_of_flaky;
    fails = 1;
  }
  pthread_mutex_unlock(&pictures->mutex);
  return fails;
}

static forebay_status read_picture(void* context, uint64_t id, forebay_target* target, char* message) {
  Pictures* const pictures = context;
  unsigned char* room = NULL;
  if (begin_read(pictures, id)) {
    snprintf(message, FOREBAY_MESSAGE_SIZE, "the store is tired");
    return FOREBAY_ERROR_TRANSIENT;
  }
  if (id == pictures->bad) {
    snprintf(message, FOREBAY_MESSAGE_SIZE, "the picture was eaten");
    return FOREBAY_ERROR_SAMPLE;
  }
  if (id == pictures->without_room) return FOREBAY_OK;
  room = forebay_target_reserve(target, kPixels);
  if (room == NULL) return FOREBAY_ERROR;
  for (size_t i = 0; i < kPixels; ++i) room[i] = pixel_of(id, i);
  return FOREBAY_OK;
}

static forebay_status describe_picture(void* context, uint64_t id, forebay_sample* sample, char* message) {
  const Pictures* const pictures = context;
  if (id == pictures->odd) {
    snprintf(message, FOREBAY_MESSAGE_SIZE, "nobody knows");
    return FOREBAY_ERROR;
  }
  CHECK(sample->struct_size == sizeof *sample);
  CHECK(sample->label == -1);
  sample->label = (int64_t)(id % 10);
  sample->encoding = FOREBAY_RAW_PIXELS;
  sample->width = sample->height = kSide;
  sample->channels = 1;
  return FOREBAY_OK;
}

static void name_picture(void* context, uint64_t id, char* name) {
  (void)context;
  snprintf(name, FOREBAY_MESSAGE_SIZE, "album/%lu", (unsigned long)id);
}

static void destroy_pictures(void* context) { ++((Pictures*)context)->destroyed; }

forebay_dataset dataset_of(Pictures* pictures, uint64_t size) {
  static const char* const kClasses[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  forebay_dataset dataset = {.struct_size = sizeof dataset};
  dataset.context = pictures;
  dataset.name = "album";
  dataset.size = size;
  dataset.classes = kClasses;
  dataset.class_count = 10;
  dataset.identity = "pictures";
  dataset.identity_size = 8;
  dataset.sample = describe_picture;
  dataset.read = read_picture;
  dataset.name_of = name_picture;
  dataset.destroy = destroy_pictures;
  return dataset;
}

const char* const kPlain =
    "device = \"host\"\n"
    "[dataset]\nbatch_size = 4\nshuffle = false\ndrop_last = false\n"
    "[transform]\ncrop = \"none\"\nsize = [4, 4]\nmirror = 0\ndtype = \"uint8\"\nlayout = \"NHWC\"\n"
    "[workers]\nio = 2\ndecode = 1\nhedge = \"off\"\n"
    "[queue]\ncapacity = 4\n"
    "[policy]\nname = \"block\"\nwatchdog_s = 60\n"
    "[telemetry]\ndir = \"\"\ninterval_s = 0\nlive = \"never\"\n";

void lines_begin(Lines* lines, const char* words) {
  pthread_mutex_init(&lines->mutex, NULL);
  lines->words = words;
  lines->found = 0;
}

int lines_found(Lines* lines) {
  int found = 0;
  pthread_mutex_lock(&lines->mutex);
  found = lines->found;
  pthread_mutex_unlock(&lines->mutex);
  return found;
}

void lines_look(void* context, int32_t level, const char* text) {
  Lines* const lines = context;
  pthread_mutex_lock(&lines->mutex);
  CHECK(level >= FOREBAY_LOG_INFO && level <= FOREBAY_LOG_ERROR);
  if (strstr(text, lines->words) != NULL) ++lines->found;
  pthread_mutex_unlock(&lines->mutex);
}

static void keep_quiet(void* context, int32_t level, const char* text) {
  (void)context;
  (void)level;
  (void)text;
}

forebay_feeder_options options_of(const forebay_dataset* dataset) {
  forebay_feeder_options options = {.struct_size = sizeof options};
  options.text = kPlain;
  options.dataset = dataset;
  options.log = keep_quiet;
  return options;
}

forebay_feeder* feeder_of(const forebay_feeder_options* options) {
  forebay_feeder* feeder = NULL;
  CHECK_OK(forebay_feeder_new(options, &feeder, &error));
  return feeder;
}

forebay_batch* next_of(forebay_feeder* feeder) {
  forebay_batch* batch = NULL;
  forebay_error* error = NULL;
  const forebay_status status = forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &batch, &error);
  const int is_end = status == FOREBAY_END_OF_EPOCH || status == FOREBAY_END_OF_RUN;
  if (status != FOREBAY_OK && !is_end) fprintf(stderr, "next: %s\n", forebay_error_message(error));
  CHECK(status == FOREBAY_OK || is_end);
  CHECK((status == FOREBAY_OK) == (batch != NULL));
  forebay_error_free(error);
  return batch;
}
