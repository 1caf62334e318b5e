#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <forebay/dataset.hpp>

#include "make/sample_maker.hpp"

namespace forebay::throughput {

// A thread's buffer of encoded bytes; grows to the largest sample it has met, then stays.
class Bytes final : public ReadTarget {
 public:
  std::span<std::byte> reserve(std::size_t bytes) override {
    if (memory_.size() < bytes) memory_.resize(bytes);
    return bytes_ = std::span(memory_).first(bytes);
  }
  [[nodiscard]] std::span<const std::byte> get() const noexcept { return bytes_; }

 private:
  std::vector<std::byte> memory_;
  std::span<std::byte> bytes_;
};

// From a sample's number to its pixels in a slot, on one thread: the work of a reader and of a decoder thread without
// what moves samples between them.
class SampleWorker {
 public:
  // All must outlive it. `kernels` as JpegDecoder takes them.
  SampleWorker(const Dataset& dataset, const SampleMaker& maker, const PixelKernels* kernels = nullptr)
      : dataset_(dataset), maker_(maker) {
    bench_.decoder = ImageDecoder(kernels);
  }

  // Writes sample `id` as it is shown at `position` of `epoch`. Throws SampleError when it cannot be read or decoded.
  // REQUIRES: out.size() == maker.sample_bytes().
  void load(std::uint64_t id, std::uint64_t epoch, std::uint64_t position, std::span<std::byte> out) {
    dataset_.read(id, bytes_);
    maker_.make(bytes_.get(), dataset_.sample(id), epoch, position, out, bench_);
  }

 private:
  const Dataset& dataset_;
  const SampleMaker& maker_;
  Bytes bytes_;
  SampleMaker::Workspace bench_;
};

}  // namespace forebay::throughput
