#pragma once

namespace forebay {

// Ranges on the calling thread's row of an NVIDIA profiler (NVTX), if this build has them (FOREBAY_NVTX); otherwise
// these do nothing. A thread's ranges nest: nvtx_end() ends the one that began last. Any thread. `name` is copied.
void nvtx_begin(const char* name) noexcept;
void nvtx_end() noexcept;

// Sets the name of the calling thread in a profiler. `name` is copied.
void nvtx_name_thread(const char* name) noexcept;

// A range that lasts as long as the object.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name) noexcept { nvtx_begin(name); }
  ~NvtxRange() { nvtx_end(); }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace forebay
