
#include "c_support.h"

// What a batch contains, and how long it lives.

static void check_views(const forebay_batch* batch) {
  // As a program compiled with a later version would have it.
  struct {
    forebay_view known;
    int32_t new_member;
  } later[4] = {{.new_member = 0}};
  forebay_view views[4];
  CHECK_OK(forebay_batch_views(batch, views, sizeof *views, 4, &error));
  CHECK(views[3].left == 0 && views[3].right == kSide && views[3].width == kSide && views[3].mirror == 0);
  for (int s = 0; s < 4; ++s) later[s].new_member = 7 + s;
  CHECK_OK(forebay_batch_views(batch, &later[0].known, sizeof *later, 4, &error));
  for (int s = 0; s < 4; ++s) {
    CHECK(memcmp(&later[s].known, &views[s], sizeof *views) == 0 && later[s].new_member == 7 + s);
  }
  CHECK_FAILS(forebay_batch_views(batch, views, sizeof *views, 3, &error), FOREBAY_ERROR_ARGUMENT, "room for 3");
  CHECK_FAILS(forebay_batch_views(batch, views, 24, 4, &error), FOREBAY_ERROR_ARGUMENT, "sizeof(forebay_view)");
  CHECK_FAILS(forebay_batch_views(batch, NULL, sizeof *views, 4, &error), FOREBAY_ERROR_ARGUMENT, "views is null");
}

static void check_tensors(forebay_feeder* feeder, forebay_batch* batch) {
  forebay_tensor images = {.struct_size = sizeof images};
  forebay_tensor named = {.struct_size = sizeof named};
  forebay_tensor labels = {.struct_size = sizeof labels};
  unsigned char copy[4 * kPixels];
  const uint64_t* const ids = forebay_batch_ids(batch);
  size_t number = 99;
  CHECK_OK(forebay_batch_tensor(batch, 0, &images, &error));
  CHECK(images.struct_size == sizeof images);
  CHECK(images.dtype == FOREBAY_UINT8 && images.device == FOREBAY_HOST && images.device_index == 0);
  CHECK(images.rank == 4 && images.shape[0] == 4 && images.shape[1] == 4 && images.shape[2] == 4);
  CHECK(images.shape[3] == 3 && images.strides[3] == 1 && images.strides[2] == 3 && images.strides[0] == 3 * kPixels);
  CHECK(images.shape[4] == 0 && images.bytes == 4 * 3 * kPixels);
  for (size_t s = 0; s < 4; ++s) {
    const unsigned char* const picture = (const unsigned char*)images.data + s * 3 * kPixels;
    for (size_t i = 0; i < 3 * kPixels; ++i) CHECK(picture[i] == pixel_of(ids[s], i / 3));
    CHECK(forebay_batch_labels(batch)[s] == (int64_t)(ids[s] % 10));
  }
  CHECK_OK(forebay_batch_tensor_named(batch, "image", &named, &error));
  CHECK(memcmp(&named, &images, sizeof images) == 0);
  CHECK_OK(forebay_feeder_field_number(feeder, "label", &number, &error));
  CHECK(number == 1);
  CHECK_OK(forebay_batch_tensor(batch, number, &labels, &error));
  CHECK(labels.dtype == FOREBAY_INT64 && labels.rank == 1 && labels.data == forebay_batch_labels(batch));
  check_views(batch);

  CHECK_FAILS(forebay_batch_tensor(batch, 2, &images, &error), FOREBAY_ERROR, "no field 2");
  CHECK_FAILS(forebay_batch_tensor_named(batch, "mask", &images, &error), FOREBAY_ERROR, "\"image\", \"label\"");
  CHECK_FAILS(forebay_batch_tensor_named(batch, NULL, &images, &error), FOREBAY_ERROR_ARGUMENT, "name is null");
  CHECK_FAILS(forebay_batch_counts(batch, 0, &images, &error), FOREBAY_ERROR, "same shape");
  CHECK_FAILS(forebay_batch_copy(batch, 0, copy, sizeof copy, &error), FOREBAY_ERROR, "bytes");
  CHECK_FAILS(forebay_batch_copy(batch, 0, NULL, 4 * 3 * kPixels, &error), FOREBAY_ERROR_ARGUMENT, "out is null");
  CHECK_FAILS(forebay_feeder_field_number(feeder, "mask", &number, &error), FOREBAY_ERROR_CONFIG, "\"label\"");
  images.struct_size = 16;
  CHECK_FAILS(forebay_batch_tensor(batch, 0, &images, &error), FOREBAY_ERROR_ARGUMENT, "sizeof(forebay_tensor)");
}

static void check_fields(const forebay_feeder* feeder) {
  forebay_field field = {.struct_size = sizeof field};
  CHECK(forebay_feeder_field_count(feeder) == 2);
  CHECK_OK(forebay_feeder_field(feeder, 0, &field, &error));
  CHECK(strcmp(field.name, "image") == 0 && field.kind == FOREBAY_KIND_IMAGE && field.dtype == FOREBAY_UINT8);
  CHECK(field.rank == 3 && field.shape[0] == kSide && field.shape[2] == 3 && !field.is_ragged);
  CHECK_OK(forebay_feeder_field(feeder, 1, &field, &error));
  CHECK(strcmp(field.name, "label") == 0 && field.kind == FOREBAY_KIND_CLASS && field.rank == 0);
  CHECK(field.class_count == 10 && strcmp(field.classes[9], "9") == 0);
  CHECK_FAILS(forebay_feeder_field(feeder, 2, &field, &error), FOREBAY_ERROR_ARGUMENT, "no field 2");
}

// Two epochs, in each of which every sample is fresh once.
static void test_epochs(void) {
  Pictures pictures;
  forebay_dataset dataset;
  forebay_feeder_options options;
  const char* settings[] = {"run.epochs=2", "dataset.shuffle=true"};
  forebay_feeder* feeder = NULL;
  forebay_batch* batch = NULL;
  uint64_t step = 0;
  int epochs = 0;
  char* text = NULL;
  pictures_begin(&pictures);
  dataset = dataset_of(&pictures, 22);
  options = options_of(&dataset);
  options.settings = settings;
  options.setting_count = 2;
  feeder = feeder_of(&options);
  check_fields(feeder);
  for (; forebay_feeder_next_epoch(feeder, NULL) == FOREBAY_OK; ++epochs) {
    int seen[22] = {0};
    uint64_t number = 0;
    CHECK(forebay_feeder_epochs(feeder) == (uint64_t)epochs);
    for (; (batch = next_of(feeder)) != NULL; ++number) {
      CHECK(forebay_batch_is_fresh(batch) && forebay_batch_use_index(batch) == 0);
      CHECK(forebay_batch_epoch(batch) == (uint64_t)epochs && forebay_batch_number(batch) == number);
      CHECK(forebay_batch_step(batch) == step++ && forebay_batch_job_fresh(batch) <= 44);
      CHECK(forebay_batch_size(batch) == (number == 5 ? 2 : 4));
      for (uint32_t s = 0; s < forebay_batch_size(batch); ++s) ++seen[forebay_batch_ids(batch)[s]];
      if (step == 1) check_tensors(feeder, batch);
      forebay_batch_release(batch);
    }
    CHECK(forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &batch, NULL) == FOREBAY_END_OF_EPOCH);
    for (int s = 0; s < 22; ++s) CHECK(seen[s] == 1);
  }
  CHECK(epochs == 2 && forebay_feeder_steps(feeder) == 12 && forebay_feeder_epochs(feeder) == 2);
  CHECK(forebay_feeder_next_epoch(feeder, NULL) == FOREBAY_END_OF_RUN);
  CHECK(forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &batch, NULL) == FOREBAY_END_OF_RUN);
  CHECK_OK(forebay_feeder_close(feeder, &error));
  CHECK_OK(forebay_feeder_close(feeder, &error));
  CHECK(forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &batch, NULL) == FOREBAY_END_OF_RUN);
  CHECK_OK(forebay_feeder_summary(feeder, &text, &error));
  CHECK(text != NULL && strstr(text, "\"steps\": 12") != NULL);
  forebay_text_free(text);
  CHECK_OK(forebay_feeder_profile(feeder, &text, &error));
  CHECK(text != NULL && text[0] == '{');
  forebay_text_free(text);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
  CHECK(pictures.destroyed == 1);
  pictures_end(&pictures);
}

// Batches that are held, released in any order, and outlive the feeder.
static void test_lives(void) {
  Pictures pictures;
  forebay_dataset dataset;
  forebay_feeder_options options;
  forebay_feeder* feeder = NULL;
  forebay_batch* batches[3] = {NULL};
  forebay_tensor tensor = {.struct_size = sizeof tensor};
  pictures_begin(&pictures);
  dataset = dataset_of(&pictures, 100);
  options = options_of(&dataset);
  feeder = feeder_of(&options);
  for (int round = 0; round < 5; ++round) {
    batches[0] = next_of(feeder);
    batches[1] = next_of(feeder);
    CHECK(batches[0] != batches[1]);
    CHECK_FAILS(forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &batches[2], &error), FOREBAY_ERROR, "2 leases");
    CHECK(batches[2] == NULL);
    forebay_batch_release(batches[round % 2]);
    CHECK_FAILS(forebay_batch_tensor(batches[round % 2], 0, &tensor, &error), FOREBAY_ERROR_ARGUMENT, "was released");
    CHECK(forebay_batch_size(batches[round % 2]) == 0);
    forebay_batch_release(batches[round % 2]);  // a mistake: the place is empty
    batches[2] = next_of(feeder);
    CHECK(forebay_batch_step(batches[2]) == (uint64_t)(3 * round + 2));
    forebay_batch_release_on(batches[2], NULL);
    forebay_batch_release(batches[1 - round % 2]);
  }
  batches[0] = next_of(feeder);
  batches[1] = next_of(feeder);
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
  CHECK(pictures.destroyed == 1);
  for (int i = 0; i < 2; ++i) {
    CHECK_OK(forebay_batch_tensor(batches[i], 0, &tensor, &error));
    CHECK(((const unsigned char*)tensor.data)[0] == pixel_of(forebay_batch_ids(batches[i])[0], 0));
    forebay_batch_release(batches[i]);
  }
  pictures_end(&pictures);
}

void test_batches(void) {
  test_epochs();
  test_lives();
}

// DLPack as a consumer sees it. These are dlpack.h's own structs, version 1.0, written down by hand
// so that nothing is taken from Forebay's headers.
typedef struct {
  int32_t device_type;
  int32_t device_id;
} DLDevice;
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;
typedef struct {
  uint32_t major;
  uint32_t minor;
} DLPackVersion;
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

static void check_images(const DLTensor* tensor, uint64_t first_id) {
  CHECK(tensor->device.device_type == 1 && tensor->device.device_id == 0);                // kDLCPU
  CHECK(tensor->dtype.code == 1 && tensor->dtype.bits == 8 && tensor->dtype.lanes == 1);  // kDLUInt
  CHECK(tensor->ndim == 4 && tensor->shape[0] == 4 && tensor->shape[3] == 3 && tensor->strides[3] == 1);
  CHECK(tensor->byte_offset == 0);
  CHECK(((const unsigned char*)tensor->data)[0] == pixel_of(first_id, 0));
}

static void* delete_it(void* tensor) {
  DLManagedTensor* const managed = tensor;
  managed->deleter(managed);
  return NULL;
}

// A batch that is released on a stream leaves its place to its tensors, like one that is simply
// released.
static void check_release_on_stream(forebay_feeder* feeder) {
  DLManagedTensorVersioned* images = NULL;
  forebay_batch* other = NULL;
  forebay_batch* const batch = next_of(feeder);
  const uint64_t first = forebay_batch_ids(batch)[0];
  CHECK_OK(forebay_batch_use_on(batch, (void*)4096, &error));  // no effect: there are no streams
  CHECK_OK(forebay_batch_dlpack(batch, 0, &images, &error));
  CHECK_OK(forebay_batch_use_on(batch, (void*)4096, &error));
  forebay_batch_release_on(batch, NULL);
  CHECK(forebay_batch_size(batch) == 0);
  CHECK_FAILS(forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &other, &error), FOREBAY_ERROR, "leases");
  check_images(&images->dl_tensor, first);
  images->deleter(images);
}

void test_tensors_for_others(void) {
  Pictures pictures;
  forebay_dataset dataset;
  forebay_feeder_options options;
  const char* setting = "queue.max_leases=1";
  forebay_feeder* feeder = NULL;
  forebay_batch* batch = NULL;
  forebay_batch* other = NULL;
  DLManagedTensorVersioned* images = NULL;
  DLManagedTensorVersioned* labels = NULL;
  DLManagedTensorVersioned* none = NULL;
  DLManagedTensor* old = NULL;
  forebay_tensor tensor = {.struct_size = sizeof tensor};
  pthread_t thread;
  uint64_t first = 0;
  pictures_begin(&pictures);
  dataset = dataset_of(&pictures, 100);
  options = options_of(&dataset);
  options.settings = &setting;
  options.setting_count = 1;
  feeder = feeder_of(&options);

  // The place stays taken until the batch and all its tensors have ended, in any order.
  batch = next_of(feeder);
  first = forebay_batch_ids(batch)[0];
  CHECK_OK(forebay_batch_dlpack(batch, 0, &images, &error));
  CHECK_OK(forebay_batch_dlpack(batch, 1, &labels, &error));
  CHECK_OK(forebay_batch_dlpack_unversioned(batch, 0, &old, &error));
  CHECK(images->version.major == 1 && images->flags == 1);  // read-only
  check_images(&images->dl_tensor, first);
  check_images(&old->dl_tensor, first);
  CHECK(labels->dl_tensor.ndim == 1 && labels->dl_tensor.dtype.bits == 64);
  CHECK_OK(forebay_batch_tensor(batch, 0, &tensor, &error));  // still a batch
  CHECK(tensor.data == images->dl_tensor.data);
  forebay_batch_release(batch);
  CHECK_FAILS(forebay_batch_dlpack(batch, 0, &none, &error), FOREBAY_ERROR_ARGUMENT, "was released");
  CHECK(none == NULL);
  check_images(&old->dl_tensor, first);
  CHECK_FAILS(forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &other, &error), FOREBAY_ERROR, "leases");
  labels->deleter(labels);
  CHECK(pthread_create(&thread, NULL, delete_it, old) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK_FAILS(forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, NULL, &other, &error), FOREBAY_ERROR, "leases");
  images->deleter(images);
  check_release_on_stream(feeder);

  batch = next_of(feeder);
  CHECK(forebay_batch_step(batch) == 2);
  CHECK_FAILS(forebay_batch_dlpack(batch, 5, &none, &error), FOREBAY_ERROR, "no field 5");
  CHECK_FAILS(forebay_batch_dlpack(batch, 0, NULL, &error), FOREBAY_ERROR_ARGUMENT, "tensor is null");
  first = forebay_batch_ids(batch)[0];
  CHECK_OK(forebay_batch_dlpack(batch, 0, &images, &error));
  CHECK(forebay_feeder_free(feeder) == FOREBAY_OK);
  forebay_batch_release(batch);
  check_images(&images->dl_tensor, first);  // valid although all else is gone
  images->deleter(images);
  pictures_end(&pictures);
}
