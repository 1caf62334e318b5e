#pragma once

#include <atomic>

namespace forebay::testing {

// Controls and counters of the fake nvJPEG (fake_nvjpeg.cpp, a separate library). Images are
// identified by their width. Set before it is used.
struct FakeNvjpeg {
  std::atomic<bool> starts{true};
  std::atomic<unsigned> engines{7};                 // of the hardware decoder; 0 = no such decoder
  std::atomic<unsigned> cores{1};                   // of each engine
  std::atomic<bool> starts_without_engines{false};  // on a GPU without the decoder
  std::atomic<bool> knows_upsampling{true};         // accepts the flag that requests it; versions before 12.1 do not
  std::atomic<unsigned> damaged_width{0};           // parsing reports a file of this width as damaged
  std::atomic<unsigned> unsupported_width{0};       // the hardware decoder refuses images of this width
  std::atomic<unsigned> failing_width{0};           // a batch with an image of this width fails
  std::atomic<bool> states_fail{false};             // decoder states cannot be created
  std::atomic<int> grey_levels{0};                  // added to every value of a pixel
  std::atomic<bool> writes_at_call{false};          // before the stream's turn, like an H100

  std::atomic<int> objects{0};         // created and not destroyed
  std::atomic<int> batches{0};         // decoded
  std::atomic<int> largest_batch{0};   // images
  std::atomic<int> growths{0};         // buffers reallocated because an image was larger than all before
  std::atomic<void*> stream{nullptr};  // of the last batch
  std::atomic<int> misuse{0};          // calls that nvJPEG would refuse as the caller's error
};

}  // namespace forebay::testing
