#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "read_request.hpp"

// What stands between the reader threads and the decoder threads. Not installed.
namespace forebay {

// Where the bytes of a sample go once they are decoded.
class BufferReturn {
 public:
  virtual ~BufferReturn() = default;
  // Gives the buffer back for reuse and buffer.size() bytes to the budget: the size must be as it was received.
  // Any thread.
  virtual void give_back(std::vector<std::byte> buffer) noexcept = 0;
};

// What decoder threads do with a sample: decode it and put it into its place.
class SampleHandler {
 public:
  virtual ~SampleHandler() = default;
  // Called before handle() with all samples that a thread took at once, which it then handles in this order, and which
  // stay where they are until it has: for what is done to several together. Only where DecoderLinks::at_once asks for
  // it. Any exception ends the run.
  virtual void prepare(std::span<const EncodedSample> /*samples*/, unsigned /*thread*/) {}
  // `thread` is the number of the calling thread, from 0, for scratch memory of its own; threads call at the same
  // time. Must not wait for other samples. Returns how many samples were put into their places, of those that the
  // request asks for. Throws SampleError when none of them can be served; anything else that is thrown ends the run.
  virtual std::uint32_t handle(const EncodedSample& sample, unsigned thread) = 0;
};

}  // namespace forebay
