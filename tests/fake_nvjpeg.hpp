#pragma once

#include <atomic>

namespace forebay::testing {

// What the fake nvJPEG (fake_nvjpeg.cpp, a library of its own) pretends, and what was done with it. Images are told
// apart by their width. Set before it is used.
struct FakeNvjpeg {
  std::atomic<bool> starts{true};
  std::atomic<unsigned> engines{7};                 // of the hardware decoder; 0 = there is none
  std::atomic<unsigned> cores{1};                   // of each engine
  std::atomic<bool> starts_without_engines{false};  // the backend for the hardware decoder, on a GPU that has none
  std::atomic<bool> knows_upsampling{true};         // the flag that asks for it; versions before 12.1 do not
  std::atomic<unsigned> damaged_width{0};           // parsing says that such a file is damaged
  std::atomic<unsigned> unsupported_width{0};       // the hardware decoder does not take such an image
  std::atomic<unsigned> failing_width{0};           // a batch with such an image fails
  std::atomic<bool> states_fail{false};             // nobody gets a state to decode with
  std::atomic<int> grey_levels{0};                  // added to every value of a pixel
  std::atomic<bool> writes_at_call{false};          // as the JPEG engines of an H100, whatever the stream waits for

  std::atomic<int> objects{0};         // that were made and not ended
  std::atomic<int> batches{0};         // decoded
  std::atomic<int> largest_batch{0};   // images
  std::atomic<int> growths{0};         // buffers made anew because an image was larger than those before
  std::atomic<void*> stream{nullptr};  // of the last batch
  std::atomic<int> misuse{0};          // calls that nvJPEG would answer with an error of the caller
};

}  // namespace forebay::testing
