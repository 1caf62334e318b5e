#include <stdlib.h>

#include "c_support.h"

// A program's own communicator, with one rank: every callback is called, and every failure has its
// message.

typedef struct Ranks {
  struct Ranks* first;  // the caller's own, which counts everything
  int duplicates;
  int destroyed;
  int gathers;
  int shared;
  int closed;
  int looks;
  const char* failing;
} Ranks;

static forebay_status answer(const Ranks* ranks, const char* call, char* message) {
  if (ranks->first->failing == NULL || strcmp(ranks->first->failing, call) != 0) return FOREBAY_OK;
  snprintf(message, FOREBAY_MESSAGE_SIZE, "the cable of %s was cut", call);
  return FOREBAY_ERROR;
}

static forebay_status duplicate(void* context, void** copy, char* message) {
  Ranks* const ranks = context;
  Ranks* const made = calloc(1, sizeof *made);
  const forebay_status status = answer(ranks, "duplicate", message);
  if (status != FOREBAY_OK || made == NULL) {
    free(made);
    return FOREBAY_ERROR;
  }
  made->first = ranks->first;
  ++ranks->first->duplicates;
  *copy = made;
  return FOREBAY_OK;
}

static void destroy(void* context) {
  Ranks* const ranks = context;
  CHECK(ranks != ranks->first);  // not the caller's own
  ++ranks->first->destroyed;
  free(ranks);
}

static forebay_status start_reduction(void* context, uint32_t channel, int64_t* values, size_t count, size_t minima,
                                      char* message) {
  CHECK(channel < 17 && values != NULL && minima <= count);
  return answer(context, "start_reduction", message);
}

static forebay_status test(void* context, uint32_t channel, bool* done, char* message) {
  CHECK(channel < 17);
  *done = true;
  return answer(context, "test", message);
}

static forebay_status broadcast(void* context, void* bytes, size_t size, uint32_t root, char* message) {
  CHECK(bytes != NULL && size > 0 && root == 0);
  return answer(context, "broadcast", message);
}

static forebay_status all_gather(void* context, const void* mine, size_t size, void* all,
                                 const forebay_waiting* waiting, char* message) {
  Ranks* const ranks = context;
  ++ranks->first->gathers;
  CHECK(waiting->struct_size == sizeof *waiting);
  if (waiting->look(waiting->context)) return FOREBAY_ERROR_INTERRUPTED;
  ++ranks->first->looks;
  memcpy(all, mine, size);
  return answer(ranks, "all_gather", message);
}

static forebay_status share_on_node(void* context, size_t bytes, void** memory, char* message) {
  Ranks* const ranks = context;
  const forebay_status status = answer(ranks, "share_on_node", message);
  if (status != FOREBAY_OK) return status;
  *memory = calloc(1, bytes);
  ++ranks->first->shared;
  return FOREBAY_OK;
}

static void release_shared(void* context, void* memory, size_t bytes) {
  CHECK(bytes > 0);
  --((Ranks*)context)->first->shared;
  free(memory);
}

static forebay_status tell(void* context, const void* text, size_t size, char* message) {
  (void)text;
  (void)size;
  return answer(context, "tell", message);
}

static forebay_status listen(void* context, uint32_t* from, const void** text, size_t* size, char* message) {
  *from = 0;
  *text = NULL;
  *size = 0;
  return answer(context, "listen", message);
}

static forebay_status close_ranks(void* context, double timeout_s, bool* closed, const forebay_waiting* waiting,
                                  char* message) {
  Ranks* const ranks = context;
  CHECK(timeout_s >= 0 && waiting->look != NULL);
  *closed = true;
  ++ranks->first->closed;
  return answer(ranks, "close", message);
}

static forebay_communicator communicator_of(Ranks* ranks) {
  forebay_communicator communicator = {.struct_size = sizeof communicator, .rank = 0, .size = 1};
  ranks->first = ranks;
  communicator.context = ranks;
  communicator.duplicate = duplicate;
  communicator.destroy = destroy;
  communicator.start_reduction = start_reduction;
  communicator.test = test;
  communicator.broadcast = broadcast;
  communicator.all_gather = all_gather;
  communicator.share_on_node = share_on_node;
  communicator.release_shared = release_shared;
  communicator.tell = tell;
  communicator.listen = listen;
  communicator.close = close_ranks;
  return communicator;
}

static void test_one_rank(void) {
  Pictures pictures;
  forebay_dataset dataset;
  forebay_feeder_options options;
  Ranks ranks = {.failing = NULL};
  forebay_communicator communicator = communicator_of(&ranks);
  forebay_feeder* feeder = NULL;
  forebay_batch* batch = NULL;
  char* state = NULL;
  uint64_t steps = 0;
  pictures_begin(&pictures);
  dataset = dataset_of(&pictures, 40);
  options = options_of(&dataset);
  options.communicator = &communicator;
  feeder = feeder_of(&options);
  for (; (batch = next_of(feeder)) != NULL; ++steps) forebay_batch_release(batch);
  CHECK(steps == 10);
  CHECK_OK(forebay_feeder_state(feeder, &state, NULL, &error));
  CHECK(state != NULL);
  forebay_text_free(state);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
  CHECK(ranks.duplicates > 0 && ranks.destroyed == ranks.duplicates);
  CHECK(ranks.shared == 0 && ranks.gathers > 0 && ranks.looks == ranks.gathers && ranks.closed > 0);
  pictures_end(&pictures);
}

static void test_failures(void) {
  static const char* const kCalls[] = {"duplicate", "all_gather"};
  Pictures pictures;
  forebay_dataset dataset;
  forebay_feeder_options options;
  Ranks ranks = {.failing = NULL};
  forebay_communicator communicator = communicator_of(&ranks);
  forebay_feeder* feeder = NULL;
  pictures_begin(&pictures);
  dataset = dataset_of(&pictures, 40);
  options = options_of(&dataset);
  options.communicator = &communicator;
  for (size_t i = 0; i < sizeof kCalls / sizeof *kCalls; ++i) {
    ranks.failing = kCalls[i];
    CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR, "was cut");
    CHECK(ranks.destroyed == ranks.duplicates && ranks.shared == 0 && pictures.destroyed == (int)i + 1);
  }
  ranks.failing = "share_on_node";  // a private copy is used instead
  feeder = feeder_of(&options);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
  ranks.failing = NULL;
  communicator.share_on_node = NULL;  // every rank is on its own node
  feeder = feeder_of(&options);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);

  options.is_solo = true;
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "is_solo");
  options.is_solo = false;
  communicator.rank = 1;
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "rank is 1 and size 1");
  communicator.rank = 0;
  communicator.listen = NULL;
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "forebay_communicator::listen");
  communicator.struct_size = 0;
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "sizeof(forebay_communicator)");
  options.communicator = NULL;
  options.is_solo = true;
  feeder = feeder_of(&options);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
  pictures_end(&pictures);
}

void test_communicators(void) {
  test_one_rank();
  test_failures();
}
