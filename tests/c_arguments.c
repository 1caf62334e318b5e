#include "c_support.h"

// What a caller can get wrong before having any batch: nulls, struct sizes, configurations, the
// order of calls.

static void test_versions(void) {
  CHECK(forebay_c_version() == FOREBAY_C_VERSION);
  CHECK(strchr(forebay_version(), '.') != NULL);
  CHECK(strcmp(forebay_status_name(FOREBAY_OK), "FOREBAY_OK") == 0);
  for (forebay_status status = FOREBAY_ERROR_MEMORY; status <= FOREBAY_NOT_READY; ++status) {
    CHECK(strncmp(forebay_status_name(status), "FOREBAY_", 8) == 0);
  }
  CHECK(strcmp(forebay_status_name(77), "?") == 0);
  CHECK(forebay_error_status(NULL) == FOREBAY_OK);
  CHECK(strlen(forebay_error_message(NULL)) > 0);
  forebay_error_free(NULL);
  forebay_text_free(NULL);
}

// What version 1.0 promised to programs that were compiled with it: where the last member of each
// struct is, and how long the struct was. Later members follow it, and make the struct longer
// because it did not end in padding.
static void test_layouts(void) {
#define CHECK_LAYOUT(type, last, offset, size) \
  CHECK(offsetof(type, last) == (offset) && sizeof(type) >= (size) && (offset) + sizeof(((type*)NULL)->last) == (size))
  CHECK(sizeof(void*) == 8);
  CHECK_LAYOUT(forebay_tensor, strides, 104, 168);
  CHECK_LAYOUT(forebay_field, class_count, 104, 112);
  CHECK_LAYOUT(forebay_sample, reserved, 52, 56);
  CHECK_LAYOUT(forebay_dataset, destroy, 112, 120);
  CHECK_LAYOUT(forebay_signals, waited_s, 56, 64);
  CHECK_LAYOUT(forebay_policy, destroy, 40, 48);
  CHECK_LAYOUT(forebay_waiting, look, 16, 24);
  CHECK_LAYOUT(forebay_communicator, abort, 112, 120);
  CHECK_LAYOUT(forebay_feeder_options, log_context, 120, 128);
  CHECK_LAYOUT(forebay_view, mirror, 24, 28);
#undef CHECK_LAYOUT
}

static void test_nulls(void) {
  forebay_feeder_options options = options_of(NULL);
  forebay_feeder* feeder = (forebay_feeder*)&options;
  forebay_batch* batch = (forebay_batch*)&options;
  forebay_tensor tensor = {.struct_size = sizeof tensor};
  forebay_field field = {.struct_size = sizeof field};
  char* text = NULL;
  size_t number = 0;
  CHECK_FAILS(forebay_feeder_new(NULL, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "forebay_feeder_options is null");
  CHECK(feeder == NULL);
  CHECK_FAILS(forebay_feeder_new(&options, NULL, &error), FOREBAY_ERROR_ARGUMENT, "feeder is null");
  CHECK_FAILS(forebay_feeder_next(NULL, FOREBAY_NO_TIMEOUT, NULL, &batch, &error), FOREBAY_ERROR_ARGUMENT, "feeder");
  CHECK(batch == NULL);
  CHECK(forebay_feeder_next(NULL, 0, NULL, NULL, NULL) == FOREBAY_ERROR_ARGUMENT);
  CHECK_FAILS(forebay_feeder_next_epoch(NULL, &error), FOREBAY_ERROR_ARGUMENT, "feeder is null");
  CHECK_FAILS(forebay_feeder_close(NULL, &error), FOREBAY_ERROR_ARGUMENT, "feeder is null");
  CHECK_FAILS(forebay_feeder_state(NULL, &text, NULL, &error), FOREBAY_ERROR_ARGUMENT, "feeder is null");
  CHECK_FAILS(forebay_feeder_restore_state(NULL, "", 0, &error), FOREBAY_ERROR_ARGUMENT, "feeder is null");
  CHECK_FAILS(forebay_feeder_save(NULL, "f", &error), FOREBAY_ERROR_ARGUMENT, "feeder is null");
  CHECK_FAILS(forebay_feeder_finish_saves(NULL, &error), FOREBAY_ERROR_ARGUMENT, "feeder is null");
  CHECK_FAILS(forebay_feeder_restore(NULL, "f", NULL, &error), FOREBAY_ERROR_ARGUMENT, "feeder is null");
  CHECK_FAILS(forebay_feeder_summary(NULL, &text, &error), FOREBAY_ERROR_ARGUMENT, "feeder is null");
  CHECK_FAILS(forebay_feeder_field(NULL, 0, &field, &error), FOREBAY_ERROR_ARGUMENT, "feeder is null");
  CHECK_FAILS(forebay_feeder_field_number(NULL, "image", &number, &error), FOREBAY_ERROR_ARGUMENT, "feeder is null");
  CHECK(forebay_feeder_free(NULL) == FOREBAY_OK);
  forebay_feeder_request_stop(NULL);
  CHECK(forebay_feeder_steps(NULL) == 0 && forebay_feeder_epochs(NULL) == 0 && forebay_feeder_field_count(NULL) == 0);
  CHECK(forebay_feeder_dataset_size(NULL) == 0 && forebay_feeder_batches_per_epoch(NULL) == 0);
  CHECK(!forebay_feeder_was_stopped(NULL));
  CHECK_FAILS(forebay_batch_tensor(NULL, 0, &tensor, &error), FOREBAY_ERROR_ARGUMENT, "batch is null");
  CHECK_FAILS(forebay_batch_tensor_named(NULL, "image", &tensor, &error), FOREBAY_ERROR_ARGUMENT, "batch is null");
  CHECK_FAILS(forebay_batch_views(NULL, NULL, sizeof(forebay_view), 0, &error), FOREBAY_ERROR_ARGUMENT,
              "batch is null");
  CHECK_FAILS(forebay_batch_copy(NULL, 0, NULL, 0, &error), FOREBAY_ERROR_ARGUMENT, "batch is null");
  CHECK(forebay_batch_size(NULL) == 0 && forebay_batch_labels(NULL) == NULL && !forebay_batch_is_fresh(NULL));
  forebay_batch_release(NULL);
  forebay_batch_release_on(NULL, NULL);
  CHECK_FAILS(forebay_batch_counts_on_host(NULL, 0, NULL, &error), FOREBAY_ERROR_ARGUMENT, "batch is null");
  CHECK_FAILS(forebay_batch_use_on(NULL, NULL, &error), FOREBAY_ERROR_ARGUMENT, "batch is null");
  CHECK(forebay_target_reserve(NULL, 1) == NULL);
}

static void test_sizes(void) {
  // As a program compiled with a later version would have it.
  struct {
    forebay_feeder_options known;
    uint64_t new_member;
  } later = {.new_member = 0};
  Pictures pictures;
  forebay_dataset dataset;
  forebay_feeder* feeder = NULL;
  forebay_feeder_options options = {.struct_size = 0};
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "struct_size is 0");
  options.struct_size = sizeof options - 1;
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "sizeof(forebay_feeder_options)");

  pictures_begin(&pictures);
  dataset = dataset_of(&pictures, 8);
  later.known = options_of(&dataset);
  later.known.struct_size = sizeof later;
  feeder = feeder_of(&later.known);
  CHECK(forebay_feeder_dataset_size(feeder) == 8);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
  CHECK(pictures.destroyed == 1);
  later.new_member = 1;
  CHECK_FAILS(forebay_feeder_new(&later.known, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "older than the program's");

  later.new_member = 0;
  dataset.struct_size = 8;
  CHECK_FAILS(forebay_feeder_new(&later.known, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "sizeof(forebay_dataset)");
  CHECK(pictures.destroyed == 1);  // the feeder took nothing
  pictures_end(&pictures);
}

static void test_configurations(void) {
  const char* settings[] = {"dataset.batch_size=2", NULL};
  forebay_feeder* feeder = NULL;
  Pictures pictures;
  forebay_dataset dataset;
  forebay_feeder_options options;
  char* text = NULL;
  pictures_begin(&pictures);
  dataset = dataset_of(&pictures, 8);
  options = options_of(&dataset);
  options.file = "feed.toml";
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "give file or text");
  options.text = NULL;
  options.file = "/nowhere/feed.toml";
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_CONFIG, "/nowhere/feed.toml");
  CHECK(pictures.destroyed == 1);  // taken and destroyed, although no feeder was made
  options.file = NULL;
  options.text = "[dataset]\nbatch_sise = 3\n";
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_CONFIG, "batch_size");
  CHECK(forebay_feeder_new(&options, &feeder, NULL) == FOREBAY_ERROR_CONFIG);
  CHECK(feeder == NULL);
  options.text = kPlain;
  options.setting_count = 1;
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "settings is null");
  options.settings = settings;
  options.setting_count = 2;
  CHECK_FAILS(forebay_feeder_new(&options, &feeder, &error), FOREBAY_ERROR_ARGUMENT, "settings is null");
  options.setting_count = 1;
  feeder = feeder_of(&options);
  CHECK(forebay_feeder_batches_per_epoch(feeder) == 4);
  CHECK_OK(forebay_feeder_configuration(feeder, &text, &error));
  CHECK(text != NULL && strstr(text, "batch_size = 2") != NULL);
  forebay_text_free(text);
  CHECK_OK(forebay_feeder_describe(feeder, &text, &error));
  CHECK(text != NULL && strlen(text) > 0);
  forebay_text_free(text);
  CHECK_FAILS(forebay_feeder_describe(feeder, NULL, &error), FOREBAY_ERROR_ARGUMENT, "text is null");
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
  pictures_end(&pictures);
}

void test_arguments(void) {
  test_versions();
  test_layouts();
  test_nulls();
  test_sizes();
  test_configurations();
}
