// A libnvjpeg.so without NVIDIA's: decodes with libjpeg into the memory of the fake GPU. It takes
// what it needs of the fake runtime from the program that loads it, and reads files when the stream
// executes the work, as late as nvJPEG may.
#include <atomic>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <jpeglib.h>

#include "fake_cuda.hpp"
#include "fake_nvjpeg.hpp"

namespace forebay::testing {
namespace {

enum Status : int {
  kSuccess = 0,
  kInvalidParameter = 2,
  kBadJpeg = 3,
  kExecutionFailed = 6,
  kArchMismatch = 7,
};
constexpr int kHardware = 3;
constexpr int kInterleavedRgb = 5;

FakeNvjpeg control;

struct Handle {
  int backend;
};
struct State {
  int batch_size = 0;
  // Sizes of the hardware decoder's buffers, one for each place in a batch.
  std::vector<std::size_t> buffers;
  std::shared_ptr<std::atomic<int>> running = std::make_shared<std::atomic<int>>(0);  // images in progress on streams
};
struct Stream {
  unsigned width = 0;
};
struct Picture {
  unsigned width = 0;
  unsigned height = 0;
  std::vector<unsigned char> pixels;
};

struct Errors {
  jpeg_error_mgr manager;
  std::jmp_buf escape;
};

void escape(j_common_ptr info) { std::longjmp(reinterpret_cast<Errors*>(info->err)->escape, 1); }

void read_into(Picture& picture, jpeg_decompress_struct& info, std::span<const unsigned char> file, bool pixels) {
  jpeg_mem_src(&info, file.data(), static_cast<unsigned long>(file.size()));
  jpeg_read_header(&info, TRUE);
  picture.width = info.image_width;
  picture.height = info.image_height;
  if (!pixels) return;
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  picture.pixels.resize(std::size_t{3} * picture.width * picture.height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = picture.pixels.data() + std::size_t{3} * picture.width * info.output_scanline;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
}

// False if libjpeg gives up on the file.
bool read(std::span<const unsigned char> file, bool pixels, Picture& picture) {
  jpeg_decompress_struct info{};
  Errors errors{};
  info.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = escape;
  errors.manager.output_message = [](j_common_ptr) {};
  jpeg_create_decompress(&info);
  const bool failed = setjmp(errors.escape) != 0;
  if (!failed) read_into(picture, info, file, pixels);
  jpeg_destroy_decompress(&info);
  return !failed;
}

bool is(unsigned width, const std::atomic<unsigned>& wanted) { return wanted != 0 && width == wanted; }

int misused() {
  ++control.misuse;
  return kInvalidParameter;
}

template <typename T>
int make(T value, T** made) {
  ++control.objects;
  *made = new T(value);
  return kSuccess;
}
template <typename T>
int end(T* made) {
  if (made == nullptr) return misused();
  --control.objects;
  delete made;
  return kSuccess;
}

void note_batch(int images) {
  ++control.batches;
  int largest = control.largest_batch;
  while (images > largest && !control.largest_batch.compare_exchange_weak(largest, images)) {
  }
}

void note_size(State& state, std::size_t place, std::size_t bytes) {
  if (place >= state.buffers.size()) state.buffers.resize(place + 1);
  if (state.buffers[place] >= bytes) return;
  ++control.growths;
  state.buffers[place] = bytes;
}

}  // namespace
}  // namespace forebay::testing

using namespace forebay::testing;

extern "C" {

struct FakeOutput {
  unsigned char* channel[4];
  std::size_t pitch[4];
};

FakeNvjpeg* fake_nvjpeg() { return &control; }

int nvjpegGetProperty(int property, int* value) {
  *value = property == 0 ? 13 : property;
  return kSuccess;
}

int nvjpegCreateEx(int backend, void* device, void* pinned, unsigned flags, Handle** handle) {
  if (device != nullptr || pinned != nullptr) return misused();
  if (flags != 0 && !control.knows_upsampling) return kInvalidParameter;
  if (!control.starts) return kArchMismatch;
  if (backend == kHardware && control.engines == 0 && !control.starts_without_engines) return kArchMismatch;
  return make(Handle{backend}, handle);
}
int nvjpegDestroy(Handle* handle) { return end(handle); }

int nvjpegGetHardwareDecoderInfo(Handle*, unsigned* engines, unsigned* cores) {
  *engines = control.engines;
  *cores = control.cores;
  return kSuccess;
}

int nvjpegJpegStateCreate(Handle*, State** state) {
  return control.states_fail ? int{kExecutionFailed} : make(State{}, state);
}
int nvjpegJpegStateDestroy(State* state) { return end(state); }
int nvjpegJpegStreamCreate(Handle*, Stream** stream) { return make(Stream{}, stream); }
int nvjpegJpegStreamDestroy(Stream* stream) { return end(stream); }

int nvjpegJpegStreamParse(Handle*, const unsigned char* data, std::size_t length, int, int, Stream* stream) {
  Picture picture;
  if (!read({data, length}, false, picture) || is(picture.width, control.damaged_width)) return kBadJpeg;
  stream->width = picture.width;
  return kSuccess;
}

int nvjpegDecodeBatchedSupported(Handle* handle, Stream* stream, int* unsupported) {
  if (handle->backend != kHardware || control.engines == 0) return misused();
  *unsupported = is(stream->width, control.unsupported_width) ? 1 : 0;
  return kSuccess;
}

int nvjpegDecodeBatchedPreAllocate(Handle*, State* state, int batch_size, int width, int height, int, int format) {
  if (batch_size <= 0 || width <= 0 || height <= 0 || format != kInterleavedRgb) return misused();
  state->buffers.assign(static_cast<std::size_t>(batch_size), std::size_t{3} * width * height);
  return kSuccess;
}

int nvjpegDecodeBatchedInitialize(Handle*, State* state, int batch_size, int threads, int format) {
  if (batch_size <= 0 || threads <= 0 || format != kInterleavedRgb) return misused();
  if (*state->running > 0) return misused();
  state->batch_size = batch_size;
  return kSuccess;
}

int nvjpegDecodeBatched(Handle*, State* state, const unsigned char* const* data, const std::size_t* lengths,
                        FakeOutput* outputs, void* stream) {
  if (state->batch_size == 0) return misused();
  control.stream = stream;
  for (int i = 0; i < state->batch_size; ++i) {
    const std::span file(data[i], lengths[i]);
    Picture picture;
    if (!read(file, false, picture) || is(picture.width, control.failing_width)) {
      state->batch_size = 0;
      return kExecutionFailed;
    }
    const std::size_t row = std::size_t{3} * picture.width;
    std::byte* const to = behind(outputs[i].channel[0], outputs[i].pitch[0] * picture.height);
    if (to == nullptr || outputs[i].pitch[0] < row) return misused();
    note_size(*state, static_cast<std::size_t>(i), row * picture.height);
    ++*state->running;
    const auto decode = [file, to, pitch = outputs[i].pitch[0], row, running = state->running] {
      --*running;
      Picture decoded;
      if (!read(file, true, decoded)) return;
      for (unsigned char& value : decoded.pixels) {
        value = static_cast<unsigned char>(value + (value < 200 ? control.grey_levels.load() : 0));
      }
      for (std::size_t y = 0; y < decoded.height; ++y) {
        std::memcpy(to + y * pitch, decoded.pixels.data() + y * row, row);
      }
    };
    if (control.writes_at_call)
      decode();
    else if (launch_on_host(decode, stream) != cudaSuccess)
      return kExecutionFailed;
  }
  note_batch(state->batch_size);
  return kSuccess;
}

}  // extern "C"
