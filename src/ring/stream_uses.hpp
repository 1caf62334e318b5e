#pragma once

#include <atomic>

#include "device/device.hpp"

namespace forebay {

// Where the uses of one piece of device memory end on the streams of the trainer, so that it is written to after them.
// One event stands for all uses: whoever ends a use lets his stream wait for the event before he records it anew, since
// a record forgets the one before. He does so on the stream of the last use too, where it is nothing to wait for: a
// handle that looks the same may be another stream, made after that one was destroyed.
class StreamUses {
 public:
  // Throws Error when the device has no event left.
  explicit StreamUses(Device& device) : device_(device), event_(device.make_event()) {}

  // A use ends where the stream is now. Any thread; threads that end uses at one time take turns. Throws Error.
  void end(StreamView stream);
  // What is put on `stream` from now on happens after the uses that have ended.
  // REQUIRES: none ends meanwhile, and the caller has acquired what the last one's thread did.
  void put_after(StreamView stream);

 private:
  Device& device_;
  DeviceEvent event_;
  bool used_ = false;
  std::atomic_flag busy_;
};

}  // namespace forebay
