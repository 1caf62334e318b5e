#include <forebay/forebay_mpi.h>

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The ranks of an MPI job through the C interface: what each serves, a saved state, a failure
// shared by all ranks, and the end.

static int failed = 0;
static int rank = 0;

#define CHECK(condition)                                                                     \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      fprintf(stderr, "[rank %d] %s:%d: CHECK(%s)\n", rank, __FILE__, __LINE__, #condition); \
      failed = 1;                                                                            \
    }                                                                                        \
  } while (0)

enum { kSamples = 96, kBatch = 4 };

static forebay_status describe(void* context, uint64_t id, forebay_sample* sample, char* message) {
  (void)context;
  (void)message;
  sample->label = (int64_t)id;
  sample->encoding = FOREBAY_RAW_PIXELS;
  sample->width = sample->height = 4;
  sample->channels = 1;
  return FOREBAY_OK;
}

static forebay_status read_sample(void* context, uint64_t id, forebay_target* target, char* message) {
  const uint64_t* const bad = context;
  void* room = NULL;
  if (id == *bad) {
    snprintf(message, FOREBAY_MESSAGE_SIZE, "sample %lu is gone", (unsigned long)id);
    return FOREBAY_ERROR_SAMPLE;
  }
  room = forebay_target_reserve(target, 16);
  if (room == NULL) return FOREBAY_ERROR;
  memset(room, (int)id, 16);
  return FOREBAY_OK;
}

static forebay_feeder* make(const forebay_communicator* ranks, uint64_t* bad, const char* setting,
                            forebay_error** error) {
  static const char kText[] =
      "device = \"host\"\non_bad = \"fail\"\n[dataset]\nbatch_size = 4\n[transform]\ncrop = \"none\"\nsize = [4, 4]\n"
      "[policy]\nname = \"block\"\n[workers]\nio = 1\ndecode = 1\n[telemetry]\ndir = \"\"\ninterval_s = 0\n";
  forebay_dataset dataset = {.struct_size = sizeof dataset, .context = bad, .size = kSamples};
  forebay_feeder_options options = {.struct_size = sizeof options, .text = kText};
  forebay_feeder* feeder = NULL;
  dataset.sample = describe;
  dataset.read = read_sample;
  options.communicator = ranks;
  options.dataset = &dataset;
  options.settings = &setting;
  options.setting_count = setting != NULL ? 1 : 0;
  forebay_feeder_new(&options, &feeder, error);
  return feeder;
}

// Serves to the end and counts the fresh samples over all ranks.
static void serve(forebay_feeder* feeder, int* seen) {
  forebay_batch* batch = NULL;
  while (forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &batch, NULL) == FOREBAY_OK) {
    for (uint32_t s = 0; forebay_batch_is_fresh(batch) && s < forebay_batch_size(batch); ++s) {
      ++seen[forebay_batch_ids(batch)[s]];
    }
    forebay_batch_release(batch);
  }
}

static void check_once(int* seen) {
  MPI_Allreduce(MPI_IN_PLACE, seen, kSamples, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int s = 0; s < kSamples; ++s) CHECK(seen[s] == 1);
}

static void test_run(const forebay_communicator* ranks) {
  uint64_t none = UINT64_MAX;
  int seen[kSamples] = {0};
  forebay_error* error = NULL;
  forebay_feeder* feeder = make(ranks, &none, NULL, &error);
  forebay_batch* batch = NULL;
  char* state = NULL;
  size_t length = 0;
  CHECK(error == NULL && feeder != NULL);
  if (feeder == NULL) fprintf(stderr, "%s\n", forebay_error_message(error));
  if (feeder == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  if (ranks->size > 1) {
    CHECK(forebay_feeder_next(feeder, 1, NULL, &batch, NULL) == FOREBAY_ERROR_ARGUMENT);
  }
  for (int step = 0; step < 2; ++step) {
    CHECK(forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &batch, NULL) == FOREBAY_OK);
    for (uint32_t s = 0; s < forebay_batch_size(batch); ++s) {
      CHECK(forebay_batch_labels(batch)[s] == (int64_t)forebay_batch_ids(batch)[s]);
      ++seen[forebay_batch_ids(batch)[s]];
    }
    forebay_batch_release(batch);
  }
  CHECK(forebay_feeder_state(feeder, &state, &length, &error) == FOREBAY_OK);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);

  // The samples served before the state was saved and those served after it was restored are,
  // together, every sample once.
  feeder = make(ranks, &none, NULL, &error);
  CHECK(forebay_feeder_restore_state(feeder, state, length, &error) == FOREBAY_OK);
  serve(feeder, seen);
  check_once(seen);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
  forebay_text_free(state);
}

// All ranks fail alike: at the start, or at the same step.
static void test_failures(const forebay_communicator* ranks) {
  uint64_t bad = kSamples / 2;
  forebay_error* error = NULL;
  forebay_batch* batch = NULL;
  forebay_feeder* feeder = make(ranks, &bad, rank == 0 ? "dataset.batch_sise=1" : "dataset.batch_size=4", &error);
  int steps = 0;
  int most = 0;
  CHECK(feeder == NULL && forebay_error_status(error) == FOREBAY_ERROR_CONFIG);
  CHECK(strstr(forebay_error_message(error), "batch_size") != NULL);
  forebay_error_free(error);

  // The bad sample may be found while the feeder is made, or at any step before its own.
  feeder = make(ranks, &bad, NULL, &error);
  for (; feeder != NULL && steps < 1000; ++steps) {
    if (forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &batch, &error) != FOREBAY_OK) break;
    forebay_batch_release(batch);
  }
  CHECK(forebay_error_status(error) == FOREBAY_ERROR_SAMPLE);
  CHECK(strstr(forebay_error_message(error), "sample 48 is gone") != NULL);
  forebay_error_free(error);
  MPI_Allreduce(&steps, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  CHECK(steps == most);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
}

// One rank holds its batches. It makes the others' steps with those until all ranks have the error,
// at the same step.
static void test_held_batches(const forebay_communicator* ranks) {
  enum { kMost = 100 };
  uint64_t none = UINT64_MAX;
  forebay_batch* held[kMost] = {NULL};
  forebay_error* error = NULL;
  forebay_feeder* feeder = make(ranks, &none, "run.epochs=1000", &error);
  const int holds = rank == (int)ranks->size - 1;
  int failures = 0;
  int steps = 0;
  CHECK(feeder != NULL);
  for (; feeder != NULL && failures == 0 && steps < kMost; ++steps) {
    failures = forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &held[steps], &error) != FOREBAY_OK;
    CHECK(failures == (held[steps] == NULL));
    if (!holds) forebay_batch_release(held[steps]);
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);  // a reduction of the trainer's own
    CHECK(failures == 0 || failures == (int)ranks->size);
  }
  CHECK(failures == (int)ranks->size);
  CHECK(ranks->size == 1 ? steps == 3 : steps > 3);  // queue.max_leases is 2
  CHECK(forebay_error_status(error) == FOREBAY_ERROR);
  CHECK(strstr(forebay_error_message(error), "next() while 2 leases are held") != NULL);
  forebay_error_free(error);
  for (int step = 0; holds && step < steps; ++step) {
    if (held[step] != NULL) CHECK(forebay_batch_labels(held[step])[0] == (int64_t)forebay_batch_ids(held[step])[0]);
    forebay_batch_release(held[step]);
  }
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
}

int main(int argc, char** argv) {
  int level = 0;
  int size = 0;
  forebay_communicator ranks = {.struct_size = sizeof ranks};
  forebay_error* error = NULL;
  CHECK(forebay_mpi_communicator(0, &ranks, &error) == FOREBAY_ERROR);
  CHECK(strstr(forebay_error_message(error), "MPI is not running") != NULL);
  forebay_error_free(error);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);

  CHECK(forebay_mpi_communicator(MPI_Comm_c2f(MPI_COMM_WORLD), NULL, NULL) == FOREBAY_ERROR_ARGUMENT);
  ranks.struct_size = 8;
  CHECK(forebay_mpi_communicator(MPI_Comm_c2f(MPI_COMM_WORLD), &ranks, NULL) == FOREBAY_ERROR_ARGUMENT);
  ranks.struct_size = sizeof ranks;
  CHECK(forebay_mpi_communicator(MPI_Comm_c2f(MPI_COMM_NULL), &ranks, NULL) == FOREBAY_ERROR);
  CHECK(forebay_mpi_communicator(123456, &ranks, NULL) == FOREBAY_ERROR);
  CHECK(forebay_mpi_communicator(MPI_Comm_c2f(MPI_COMM_WORLD), &ranks, &error) == FOREBAY_OK);
  CHECK((int)ranks.rank == rank && (int)ranks.size == size);
  test_run(&ranks);
  test_failures(&ranks);
  test_held_batches(&ranks);
  ranks.destroy(ranks.context);

  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  if (rank == 0) printf("%d ranks: %s\n", size, failed ? "FAILED" : "ok");
  return failed;
}
