#ifndef FOREBAY_C_BATCH_H
#define FOREBAY_C_BATCH_H

// NOLINTBEGIN(modernize-*): it is C

#include <forebay/c/base.h>

// Part of <forebay/forebay.h>: a batch and its tensors.

#ifdef __cplusplus
extern "C" {
#endif

enum { FOREBAY_MOST_DIMENSIONS = 8 };

enum forebay_dtype {
  FOREBAY_FLOAT32 = 0,
  FOREBAY_FLOAT16 = 1,
  FOREBAY_BFLOAT16 = 2,
  FOREBAY_UINT8 = 3,
  FOREBAY_INT32 = 4,
  FOREBAY_INT64 = 5,
  FOREBAY_FLOAT64 = 6
};

enum forebay_device {
  FOREBAY_HOST = 0,
  FOREBAY_CUDA_DEVICE = 1  // a GPU
};

// A contiguous part of a batch. It is valid until the batch is released and must not be written to: a reuse serves the
// same bytes.
typedef struct forebay_tensor {
  size_t struct_size;
  const void* data;                          // the first element, in memory of `device`
  uint64_t bytes;                            // number of elements times element size
  int32_t dtype;                             // forebay_dtype
  int32_t rank;                              // how many entries of `shape` and `strides` are used
  int32_t device;                            // forebay_device
  int32_t device_index;                      // N of cuda:N, as this process counts its GPUs; 0 on the host
  int64_t shape[FOREBAY_MOST_DIMENSIONS];    // outermost first: images [N, C, H, W], [N, H, W, C]; clips [N, T, ...]
  int64_t strides[FOREBAY_MOST_DIMENSIONS];  // in elements; C order without gaps
} forebay_tensor;

// The kinds of fields, which forebay/field.hpp explains.
enum forebay_kind {
  FOREBAY_KIND_IMAGE = 0,
  FOREBAY_KIND_MASK = 1,
  FOREBAY_KIND_CLASS = 2,
  FOREBAY_KIND_MULTILABEL = 3,
  FOREBAY_KIND_NUMBERS = 4,
  FOREBAY_KIND_BOXES = 5,
  FOREBAY_KIND_ARRAY = 6,
  FOREBAY_KIND_BYTES = 7
};

// One field of every batch.
typedef struct forebay_field {
  size_t struct_size;
  const char* name;                        // letters, digits, '_' and '-'
  int32_t kind;                            // forebay_kind
  int32_t dtype;                           // forebay_dtype
  int32_t rank;                            // dimensions of one sample
  bool is_ragged;                          // boxes and bytes: samples fill different numbers of rows
  int64_t shape[FOREBAY_MOST_DIMENSIONS];  // of one sample; ragged ones have [most, ...]
  const char* const* classes;              // names of class numbers, where they are known
  size_t class_count;
} forebay_field;

// The part of its image that a sample shows: this region in pixels, mirrored or not, resized to transform.size. Right
// and bottom are just past it. With transform.padding it may reach beyond the image.
typedef struct forebay_view {
  int32_t left, top, right, bottom;
  int32_t width, height;  // of the whole image, as displayed
  int32_t mirror;         // 1 or 0
} forebay_view;

// One step's batch: the right to use one slot of the queue. It ends with forebay_batch_release(), not with the feeder,
// and at most queue.max_leases may be held at once. One thread at a time may use it, which need not be the feeder's. It
// must not be used after its release.
typedef struct forebay_batch forebay_batch;

// Facts about the batch and its step. All are 0 for null.
FOREBAY_API uint32_t forebay_batch_size(const forebay_batch* batch);       // samples; in evaluation 0 is possible
FOREBAY_API uint64_t forebay_batch_epoch(const forebay_batch* batch);      // from 0
FOREBAY_API uint64_t forebay_batch_number(const forebay_batch* batch);     // within its epoch, counted over all ranks
FOREBAY_API uint64_t forebay_batch_step(const forebay_batch* batch);       // from 0; a resumed run continues counting
FOREBAY_API uint64_t forebay_batch_use_index(const forebay_batch* batch);  // 0: it is fresh; then 1, 2, ...
FOREBAY_API bool forebay_batch_is_fresh(const forebay_batch* batch);       // use_index is 0
FOREBAY_API uint64_t forebay_batch_job_fresh(const forebay_batch* batch);  // samples that all ranks had served fresh
// Tensors and labels have a row for each view of each sample: row i * transform.views + v is view v of sample i. The
// two below are in host memory and valid until the release; null if there are no samples.
FOREBAY_API const int64_t* forebay_batch_labels(const forebay_batch* batch);  // by row: class numbers, -1 = unlabelled
FOREBAY_API const uint64_t* forebay_batch_ids(const forebay_batch* batch);    // by sample: numbers in the dataset

// Describes a field by its number, on the device that holds the images: 0 is "image", 1 is "label", the others are
// numbered as by forebay_feeder_field(). Fails with FOREBAY_ERROR if there is no such field.
FOREBAY_API forebay_status forebay_batch_tensor(const forebay_batch* batch, size_t field, forebay_tensor* tensor,
                                                forebay_error** error);
// The same by name. To look the name up only once, use forebay_feeder_field_number().
FOREBAY_API forebay_status forebay_batch_tensor_named(const forebay_batch* batch, const char* name,
                                                      forebay_tensor* tensor, forebay_error** error);
// For a ragged field: how many entries of each row are filled, as [rows] of int32 on the field's device. Fails with
// FOREBAY_ERROR for a field that is not ragged.
FOREBAY_API forebay_status forebay_batch_counts(const forebay_batch* batch, size_t field, forebay_tensor* tensor,
                                                forebay_error** error);
// The same in host memory, without accessing a GPU: one per row, valid until the release.
FOREBAY_API forebay_status forebay_batch_counts_on_host(const forebay_batch* batch, size_t field,
                                                        const int32_t** counts, forebay_error** error);
// Writes to `views`, an array with room for `capacity` elements of `view_size` = sizeof(forebay_view) bytes each, what
// each row shows of its sample's image. Members that the library does not know are left unchanged. Fails with
// FOREBAY_ERROR_ARGUMENT if either number is too small.
FOREBAY_API forebay_status forebay_batch_views(const forebay_batch* batch, forebay_view* views, size_t view_size,
                                               size_t capacity, forebay_error** error);
// Copies a field to host memory and waits for the copy; there is no wait for labels and fields of kind class,
// multilabel and numbers, of which the host has copies. Fails with FOREBAY_ERROR if `bytes` is not the field's size.
FOREBAY_API forebay_status forebay_batch_copy(const forebay_batch* batch, size_t field, void* out, uint64_t bytes,
                                              forebay_error** error);

// DLPack's structs, from its header or declared by the caller.
struct DLManagedTensorVersioned;
struct DLManagedTensor;

// A field for any library that takes DLPack 1.0 (in Python: a capsule "dltensor_versioned"), without a copy and marked
// read-only. It shares the batch's slot, which becomes free once the batch has been released and the deleters of all
// its tensors have been called, on any thread, in any order, before or after the feeder's end. The caller passes the
// tensor to a consumer or calls its deleter. Strides are never null.
//
// On a GPU, work that uses the tensor must be queued on the stream given to forebay_feeder_next() before the deleter is
// called, or on one given to forebay_batch_use_on() or forebay_batch_release_on().
FOREBAY_API forebay_status forebay_batch_dlpack(forebay_batch* batch, size_t field,
                                                struct DLManagedTensorVersioned** tensor, forebay_error** error);
// The same for consumers that know only the form before 1.0 ("dltensor"), which cannot be marked read-only.
FOREBAY_API forebay_status forebay_batch_dlpack_unversioned(forebay_batch* batch, size_t field,
                                                            struct DLManagedTensor** tensor, forebay_error** error);

// Declares that another CUDA stream uses the batch, too: work queued there from now on finds the batch complete, and
// its slot is refilled only after all work queued there before the release and the last deleter of its tensors. The
// stream must exist until then. Fails with FOREBAY_ERROR for cudaStreamPerThread and while one of the streams captures
// a graph. No effect without a GPU.
FOREBAY_API forebay_status forebay_batch_use_on(forebay_batch* batch, void* stream, forebay_error** error);

// Releases the batch, on any thread. Null is allowed. On a GPU, all work that uses it must have been queued on the
// stream given to forebay_feeder_next() or on streams given to forebay_batch_use_on(). It need not be complete, and
// nothing waits for it.
FOREBAY_API void forebay_batch_release(forebay_batch* batch);
// The same for a batch that was used on another CUDA stream, which the caller made wait for the first one. If tensors
// of the batch are left, its slot is ordered after that stream when their last deleter is called: the stream must exist
// until then, and cudaStreamPerThread is that of the deleter's thread.
FOREBAY_API void forebay_batch_release_on(forebay_batch* batch, void* stream);

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-*)

#endif
