#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "read_request.hpp"

// The interfaces between the reader threads and the decoder threads.
namespace forebay {

// Where the bytes of a sample go once they are decoded.
class BufferReturn {
 public:
  virtual ~BufferReturn() = default;
  // Gives the buffer back for reuse, and buffer.size() bytes to the budget: the size must be as received. Any thread.
  virtual void give_back(std::vector<std::byte> buffer) noexcept = 0;
};

// What decoder threads do with a sample: decode it and put it into its place.
class SampleHandler {
 public:
  virtual ~SampleHandler() = default;
  // For work on several samples at once; called only if DecoderLinks::at_once asks for it. `samples` are all that a
  // thread took from the queue; it then calls handle() for each, in this order, and they stay in place until then. Any
  // exception ends the run.
  virtual void prepare(std::span<const EncodedSample> /*samples*/, unsigned /*thread*/) {}
  // Threads call this concurrently; `thread` is the number of the calling one, from 0, to select its scratch memory.
  // Must not wait for other samples. Returns how many of the requested samples were put into their places. Throws
  // SampleError if none of them can be served; any other exception ends the run.
  virtual std::uint32_t handle(const EncodedSample& sample, unsigned thread) = 0;
};

}  // namespace forebay
