#include "c_support.h"

// DLPack as a consumer meets it. These are dlpack.h's own structs, 1.0, written down by hand: not to be taken from
// anything of Forebay's.
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

// A batch that is released on a stream leaves its place to its tensors, as one that is just released does.
static void check_release_on_stream(forebay_feeder* feeder) {
  DLManagedTensorVersioned* images = NULL;
  forebay_batch* other = NULL;
  forebay_batch* const batch = next_of(feeder);
  const uint64_t first = forebay_batch_ids(batch)[0];
  CHECK_OK(forebay_batch_use_on(batch, (void*)4096, &error));  // no effect: there are no streams here
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

  // The place stays taken until the batch and all tensors have ended, whichever is last.
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
  check_images(&images->dl_tensor, first);  // although all else is gone
  images->deleter(images);
  pictures_end(&pictures);
}
