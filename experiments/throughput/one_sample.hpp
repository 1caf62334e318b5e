#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>

#include "assemble/transform.hpp"
#include "decode/jpeg_decoder.hpp"
#include "decode/raw_sample.hpp"

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

// From a sample's number to its pixels in a slot, on one thread. This is the work of a reader (Dataset::read) and of
// Pipeline::handle in src/feeder/pipeline.cpp without what moves samples between threads: a change there that changes
// what is done to a sample belongs here too, or the bare loop is no longer the limit of the feeder.
class SampleWorker {
 public:
  // Both references must outlive it.
  SampleWorker(const Options& options, const Dataset& dataset, const Transform& transform)
      : dataset_(dataset),
        transform_(transform),
        jpeg_{.exif = options.transform.exif, .max_pixels = options.transform.max_pixels} {}

  // Writes sample `id` as it is shown at `position` of `epoch`. Throws SampleError when it cannot be read or decoded.
  // REQUIRES: out.size() == transform.sample_bytes().
  void load(std::uint64_t id, std::uint64_t epoch, std::uint64_t position, std::span<std::byte> out) {
    dataset_.read(id, bytes_);
    const Sample sample = dataset_.sample(id);
    if (sample.encoding == Encoding::jpeg) {
      decoder_.decode(bytes_.get(), jpeg_, image_);
    } else {
      decode_raw(bytes_.get(), sample.width, sample.height, sample.channels, image_);
    }
    transform_.apply(image_, sample.box, epoch, position, out, scratch_);
  }

 private:
  const Dataset& dataset_;
  const Transform& transform_;
  JpegOptions jpeg_;
  Bytes bytes_;
  JpegDecoder decoder_;
  Image image_;
  Transform::Scratch scratch_;
};

}  // namespace forebay::throughput
