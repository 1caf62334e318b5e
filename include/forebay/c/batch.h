#ifndef FOREBAY_C_BATCH_H
#define FOREBAY_C_BATCH_H

// NOLINTBEGIN(modernize-*): it is C

#include <forebay/c/base.h>

// Part of <forebay/forebay.h>: a batch and the tensors in it.

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

// A dense part of a batch. It is valid until the batch is released, and must not be written to: a reuse serves the same
// bytes.
typedef struct forebay_tensor {
  size_t struct_size;
  const void* data;                          // its first element; where it lies, `device` says
  uint64_t bytes;                            // elements times the size of one
  int32_t dtype;                             // forebay_dtype
  int32_t rank;                              // how many of `shape` count
  int32_t device;                            // forebay_device
  int32_t device_index;                      // N of cuda:N, as this process counts its GPUs; 0 on the host
  int64_t shape[FOREBAY_MOST_DIMENSIONS];    // outermost first: images [N, C, H, W], [N, H, W, C]; clips [N, T, ...]
  int64_t strides[FOREBAY_MOST_DIMENSIONS];  // in elements; rows follow each other without gaps
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
  int32_t rank;                            // of one sample
  bool is_ragged;                          // boxes and bytes: samples fill different numbers of rows
  int64_t shape[FOREBAY_MOST_DIMENSIONS];  // of one sample; ragged ones have [most, ...]
  const char* const* classes;              // names of class numbers, where they are known
  size_t class_count;
} forebay_field;

// What a sample shows of its image: this region in pixels, mirrored or not, resized to transform.size. Right and bottom
// are just past it. With transform.padding it may reach beyond the image.
typedef struct forebay_view {
  int32_t left, top, right, bottom;
  int32_t width, height;  // of the whole image, as displayed
  int32_t mirror;         // 1 or 0
} forebay_view;

// One step's batch: the right to use one place of the queue. It ends with forebay_batch_release(), not with the feeder,
// and at most queue.max_leases may be held at once. One thread at a time may use it, which need not be the feeder's.
// After its release it must not be used.
typedef struct forebay_batch forebay_batch;

// Facts of the batch and its step. All are 0 for null.
FOREBAY_API uint32_t forebay_batch_size(const forebay_batch* batch);       // samples; in evaluation 0 is possible
FOREBAY_API uint64_t forebay_batch_epoch(const forebay_batch* batch);      // from 0
FOREBAY_API uint64_t forebay_batch_number(const forebay_batch* batch);     // in its epoch, over all ranks
FOREBAY_API uint64_t forebay_batch_step(const forebay_batch* batch);       // from 0; a resumed run continues counting
FOREBAY_API uint64_t forebay_batch_use_index(const forebay_batch* batch);  // 0: it is fresh; then 1, 2, ...
FOREBAY_API bool forebay_batch_is_fresh(const forebay_batch* batch);       // use_index is 0
FOREBAY_API uint64_t forebay_batch_job_fresh(const forebay_batch* batch);  // samples that all ranks had served fresh
// Tensors and labels have a row for each view of each sample: row i * transform.views + v is view v of sample i.
// In memory of the host, until the release; null if there are no samples.
FOREBAY_API const int64_t* forebay_batch_labels(const forebay_batch* batch);  // a row: class numbers, -1 = unlabelled
FOREBAY_API const uint64_t* forebay_batch_ids(const forebay_batch* batch);    // a sample: numbers in the dataset

// Describes a field by its number, where the images are: 0 is "image", 1 is "label", others as forebay_feeder_field()
// counts them. Fails with FOREBAY_ERROR where there is no such field.
FOREBAY_API forebay_status forebay_batch_tensor(const forebay_batch* batch, size_t field, forebay_tensor* tensor,
                                                forebay_error** error);
// The same by its name. To look it up once use forebay_feeder_field_number().
FOREBAY_API forebay_status forebay_batch_tensor_named(const forebay_batch* batch, const char* name,
                                                      forebay_tensor* tensor, forebay_error** error);
// Of a ragged field: how many entries of each row are filled, [rows] of int32 beside the field. Fails with
// FOREBAY_ERROR for a field that is not ragged.
FOREBAY_API forebay_status forebay_batch_counts(const forebay_batch* batch, size_t field, forebay_tensor* tensor,
                                                forebay_error** error);
// The same in memory of the host, without a look at a GPU: one for each row, until the release.
FOREBAY_API forebay_status forebay_batch_counts_on_host(const forebay_batch* batch, size_t field,
                                                        const int32_t** counts, forebay_error** error);
// Writes what each row shows of its sample's image, one after the other to `views`, which has room for `capacity`,
// each `view_size` = sizeof(forebay_view) bytes after the one before. Members that the library does not know stay as
// they are. Fails with FOREBAY_ERROR_ARGUMENT if either number is too small.
FOREBAY_API forebay_status forebay_batch_views(const forebay_batch* batch, forebay_view* views, size_t view_size,
                                               size_t capacity, forebay_error** error);
// Copies a field to memory of the host, and waits until it is there: not at all for labels and fields of kind class,
// multilabel and numbers, which the host has. `bytes`: the field's, else FOREBAY_ERROR.
FOREBAY_API forebay_status forebay_batch_copy(const forebay_batch* batch, size_t field, void* out, uint64_t bytes,
                                              forebay_error** error);

// DLPack's structs, from its header or from a declaration of the caller's.
struct DLManagedTensorVersioned;
struct DLManagedTensor;

// A field for any library that takes DLPack 1.0 (in Python: a capsule "dltensor_versioned"), without a copy and marked
// read-only. It shares the batch's place: that is free again once the batch was released and the deleters of all its
// tensors have been called, on any thread, in any order, before or after the feeder's end. The caller passes the tensor
// to a consumer or calls its deleter. Strides are never null.
//
// On a GPU, work that uses the tensor must be queued on the stream given to forebay_feeder_next() before the deleter is
// called, or on one given to forebay_batch_use_on() or forebay_batch_release_on().
FOREBAY_API forebay_status forebay_batch_dlpack(forebay_batch* batch, size_t field,
                                                struct DLManagedTensorVersioned** tensor, forebay_error** error);
// The same for consumers that know only the form before 1.0 ("dltensor"), which cannot say that it is read-only.
FOREBAY_API forebay_status forebay_batch_dlpack_unversioned(forebay_batch* batch, size_t field,
                                                            struct DLManagedTensor** tensor, forebay_error** error);

// The batch is used on another CUDA stream, too: work put there from now on finds it complete, and its place is filled
// again after all that was put there before the release and the last deleter of its tensors. The stream must exist
// until then. Fails with FOREBAY_ERROR for cudaStreamPerThread and while one of the streams captures a graph. No effect
// without a GPU.
FOREBAY_API forebay_status forebay_batch_use_on(forebay_batch* batch, void* stream, forebay_error** error);

// Ends the batch, on any thread. Null is allowed. On a GPU: all work that uses it has been queued on the stream given
// to forebay_feeder_next(), or on others of which forebay_batch_use_on() was told. It need not be done, and nothing
// waits.
FOREBAY_API void forebay_batch_release(forebay_batch* batch);
// The same for a batch that was used on another CUDA stream, which was made to wait for the first one. If tensors of
// the batch are left, its place is ordered after that stream when their last deleter is called: the stream must exist
// until then, and cudaStreamPerThread is that of the deleter's thread.
FOREBAY_API void forebay_batch_release_on(forebay_batch* batch, void* stream);

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-*)

#endif
