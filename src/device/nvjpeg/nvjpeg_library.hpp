#pragma once

#include <memory>
#include <span>
#include <string>

#include "nvjpeg_api.hpp"

namespace forebay::device {

// nvJPEG as this machine has it, started on a GPU.
class NvjpegLibrary {
 public:
  // Looks for the library (libnvjpeg.so.13, .12, libnvjpeg.so as the loader finds them; the file that the environment
  // variable FOREBAY_NVJPEG names instead, where it is set) and starts the first that can be used on the GPU that is
  // current on the calling thread: with the hardware decoder where there is one, else with decoding by kernels. Throws
  // Error that says why each cannot be used and what to do.
  NvjpegLibrary();
  // The same with these files.
  explicit NvjpegLibrary(std::span<const char* const> files);
  ~NvjpegLibrary();
  NvjpegLibrary(const NvjpegLibrary&) = delete;
  NvjpegLibrary& operator=(const NvjpegLibrary&) = delete;

  [[nodiscard]] const nvjpeg::Functions& functions() const noexcept { return functions_; }
  [[nodiscard]] nvjpeg::LibraryHandle* handle() const noexcept { return handle_; }
  [[nodiscard]] bool has_hardware() const noexcept { return backend_ == nvjpeg::kHardware; }
  // Engines of the hardware decoder; 0 where it has none, or does not tell.
  [[nodiscard]] unsigned engines() const noexcept { return engines_; }
  // "nvJPEG 13.3.2 (libnvjpeg.so.13), hardware decoder with 7 engines of 1 core each".
  [[nodiscard]] std::string describe() const;

 private:
  struct Close {
    void operator()(void* library) const noexcept;
  };

  void use_first_of(std::span<const char* const> files);
  void use(const char* file);
  void find_functions();
  void start();
  // REQUIRES: started.
  [[nodiscard]] bool has_engines();
  // By its file, for messages.
  [[nodiscard]] std::string version() const;

  std::unique_ptr<void, Close> library_;
  std::string file_;
  nvjpeg::Functions functions_{};
  nvjpeg::LibraryHandle* handle_ = nullptr;
  nvjpeg::Backend backend_ = nvjpeg::kDefault;
  unsigned engines_ = 0;
  unsigned cores_ = 0;  // of each engine; 0 likewise
};

// A status of nvJPEG in words: "NVJPEG_STATUS_ARCH_MISMATCH (7)".
[[nodiscard]] std::string nvjpeg_status_text(int status);

}  // namespace forebay::device
