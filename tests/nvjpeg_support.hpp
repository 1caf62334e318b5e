#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

#include "fake_nvjpeg.hpp"

namespace forebay::testing {

// While it exists, Forebay finds the fake nvJPEG. One object at a time.
class UseFakeNvjpeg {
 public:
  UseFakeNvjpeg() : library_(::dlopen(FOREBAY_FAKE_NVJPEG, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
    if (library_ == nullptr) throw std::runtime_error(::dlerror());
    const auto get = reinterpret_cast<FakeNvjpeg* (*)()>(::dlsym(library_, "fake_nvjpeg"));
    if (get == nullptr) throw std::runtime_error("the fake nvJPEG has no controls");
    control_ = get();
    control_->~FakeNvjpeg();
    new (control_) FakeNvjpeg;
    ::setenv("FOREBAY_NVJPEG", FOREBAY_FAKE_NVJPEG, 1);
  }
  ~UseFakeNvjpeg() {
    ::unsetenv("FOREBAY_NVJPEG");
    ::dlclose(library_);
  }
  UseFakeNvjpeg(const UseFakeNvjpeg&) = delete;
  UseFakeNvjpeg& operator=(const UseFakeNvjpeg&) = delete;

  FakeNvjpeg* operator->() const noexcept { return control_; }

 private:
  void* library_;
  FakeNvjpeg* control_ = nullptr;
};

}  // namespace forebay::testing
