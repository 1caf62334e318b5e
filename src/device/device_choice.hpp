#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "device.hpp"

// Which device a rank feeds, from `device = "..."` and the rank's place on its node.
namespace forebay::device {

// What `device = "..."` says: auto | host | cuda | cuda:N.
struct DeviceName {
  enum class Kind { automatic, host, cuda };
  Kind kind = Kind::automatic;
  std::optional<unsigned> gpu = std::nullopt;  // N of cuda:N
};

// Nothing when it is none of them.
[[nodiscard]] std::optional<DeviceName> parse_device_name(std::string_view text) noexcept;

// Where a rank stands among those of its node.
struct NodePlace {
  unsigned local_rank = 0;
  unsigned local_ranks = 1;  // on the node, as far as is known
};

struct DeviceChoice {
  std::unique_ptr<Device> device;
  std::string notice;  // a line that people should see, e.g. that "auto" found no GPU it can use; may be empty
  std::string gpu;     // names the GPU (or the part of it) everywhere in the same way; empty on the host
  std::string doubt;   // a line about this rank alone: another device may have been meant; may be empty
};

// The device that `name` asks for. "auto" takes a GPU where this build and this machine have one that works, else the
// host. Without a number it is the GPU that is current on the calling thread, on which the trainer works; where none
// is, the local rank's modulo the number that the process sees; a `place` with one rank looks into the environment for
// it (base/launch.hpp). Throws ConfigError, saying why and what to do, when a GPU is asked for by name and there is
// none, or not that one; Error when the GPU does not work.
[[nodiscard]] DeviceChoice make_device(const std::string& name, NodePlace place = {});

// What "auto" takes where it turns out that the GPU it chose cannot be used: the host, with a notice that says why.
[[nodiscard]] DeviceChoice host_instead(const std::string& why);

// A line that says which ranks have the GPU of `rank` too; empty when it has one to itself. `gpus`: DeviceChoice::gpu
// of all ranks of the job, by rank. Counting ranks and GPUs would not do: a launcher may show each rank one of its own.
[[nodiscard]] std::string shared_gpu_notice(std::span<const std::string> gpus, std::size_t rank);

// What CUDA has for this process; with the functions below defined by the backend (cuda/gpus.cpp) or, in a build
// without CUDA, by no_gpus.cpp.
struct Gpus {
  unsigned count = 0;   // that this process may use
  std::string why_not;  // when there are none: why, and what to do about it
  bool built = true;    // this build can use GPUs at all
};

// Never throws because of CUDA: a machine without a driver has no GPUs.
[[nodiscard]] Gpus find_gpus();

// The GPU that is current on the calling thread; none where the thread has not used CUDA. Throws Error.
// REQUIRES: find_gpus() has found one.
[[nodiscard]] std::optional<unsigned> current_gpu();

// Names a GPU, or the part of one that MIG gives to this process, everywhere in the same way.
// REQUIRES: number < find_gpus().count.
[[nodiscard]] std::string gpu_identity(unsigned number);

// REQUIRES: number < find_gpus().count. Throws DeviceError when the GPU cannot be used.
[[nodiscard]] std::unique_ptr<Device> make_cuda_device(unsigned number);

}  // namespace forebay::device
