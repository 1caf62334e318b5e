#pragma once

#include <cstddef>
#include <cstdint>

#include "device_words.cuh"

namespace forebay::cuda {

constexpr std::uint32_t kRingRows = 8;  // a power of two
constexpr std::int32_t kRowBytes = kLanes * kChunk;

// The rows of the canvas that a warp's strip needs, copied to a ring in its shared memory while earlier ones are used:
// the latency of the GPU's memory is longer than a row takes. Each lane copies one chunk of each row.
class IncomingRows {
 public:
  // Starts all copies but one that the ring has room for. `ring`: kRingRows * kRowBytes, aligned to kChunk. `first`:
  // the strip's first byte in the first row, aligned likewise; `row_bytes`: from one row to the next, a multiple of
  // kChunk. A strip takes `chunks` of each of `rows`.
  __device__ __forceinline__ IncomingRows(std::byte* ring, const std::uint8_t* first, std::size_t row_bytes,
                                          std::int32_t rows, std::int32_t chunks, std::int32_t lane) noexcept
      : ring_(ring),
        next_(first + kChunk * lane),
        row_bytes_(row_bytes),
        to_come_(lane < chunks ? rows : 0),
        lane_bytes_(static_cast<std::uint32_t>(kChunk * lane)) {
#pragma unroll
    for (std::uint32_t i = 1; i < kRingRows; ++i) start_next();
  }

  // Starts the next copy, into the place of the row that is kRingRows before it. A copy that there is nothing for
  // counts too, so that copies can be told by their number.
  __device__ __forceinline__ void start_next() noexcept {
    if (to_come_ > 0) __pipeline_memcpy_async(row(started_) + lane_bytes_, next_, kChunk);
    __pipeline_commit();
    next_ += row_bytes_;
    --to_come_;
    ++started_;
  }

  // Waits until all of the lane's copies but the last kPending are complete. Other lanes' are after __syncwarp() only.
  template <std::uint32_t kPending>
  __device__ __forceinline__ void wait() const noexcept {
    __pipeline_wait_prior(kPending);
  }

  // The place of row i, counted from the strip's first. Behind the strip's last row it holds anything.
  [[nodiscard]] __device__ __forceinline__ std::byte* row(std::uint32_t i) const noexcept {
    return ring_ + i % kRingRows * kRowBytes;
  }
  // The lane's own chunk of it.
  [[nodiscard]] __device__ __forceinline__ uint4 chunk(std::uint32_t i) const noexcept {
    return *reinterpret_cast<const uint4*>(row(i) + lane_bytes_);
  }

 private:
  std::byte* ring_;
  const std::uint8_t* next_;
  std::size_t row_bytes_;
  std::int32_t to_come_;  // rows whose copies this lane has not started
  std::uint32_t lane_bytes_;
  std::uint32_t started_ = 0;
};

}  // namespace forebay::cuda
