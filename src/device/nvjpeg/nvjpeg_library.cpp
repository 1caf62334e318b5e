// Loads nvJPEG when a run asks for it; Forebay is not linked to it. Several names are tried, the
// newest first, or the file that FOREBAY_NVJPEG names. Of its backends the hardware engines come
// first, then kernels; some GPUs start the hardware backend without having an engine, so it is
// asked. The functions needed are those of version 11.4.

#include "nvjpeg_library.hpp"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include <forebay/error.hpp>

#include "base/text.hpp"

namespace forebay::device {
namespace {

constexpr std::array<const char*, 3> kNames{"libnvjpeg.so.13", "libnvjpeg.so.12", "libnvjpeg.so"};

// nvjpegStatus_t in order.
constexpr std::array<std::string_view, 11> kStatusNames{"SUCCESS",
                                                        "NOT_INITIALIZED",
                                                        "INVALID_PARAMETER",
                                                        "BAD_JPEG",
                                                        "JPEG_NOT_SUPPORTED",
                                                        "ALLOCATOR_FAILURE",
                                                        "EXECUTION_FAILED",
                                                        "ARCH_MISMATCH",
                                                        "INTERNAL_ERROR",
                                                        "IMPLEMENTATION_NOT_SUPPORTED",
                                                        "INCOMPLETE_BITSTREAM"};

template <typename Function>
bool find(void* library, const char* name, Function*& function) {
  // POSIX allows what C++ leaves to the implementation: an object's address that is a function's.
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

std::string nvjpeg_status_text(int status) {
  const auto place = static_cast<std::size_t>(status);
  const std::string number = std::to_string(status);
  return place < kStatusNames.size() ? "NVJPEG_STATUS_" + std::string(kStatusNames[place]) + " (" + number + ")"
                                     : "status " + number;
}

void NvjpegLibrary::Close::operator()(void* library) const noexcept { static_cast<void>(::dlclose(library)); }

NvjpegLibrary::NvjpegLibrary() {
  const char* const given = std::getenv("FOREBAY_NVJPEG");
  if (given == nullptr || *given == '\0') {
    use_first_of(kNames);
    return;
  }
  try {
    use(given);
  } catch (const Error& error) {
    throw Error(std::string("FOREBAY_NVJPEG = ") + given + ": " + error.what());
  }
}

NvjpegLibrary::NvjpegLibrary(std::span<const char* const> files) { use_first_of(files); }

NvjpegLibrary::~NvjpegLibrary() { static_cast<void>(functions_.Destroy(handle_)); }

// A newer library may be there than the driver allows, and an older one beside it.
void NvjpegLibrary::use_first_of(std::span<const char* const> files) {
  std::string refusals;
  for (const char* const file : files) {
    try {
      use(file);
      return;
    } catch (const Error& error) {
      refusals += (refusals.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  throw Error(
      "no libnvjpeg.so can be used (" + refusals +
      "): install one that suits the driver (nvidia-smi shows up to which CUDA version that goes; CUDA toolkit, "
      "or the Python package nvidia-nvjpeg) and put its folder into LD_LIBRARY_PATH, or name the file in "
      "FOREBAY_NVJPEG");
}

void NvjpegLibrary::use(const char* file) {
  file_ = file;
  // Its code stays when it is closed: CUDA's libraries leave handlers for the end of the process behind.
  library_.reset(::dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE));
  if (!library_) throw Error(::dlerror());
  find_functions();
  start();
}

void NvjpegLibrary::find_functions() {
  void* const library = library_.get();
  nvjpeg::Functions& f = functions_;
  const bool complete = find(library, "nvjpegGetProperty", f.GetProperty) &&
                        find(library, "nvjpegCreateEx", f.CreateEx) && find(library, "nvjpegDestroy", f.Destroy) &&
                        find(library, "nvjpegJpegStateCreate", f.JpegStateCreate) &&
                        find(library, "nvjpegJpegStateDestroy", f.JpegStateDestroy) &&
                        find(library, "nvjpegJpegStreamCreate", f.JpegStreamCreate) &&
                        find(library, "nvjpegJpegStreamDestroy", f.JpegStreamDestroy) &&
                        find(library, "nvjpegJpegStreamParse", f.JpegStreamParse) &&
                        find(library, "nvjpegDecodeBatchedSupported", f.DecodeBatchedSupported) &&
                        find(library, "nvjpegDecodeBatchedPreAllocate", f.DecodeBatchedPreAllocate) &&
                        find(library, "nvjpegDecodeBatchedInitialize", f.DecodeBatchedInitialize) &&
                        find(library, "nvjpegDecodeBatched", f.DecodeBatched);
  if (!complete)
    throw Error(file_ + " lacks functions that version 11.4 has (" + ::dlerror() + "): install a newer one");
  static_cast<void>(find(library, "nvjpegGetHardwareDecoderInfo", f.GetHardwareDecoderInfo));
}

void NvjpegLibrary::start() {
  int status = nvjpeg::kSuccess;
  for (const nvjpeg::Backend backend : {nvjpeg::kHardware, nvjpeg::kGpuHybrid, nvjpeg::kDefault}) {
    // An older library knows the flag not, and says so.
    for (const unsigned flags : {nvjpeg::kSmoothUpsampling, 0U}) {
      const int started = functions_.CreateEx(backend, nullptr, nullptr, flags, &handle_);
      if (started == nvjpeg::kSuccess) {
        backend_ = backend;
        if (has_engines()) return;
        static_cast<void>(functions_.Destroy(handle_));
        break;
      }
      status = started;
    }
  }
  throw Error(version() + " does not start on this GPU: nvjpegCreateEx gave " + nvjpeg_status_text(status));
}

// The hardware backend starts on some GPUs that have no engine for it. A library that does not tell is believed.
bool NvjpegLibrary::has_engines() {
  engines_ = cores_ = 0;
  if (!has_hardware() || functions_.GetHardwareDecoderInfo == nullptr) return true;
  if (functions_.GetHardwareDecoderInfo(handle_, &engines_, &cores_) == nvjpeg::kSuccess) return engines_ > 0;
  engines_ = cores_ = 0;
  return true;
}

std::string NvjpegLibrary::version() const {
  std::string text = "nvJPEG";
  char before = ' ';
  for (const nvjpeg::Property property : {nvjpeg::kMajor, nvjpeg::kMinor, nvjpeg::kPatch}) {
    int value = 0;
    if (functions_.GetProperty(property, &value) != nvjpeg::kSuccess) break;
    text += before + std::to_string(value);
    before = '.';
  }
  return text + " (" + file_ + ")";
}

std::string NvjpegLibrary::describe() const {
  if (!has_hardware()) return version() + ", by kernels (the GPU has no hardware decoder for it)";
  if (engines_ == 0) return version() + ", hardware decoder";
  return version() + ", hardware decoder with " + counted(engines_, "engine") +
         (cores_ == 0 ? "" : " of " + counted(cores_, "core")) + (engines_ > 1 && cores_ > 0 ? " each" : "");
}

}  // namespace forebay::device
