#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "device.hpp"

// Chooses the device that a rank feeds, from `device = "..."` and the rank's position within its node.
namespace forebay::device {

// The value of `device = "..."`: auto | host | cuda | cuda:N.
struct DeviceName {
  enum class Kind { automatic, host, cuda };
  Kind kind = Kind::automatic;
  std::optional<unsigned> gpu = std::nullopt;  // N of cuda:N
};

// Nothing if it is none of them.
[[nodiscard]] std::optional<DeviceName> parse_device_name(std::string_view text) noexcept;

// The position of a rank among those of its node.
struct NodePlace {
  unsigned local_rank = 0;
  unsigned local_ranks = 1;  // on the node, as far as known
};

struct DeviceChoice {
  std::unique_ptr<Device> device;
  std::string notice;  // a line to be logged, such as that "auto" found no usable GPU; may be empty
  std::string gpu;     // an identifier of the GPU (or part of it), the same everywhere; empty on the host
  std::string doubt;   // a line about this rank alone: another device may have been meant; may be empty
};

// The device requested by `name`. "auto" takes a GPU if this build and this machine have a working one, else the host.
// Without a number it is the GPU that is current on the calling thread, which the trainer uses; if none is, the local
// rank modulo the number of visible GPUs; a `place` with one rank takes the local rank from the environment
// (base/launch.hpp). Throws ConfigError, saying why and what to do, if a GPU is requested by name and there is none, or
// not that one; Error if the GPU does not work.
[[nodiscard]] DeviceChoice make_device(const std::string& name, NodePlace place = {});

// The fallback of "auto" if its chosen GPU turns out to be unusable: the host, with a notice that says why.
[[nodiscard]] DeviceChoice host_instead(const std::string& why);

// A line that says which other ranks use the GPU of `rank`; empty if none does. `gpus`: DeviceChoice::gpu of all ranks
// of the job, by rank. Counting ranks and GPUs would not suffice, because a launcher may show each rank a different
// one.
[[nodiscard]] std::string shared_gpu_notice(std::span<const std::string> gpus, std::size_t rank);

// The GPUs that CUDA offers to this process. It and the functions below are defined by the backend (cuda/gpus.cpp) or,
// in a build without CUDA, by no_gpus.cpp.
struct Gpus {
  unsigned count = 0;           // that this process may use
  std::string why_not;          // if there are none: why, and what to do about it
  bool is_worth_saying = true;  // false: a build without CUDA on a machine without NVIDIA's driver
};

// Never throws because of CUDA: a machine without a driver has no GPUs.
[[nodiscard]] Gpus find_gpus();

// The GPU that is current on the calling thread; nothing if the thread has not used CUDA. Throws Error. REQUIRES:
// find_gpus() has found one.
[[nodiscard]] std::optional<unsigned> current_gpu();

// An identifier, the same everywhere, of a GPU or of the part of one that MIG gives to this process. REQUIRES: number <
// find_gpus().count.
[[nodiscard]] std::string gpu_identity(unsigned number);

// REQUIRES: number < find_gpus().count. Throws DeviceError if the GPU cannot be used.
[[nodiscard]] std::unique_ptr<Device> make_cuda_device(unsigned number);

}  // namespace forebay::device
