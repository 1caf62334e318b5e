// Which device a rank's batches are on: `device` of the configuration, what the machine has, and
// the rank's place on its node. "auto" falls back to the host, with a line that says why; a GPU
// that is asked for by name is an error where it cannot be had. A program that has made a GPU
// current keeps it; otherwise ranks take turns by their local rank. At the start of a run, on the
// trainer's thread.

#include <algorithm>
#include <vector>

#include <forebay/error.hpp>

#include "base/launch.hpp"
#include "base/text.hpp"
#include "device_choice.hpp"
#include "host_device.hpp"

namespace forebay::device {
namespace {

DeviceChoice on_host(std::string notice) {
  return {.device = std::make_unique<HostDevice>(), .notice = std::move(notice), .gpu = "", .doubt = ""};
}

DeviceChoice on_gpu(unsigned number) {
  return {.device = make_cuda_device(number), .notice = "", .gpu = gpu_identity(number), .doubt = ""};
}

// Which of `count` GPUs a rank takes when it may choose.
// A job whose ranks do not know of each other (one process per GPU, without MPI) still has the
// launcher's number.
DeviceChoice on_its_gpu(NodePlace place, unsigned count) {
  const unsigned local_rank =
      place.local_ranks > 1 ? place.local_rank : launcher_place().local_rank.value_or(place.local_rank);
  const std::optional<unsigned> current = current_gpu();
  DeviceChoice choice = on_gpu(current && *current < count ? *current : local_rank % count);
  // Where a program has chosen no GPU, whatever it calls first makes cuda:0 current.
  if (current && *current == 0 && local_rank % count != 0) {
    choice.doubt =
        "batches are on cuda:0, which is current on the thread that makes the feeder, and this is local rank " +
        std::to_string(local_rank) + " of a node with " + std::to_string(count) +
        " GPUs: if other ranks use cuda:0 too, call cudaSetDevice() (torch.cuda.set_device) with this rank's "
        "GPU before anything else of CUDA, or show each rank its own (CUDA_VISIBLE_DEVICES)";
  }
  return choice;
}

}  // namespace

std::optional<DeviceName> parse_device_name(std::string_view text) noexcept {
  constexpr std::string_view kNumbered = "cuda:";
  if (text == "auto") return DeviceName{.kind = DeviceName::Kind::automatic};
  if (text == "host") return DeviceName{.kind = DeviceName::Kind::host};
  if (text == "cuda") return DeviceName{.kind = DeviceName::Kind::cuda};
  if (!text.starts_with(kNumbered)) return std::nullopt;
  const auto gpu = parse_number<unsigned>(text.substr(kNumbered.size()));
  if (!gpu) return std::nullopt;
  return DeviceName{.kind = DeviceName::Kind::cuda, .gpu = gpu};
}

DeviceChoice make_device(const std::string& name, NodePlace place) {
  const std::optional<DeviceName> wanted = parse_device_name(name);
  const std::string sentence = "device = \"" + name + "\": ";
  if (!wanted) {
    throw ConfigError(sentence + R"(there is no such device; use "auto", "host", "cuda" or "cuda:N", N = 0, 1, ...)");
  }
  if (wanted->kind == DeviceName::Kind::host) return on_host("");

  const Gpus gpus = find_gpus();
  if (wanted->kind == DeviceName::Kind::automatic && gpus.count == 0) {
    return on_host(gpus.is_worth_saying ? sentence + "batches stay in host memory, because " + gpus.why_not : "");
  }
  if (gpus.count == 0) throw ConfigError(sentence + gpus.why_not);
  if (wanted->gpu && *wanted->gpu >= gpus.count) {
    const std::string seen =
        gpus.count == 1 ? "one GPU, cuda:0"
                        : std::to_string(gpus.count) + " GPUs, cuda:0 to cuda:" + std::to_string(gpus.count - 1);
    throw ConfigError(sentence + "this process sees " + seen +
                      R"(; use one of those, or "cuda", which counts by local rank)");
  }
  if (wanted->gpu) return on_gpu(*wanted->gpu);
  if (wanted->kind != DeviceName::Kind::automatic) return on_its_gpu(place, gpus.count);
  try {
    return on_its_gpu(place, gpus.count);
  } catch (const DeviceError& error) {
    return host_instead(error.what());
  }
}

DeviceChoice host_instead(const std::string& why) {
  DeviceChoice choice = on_host("");
  choice.doubt = "device = \"auto\": batches stay in host memory, because the GPU cannot be used: " + why;
  return choice;
}

std::string shared_gpu_notice(std::span<const std::string> gpus, std::size_t rank) {
  const std::string& mine = gpus[rank];
  const auto ranks = std::ranges::count(gpus, mine);
  if (mine.empty() || ranks < 2) return "";
  std::string who;
  for (std::size_t other = 0; other < gpus.size(); ++other) {
    if (gpus[other] == mine) who += (who.empty() ? "" : ", ") + std::to_string(other);
  }
  return "ranks " + who + " share one GPU (" + mine +
         "): they take memory and time from each other; start as many ranks on a node as it has GPUs, and give each "
         "rank its own "
         R"((cudaSetDevice() before the feeder is made, device = "cuda:N", or CUDA_VISIBLE_DEVICES))";
}

}  // namespace forebay::device
