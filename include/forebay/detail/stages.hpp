#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <forebay/detail/pipeline.hpp>

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
  // `thread` is the number of the calling thread, from 0, for scratch memory of its own; threads call at the same
  // time. Must not wait for other samples. Returns how many samples were put into their places, of those that the
  // request asks for. Throws SampleError when none of them can be served; anything else that is thrown ends the run.
  virtual std::uint32_t handle(const EncodedSample& sample, unsigned thread) = 0;
};

}  // namespace forebay
