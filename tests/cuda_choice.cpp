// Which device a rank gets, on machines that the fake runtime pretends to be.
#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <forebay/error.hpp>

#include "device/device_choice.hpp"
#include "fake_cuda.hpp"
#include "support.hpp"

namespace forebay::testing {
namespace {

std::string refusal(const std::string& name) {
  try {
    static_cast<void>(make_device(name));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// An environment variable for as long as this lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name); before != nullptr) before_ = before;
    if (value == nullptr) {
      ::unsetenv(name);
    } else {
      ::setenv(name, value, 1);
    }
  }
  ~Variable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// No launcher has said anything.
struct NoLauncher {
  Variable torchrun{"LOCAL_RANK", nullptr};
  Variable open_mpi{"OMPI_COMM_WORLD_LOCAL_RANK", nullptr};
  Variable slurm{"SLURM_LOCALID", nullptr};
};

std::string gpu_chosen(const std::string& name, NodePlace place = {}) {
  const DeviceChoice choice = make_device(name, place);
  const std::string text = choice.device->describe();
  const std::size_t from = text.find("cuda:");
  return from == std::string::npos ? text : text.substr(from, text.find_first_of(",)", from) - from);
}

TEST_CASE("auto takes a GPU where there is one, and the host with one clear line where there is none") {
  const NoLauncher launcher;
  {
    const DeviceChoice choice = make_device("auto");
    CHECK(choice.device->is_host());
    CHECK(
        contains(choice.notice, "device = \"auto\": batches stay in host memory, because no NVIDIA driver is loaded"));
    CHECK(choice.gpu.empty());
  }
  {
    const FakeCuda machine({.driver = 12020});
    const DeviceChoice choice = make_device("auto");
    CHECK(choice.device->is_host());
    CHECK(contains(choice.notice, "the NVIDIA driver is too old: it knows CUDA 12.2 and this build needs "));
  }
  {
    const Variable visible("CUDA_VISIBLE_DEVICES", "");
    const FakeCuda machine({.gpus = 0});
    const DeviceChoice choice = make_device("auto");
    CHECK(choice.device->is_host());
    CHECK(contains(choice.notice, "no GPU is visible to this process (CUDA_VISIBLE_DEVICES is \"\")"));
    CHECK_FALSE(contains(choice.notice, "\n"));
  }
  {
    FakeCuda machine;
    machine.fail_next("cudaGetDeviceCount", cudaErrorSystemNotReady);
    const DeviceChoice choice = make_device("auto");
    CHECK(choice.device->is_host());
    CHECK(contains(choice.notice, "nvidia-fabricmanager"));
  }
  const FakeCuda machine;
  const DeviceChoice choice = make_device("auto");
  CHECK(choice.device->kind() == DeviceKind::cuda);
  CHECK(choice.notice.empty());
  CHECK(choice.gpu == "GPU-00000000-0000-0000-0000-000000000001");
}

TEST_CASE("host is the host, and CUDA is not asked") {
  FakeCuda machine;
  machine.fail_next("cudaGetDeviceCount", cudaErrorIllegalAddress);
  CHECK(make_device("host").device->is_host());
  CHECK(make_device("host").notice.empty());
}

TEST_CASE("a GPU that was asked for by name and is not there is a ConfigError that says why") {
  CHECK(contains(refusal("cuda"), "device = \"cuda\": no NVIDIA driver is loaded"));
  CHECK(contains(refusal("cuda:1"), "device = \"cuda:1\": no NVIDIA driver is loaded"));
  {
    const FakeCuda machine({.gpus = 0});
    CHECK(contains(refusal("cuda"), "no GPU is visible"));
  }
  {
    const FakeCuda machine({.gpus = 1});
    CHECK(contains(refusal("cuda:1"), "this process sees one GPU, cuda:0; use one of those"));
  }
  const FakeCuda machine({.gpus = 4});
  CHECK(contains(refusal("cuda:4"), "this process sees 4 GPUs, cuda:0 to cuda:3"));
  for (const char* name : {"cuda:", "cuda:one", "gpu", ""}) CHECK(contains(refusal(name), "there is no such device"));
}

TEST_CASE("ranks take the GPUs of their node in turn") {
  const NoLauncher launcher;
  const FakeCuda machine({.gpus = 3});
  CHECK(gpu_chosen("cuda") == "cuda:0");
  CHECK(gpu_chosen("cuda:2") == "cuda:2");
  for (unsigned rank = 0; rank < 7; ++rank) {
    const std::string expected = "cuda:" + std::to_string(rank % 3);
    CHECK(gpu_chosen("auto", {.local_rank = rank, .local_ranks = 7}) == expected);
    CHECK(gpu_chosen("cuda", {.local_rank = rank, .local_ranks = 7}) == expected);
    CHECK(gpu_chosen("cuda:1", {.local_rank = rank, .local_ranks = 7}) == "cuda:1");
  }
}

TEST_CASE("a rank that knows of no other asks the launcher's environment") {
  const NoLauncher launcher;
  const FakeCuda machine({.gpus = 4});
  CHECK(gpu_chosen("cuda") == "cuda:0");
  const Variable slurm("SLURM_LOCALID", "3");
  CHECK(gpu_chosen("cuda") == "cuda:3");
  {
    const Variable open_mpi("OMPI_COMM_WORLD_LOCAL_RANK", "5");
    CHECK(gpu_chosen("cuda") == "cuda:1");
    CHECK(gpu_chosen("cuda", {.local_rank = 2, .local_ranks = 4}) == "cuda:2");
  }
  const Variable strange("OMPI_COMM_WORLD_LOCAL_RANK", "first");
  CHECK(gpu_chosen("cuda") == "cuda:3");  // Slurm's is one
}

TEST_CASE("ranks that share a GPU are named") {
  const std::vector<std::string> gpus{"GPU-a", "GPU-b", "GPU-a", "", "", "GPU-a"};
  CHECK(contains(shared_gpu_notice(gpus, 0), "ranks 0, 2, 5 share one GPU (GPU-a)"));
  CHECK(shared_gpu_notice(gpus, 5) == shared_gpu_notice(gpus, 0));
  CHECK(shared_gpu_notice(gpus, 1).empty());
  CHECK(shared_gpu_notice(gpus, 3).empty());
}

}  // namespace
}  // namespace forebay::testing
