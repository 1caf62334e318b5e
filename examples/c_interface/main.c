// A C program fed by Forebay: it prints what its batches hold, where a trainer would train on them.
//
//   c_interface feed.toml [section.key=value ...]

#include <stdio.h>
#include <string.h>

#include <forebay/forebay.h>

// Prints why a function failed, and ends the error.
static int complain(const char* what, forebay_error* error) {
  fprintf(stderr, "%s: %s\n", what, forebay_error_message(error));
  const int code = forebay_error_status(error) == FOREBAY_ERROR_CONFIG ? 2 : 1;
  forebay_error_free(error);
  return code;
}

static void print_fields(const forebay_feeder* feeder) {
  for (size_t i = 0; i < forebay_feeder_field_count(feeder); ++i) {
    forebay_field field = {.struct_size = sizeof field};
    if (forebay_feeder_field(feeder, i, &field, NULL) != FOREBAY_OK) continue;
    printf("field %s: [", field.name);
    for (int d = 0; d < field.rank; ++d) printf("%s%lld", d > 0 ? ", " : "", (long long)field.shape[d]);
    printf("] for each sample, %zu classes\n", field.class_count);
  }
}

// The mean of the first image, if it is of floats in memory of the host.
static double mean_of_first(const forebay_batch* batch) {
  forebay_tensor images = {.struct_size = sizeof images};
  if (forebay_batch_tensor(batch, 0, &images, NULL) != FOREBAY_OK) return 0;
  if (images.dtype != FOREBAY_FLOAT32 || images.device != FOREBAY_HOST || images.shape[0] == 0) return 0;
  double sum = 0;
  for (int64_t i = 0; i < images.strides[0]; ++i) sum += ((const float*)images.data)[i];
  return sum / (double)images.strides[0];
}

// 0, or an exit code.
static int run(forebay_feeder* feeder) {
  forebay_error* error = NULL;
  forebay_batch* batch = NULL;
  forebay_status status = FOREBAY_OK;
  unsigned long long fresh = 0;
  while ((status = forebay_feeder_next_epoch(feeder, &error)) == FOREBAY_OK) {
    while ((status = forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &batch, &error)) == FOREBAY_OK) {
      const uint32_t size = forebay_batch_size(batch);
      if (size > 0 && forebay_batch_number(batch) < 3) {
        printf(
            "epoch %llu, batch %llu, use %llu: %u samples, the first is number %llu of class %lld, mean value %.3f\n",
            (unsigned long long)forebay_batch_epoch(batch), (unsigned long long)forebay_batch_number(batch),
            (unsigned long long)forebay_batch_use_index(batch), size, (unsigned long long)forebay_batch_ids(batch)[0],
            (long long)forebay_batch_labels(batch)[0], mean_of_first(batch));
      }
      if (forebay_batch_is_fresh(batch)) fresh += size;
      forebay_batch_release(batch);
    }
    if (status < 0) return complain("next", error);
  }
  if (status < 0) return complain("next_epoch", error);
  if (forebay_feeder_close(feeder, &error) != FOREBAY_OK) return complain("close", error);

  char* summary = NULL;
  if (forebay_feeder_summary(feeder, &summary, &error) != FOREBAY_OK) return complain("summary", error);
  printf("%llu samples served in %llu epochs; the summary has %zu characters of JSON\n", fresh,
         (unsigned long long)forebay_feeder_epochs(feeder), strlen(summary));
  forebay_text_free(summary);
  return fresh > 0 ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s CONFIG [section.key=value ...]\n", argv[0]);
    return 2;
  }
  forebay_error* error = NULL;
  forebay_feeder* feeder = NULL;
  forebay_feeder_options options = {.struct_size = sizeof options, .file = argv[1]};
  options.settings = (const char* const*)(argv + 2);
  options.setting_count = (size_t)(argc - 2);
  if (forebay_feeder_new(&options, &feeder, &error) != FOREBAY_OK) return complain("feeder_new", error);
  print_fields(feeder);
  const int code = run(feeder);
  forebay_feeder_free(feeder);
  return code;
}
