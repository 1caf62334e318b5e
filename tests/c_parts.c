#include "c_support.h"

// A program's own datasets and policies: what their callbacks return, and when they end.

static int count_of(forebay_feeder* feeder) {
  int samples = 0;
  for (forebay_batch* batch = NULL; (batch = next_of(feeder)) != NULL;) {
    samples += (int)forebay_batch_size(batch);
    forebay_batch_release(batch);
  }
  return samples;
}

// One sample always fails, one fails once, and one forgets to ask for room.
static void test_bad_samples(void) {
  Pictures pictures;
  forebay_dataset dataset;
  forebay_feeder_options options;
  forebay_feeder* feeder = NULL;
  Lines lines;
  char* text = NULL;
  pictures_begin(&pictures);
  pictures.bad = 17;
  pictures.flaky = 5;
  pictures.without_room = 9;
  lines_begin(&lines, "album/17: the picture was eaten");
  dataset = dataset_of(&pictures, 40);
  options = options_of(&dataset);
  options.log = lines_look;
  options.log_context = &lines;
  feeder = feeder_of(&options);
  CHECK(count_of(feeder) == 40);
  CHECK(pictures.failures_of_flaky == 1);
  CHECK_OK(forebay_feeder_summary(feeder, &text, &error));
  CHECK(text != NULL && strstr(text, "\"bad_samples\": 2") != NULL);
  forebay_text_free(text);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
  CHECK(lines_found(&lines) == 1);
  pictures_end(&pictures);
}

static forebay_status use_reserved_member(void* context, uint64_t id, forebay_sample* sample, char* message) {
  (void)context;
  (void)id;
  (void)message;
  sample->reserved = 1;
  return FOREBAY_OK;
}

static void test_failures(void) {
  Pictures pictures;
  forebay_dataset dataset;
  forebay_feeder_options options;
  forebay_feeder* feeder = NULL;
  forebay_batch* batch = NULL;
  const char* setting = "on_bad=fail";
  int steps = 0;
  pictures_begin(&pictures);
  pictures.bad = 30;
  dataset = dataset_of(&pictures, 40);
  options = options_of(&dataset);
  options.settings = &setting;
  options.setting_count = 1;
  feeder = feeder_of(&options);
  for (; steps < 20; ++steps) {
    if (forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &batch, NULL) != FOREBAY_OK) break;
    forebay_batch_release(batch);
  }
  CHECK(steps < 10);
  CHECK_FAILS(forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &batch, &error), FOREBAY_ERROR_SAMPLE,
              "the picture was eaten");
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
  CHECK(pictures.destroyed == 1);

  pictures.bad = kNobody;
  pictures.odd = 0;
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR, "nobody knows");
  CHECK(pictures.destroyed == 2);
  dataset.sample = use_reserved_member;
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR, "reserved member is 1");
  CHECK(pictures.destroyed == 3);

  // A refused call takes ownership of nothing.
  dataset.read = NULL;
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "forebay_dataset::read is null");
  dataset = dataset_of(&pictures, 0);
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "no samples");
  dataset = dataset_of(&pictures, 40);
  dataset.classes = NULL;
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "classes is null");
  dataset = dataset_of(&pictures, 40);
  dataset.identity = NULL;
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "identity is null");
  CHECK(pictures.destroyed == 3);
  pictures_end(&pictures);
}

// Two numbers, and as many bytes as the sample's number modulo 3.
static forebay_status read_field(void* context, uint64_t id, size_t field, forebay_target* target, char* message) {
  const float numbers[2] = {(float)id, 0.5F};
  const size_t bytes = field == 0 ? sizeof numbers : (size_t)(id % 3);
  void* const room = forebay_target_reserve(target, bytes);
  if (room == NULL) return FOREBAY_ERROR;
  if (id == ((Pictures*)context)->without_field) {
    snprintf(message, FOREBAY_MESSAGE_SIZE, "no field of %lu", (unsigned long)id);
    return FOREBAY_ERROR_SAMPLE;
  }
  if (field == 0) memcpy(room, numbers, bytes);
  if (field == 1) memset(room, 'a', bytes);
  return FOREBAY_OK;
}

static void check_own_fields(forebay_feeder* feeder, const forebay_batch* batch) {
  forebay_field field = {.struct_size = sizeof field};
  forebay_tensor numbers = {.struct_size = sizeof numbers};
  forebay_tensor bytes = {.struct_size = sizeof bytes};
  forebay_tensor counts = {.struct_size = sizeof counts};
  const int32_t* here = NULL;
  CHECK(forebay_feeder_field_count(feeder) == 4);
  CHECK_OK(forebay_feeder_field(feeder, 3, &field, &error));
  CHECK(strcmp(field.name, "text") == 0 && field.is_ragged && field.rank == 1 && field.shape[0] == 5);
  CHECK_OK(forebay_batch_tensor_named(batch, "pair", &numbers, &error));
  CHECK(numbers.dtype == FOREBAY_FLOAT32 && numbers.rank == 2 && numbers.shape[1] == 2);
  CHECK_OK(forebay_batch_tensor(batch, 3, &bytes, &error));
  CHECK_OK(forebay_batch_counts(batch, 3, &counts, &error));
  CHECK_OK(forebay_batch_counts_on_host(batch, 3, &here, &error));
  CHECK(here == counts.data);  // the same memory: there is no GPU
  CHECK(bytes.rank == 2 && bytes.shape[1] == 5 && counts.dtype == FOREBAY_INT32 && counts.rank == 1);
  for (uint32_t s = 0; s < forebay_batch_size(batch); ++s) {
    const uint64_t id = forebay_batch_ids(batch)[s];
    const int32_t count = ((const int32_t*)counts.data)[s];
    CHECK(((const float*)numbers.data)[2 * s] == (float)id && ((const float*)numbers.data)[2 * s + 1] == 0.5F);
    CHECK(count == (int32_t)(id % 3));
    for (int32_t i = 0; i < 5; ++i) CHECK(((const char*)bytes.data)[5 * s + (uint32_t)i] == (i < count ? 'a' : 0));
  }
}

static void test_fields(void) {
  Pictures pictures;
  forebay_dataset dataset;
  forebay_feeder_options options;
  forebay_field fields[2] = {{.struct_size = sizeof *fields}, {.struct_size = sizeof *fields}};
  forebay_feeder* feeder = NULL;
  Lines lines;
  pictures_begin(&pictures);
  pictures.without_field = 7;
  lines_begin(&lines, "no field of 7");
  fields[0].name = "pair";
  fields[0].kind = FOREBAY_KIND_NUMBERS;
  fields[0].dtype = FOREBAY_FLOAT32;
  fields[0].rank = 1;
  fields[0].shape[0] = 2;
  fields[1].name = "text";
  fields[1].kind = FOREBAY_KIND_BYTES;
  fields[1].dtype = FOREBAY_UINT8;
  fields[1].rank = 1;
  fields[1].shape[0] = 5;
  dataset = dataset_of(&pictures, 20);
  dataset.fields = fields;
  dataset.field_count = 2;
  dataset.read_field = read_field;
  options = options_of(&dataset);
  options.log = lines_look;
  options.log_context = &lines;
  feeder = feeder_of(&options);
  for (forebay_batch* batch = NULL; (batch = next_of(feeder)) != NULL; forebay_batch_release(batch)) {
    check_own_fields(feeder, batch);
  }
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
  CHECK(lines_found(&lines) == 1);

  fields[1].kind = 8;
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "forebay_field::kind is 8");
  fields[1].struct_size = 0;
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "sizeof(forebay_field)");
  dataset.read_field = NULL;
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "read_field is null");
  dataset.fields = NULL;
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "forebay_dataset::fields is null");
  CHECK(pictures.destroyed == 1);
  pictures_end(&pictures);
}

void test_datasets(void) {
  test_bad_samples();
  test_failures();
  test_fields();
}

// Every third step is fresh. The first step does not ask the policy, because there is nothing to
// reuse.
typedef struct Thirds {
  int32_t answer;  // < 0: every third
  int decisions;
  int served;
  int fresh;
  int destroyed;
} Thirds;

static int32_t decide(void* context, const forebay_signals* signals) {
  Thirds* const thirds = context;
  CHECK(signals->struct_size == sizeof *signals);
  CHECK(signals->capacity == 4 && signals->depth <= 4);
  ++thirds->decisions;
  if (thirds->answer >= 0) return thirds->answer;
  return signals->step % 3 == 0 ? FOREBAY_FRESH : FOREBAY_REUSE;
}

static void served(void* context, int32_t decision, const forebay_signals* signals) {
  Thirds* const thirds = context;
  CHECK(signals->step == (uint64_t)thirds->served || thirds->answer >= 0);
  ++thirds->served;
  if (decision == FOREBAY_FRESH) ++thirds->fresh;
}

static void destroy(void* context) { ++((Thirds*)context)->destroyed; }

void test_policies(void) {
  Pictures pictures;
  forebay_dataset dataset;
  forebay_feeder_options options;
  Thirds thirds = {.answer = -1};
  forebay_policy policy = {.struct_size = sizeof policy};
  const char* settings[] = {"policy.name=thirds", "run.steps=30"};
  forebay_feeder* feeder = NULL;
  forebay_batch* batch = NULL;
  pictures_begin(&pictures);
  dataset = dataset_of(&pictures, 100);
  options = options_of(&dataset);
  options.policy = &policy;
  options.settings = settings;
  options.setting_count = 2;
  policy.context = &thirds;
  policy.name = "thirds";
  policy.decide = decide;
  policy.served = served;
  policy.destroy = destroy;
  feeder = feeder_of(&options);
  for (int step = 0; (batch = next_of(feeder)) != NULL; ++step) {
    CHECK(forebay_batch_is_fresh(batch) == (step % 3 == 0));
    forebay_batch_release(batch);
  }
  // A step that finds the queue empty may ask again.
  CHECK(thirds.served == 30 && thirds.fresh == 10 && thirds.decisions >= 29);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
  CHECK(thirds.destroyed == 1);

  thirds.answer = 7;
  feeder = feeder_of(&options);
  forebay_batch_release(next_of(feeder));  // the first step does not ask
  CHECK_FAILS(forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &batch, &error), FOREBAY_ERROR, "returned 7");
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);

  policy.name = "";
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "forebay_policy::name");
  policy.name = "thirds";
  policy.decide = NULL;
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "forebay_policy::decide");
  CHECK(thirds.destroyed == 2);
  pictures_end(&pictures);
}
