#pragma once

#include <cstddef>

// What Forebay calls of nvJPEG, declared anew: the library is looked for when a run begins, and neither its header nor
// the library itself is needed to build. Names and values are those of NVIDIA's documentation of versions 11 to 13.
namespace forebay::nvjpeg {

enum Status : int { kSuccess = 0 };

enum Backend : int { kDefault = 0, kGpuHybrid = 2, kHardware = 3 };

// Chroma as libjpeg-turbo enlarges it, more or less. Since version 12.1.
constexpr unsigned kSmoothUpsampling = 1U << 5U;

enum Subsampling : int { k444 = 0 };

// Interleaved, into the first channel of an Output.
constexpr int kInterleavedRgb = 5;

// nvjpegImage_t: where pixels go on the GPU. Bytes from one row to the next are the pitch.
struct Output {
  unsigned char* channel[4];
  std::size_t pitch[4];
};

// The library's own objects.
struct LibraryHandle;
struct DecoderState;
struct ParsedStream;

// libraryPropertyType.
enum Property : int { kMajor = 0, kMinor = 1, kPatch = 2 };

// Each member is the function of its name with "nvjpeg" before it. They return a Status; what is named last is what
// they make or fill in. Functions of a handle may be called from any thread, those of a state by one at a time.
struct Functions {
  int (*GetProperty)(int property, int* value);
  int (*CreateEx)(int backend, void* device_allocator, void* pinned_allocator, unsigned flags, LibraryHandle** handle);
  int (*Destroy)(LibraryHandle* handle);
  int (*JpegStateCreate)(LibraryHandle* handle, DecoderState** state);
  int (*JpegStateDestroy)(DecoderState* state);
  int (*JpegStreamCreate)(LibraryHandle* handle, ParsedStream** stream);
  int (*JpegStreamDestroy)(ParsedStream* stream);
  int (*JpegStreamParse)(LibraryHandle* handle, const unsigned char* data, std::size_t length, int save_metadata,
                         int save_stream, ParsedStream* stream);
  // Of the hardware backend; supported where 0 is filled in.
  int (*DecodeBatchedSupported)(LibraryHandle* handle, ParsedStream* stream, int* unsupported);
  int (*DecodeBatchedPreAllocate)(LibraryHandle* handle, DecoderState* state, int batch_size, int width, int height,
                                  int subsampling, int output_format);
  int (*DecodeBatchedInitialize)(LibraryHandle* handle, DecoderState* state, int batch_size, int max_cpu_threads,
                                 int output_format);
  int (*DecodeBatched)(LibraryHandle* handle, DecoderState* state, const unsigned char* const* data,
                       const std::size_t* lengths, Output* destinations, void* cuda_stream);
  // Null before version 12.
  int (*GetHardwareDecoderInfo)(LibraryHandle* handle, unsigned* engines, unsigned* cores_per_engine);
};

}  // namespace forebay::nvjpeg
