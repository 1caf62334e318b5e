// The program that checks a GPU, on the fake one: whether it counts and compares. Its times mean nothing here.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "fake_cuda.hpp"
#include "gpu/batch_hash.hpp"
#include "gpu/table.hpp"
#include "nvjpeg_support.hpp"
#include "process.hpp"
#include "support.hpp"

namespace forebay::testing {
namespace {

// Added to every hash that the fake GPU computes.
std::uint64_t hash_error = 0;
// Delays that were put on streams.
std::atomic<int> spins{0};

}  // namespace
}  // namespace forebay::testing

extern "C" {

int gpu_check_hash(const void* words, std::size_t count, std::uint64_t* sum, void* stream) noexcept {
  using forebay::testing::behind;
  const auto* const seen = reinterpret_cast<const std::uint32_t*>(behind(words, count * sizeof(std::uint32_t)));
  auto* const result = reinterpret_cast<std::uint64_t*>(behind(sum, sizeof(*sum)));
  if (seen == nullptr || result == nullptr) return cudaErrorIllegalAddress;
  return forebay::testing::launch_on_host(
      [=] { *result += forebay::gpu_check::batch_hash(seen, count) + forebay::testing::hash_error; }, stream);
}

int gpu_check_spin(std::uint64_t /*nanoseconds*/, void* stream) noexcept {
  ++forebay::testing::spins;
  return forebay::testing::launch_on_host([] {}, stream);
}

}  // extern "C"

namespace forebay::testing {
namespace {

using gpu_check::Row;
using gpu_check::Setup;
using gpu_check::Verdict;

// A small data set for as long as this lives.
struct Data {
  Data() {
    Process made({FOREBAY_COMMAND, "make-dataset", (dir / "data").string(), "--images", "70", "--classes", "3",
                  "--seed", "17", "--size", "96x64"},
                 dir / "output");
    REQUIRE(made.wait() == 0);
  }
  [[nodiscard]] Setup setup() const { return {.data = dir / "data", .soak_s = 0.5, .quick = true}; }
  TemporaryDirectory dir;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("on a GPU that does what it should, nothing is wrong") {
  const Data data;
  const FakeCuda machine({.memory = std::size_t{1} << 30});
  CHECK(contains(device_row(data.setup()).found, "Fake GPU (cuda:0"));
  const Row kernel = kernel_row(data.setup());
  CAPTURE(kernel.found);
  CHECK(kernel.verdict == Verdict::fine);
  CHECK(kernel.found.starts_with("0 bytes differ of "));
  CHECK(contains(kernel.found, "15 of 15 kernels"));
  const Row soak = soak_row(data.setup());
  CAPTURE(soak.found);
  CHECK(soak.verdict != Verdict::wrong);
  CHECK(soak.found.starts_with("0 of "));
  const Row views = views_row(data.setup());
  CAPTURE(views.found);
  CHECK(views.verdict == Verdict::fine);
  CHECK(contains(views.found, "40 steps"));
  CHECK(contains(copy_row(data.setup()).found, "100 % of it"));
  spins = 0;
  const Row render = render_row(data.setup());
  CAPTURE(render.found);
  CHECK(contains(render.found, "(judged)"));
  CHECK(contains(render.found, "random-resized crops of noise "));
  CHECK(contains(render.found, "; 2 x 256 x 256 uint8 -> 224 x 224 float16"));
  CHECK_FALSE(contains(render.found, " 0 % of the views"));
  CHECK(spins == 5 * (3 + 1));  // the GPU has something to do while each round's work is enqueued
  CHECK(contains(next_row(data.setup()).found, "(100 calls)"));
  CHECK(nvjpeg_row(data.setup()).verdict == Verdict::unknown);
}

TEST_CASE("nvJPEG is measured where it is, and far from libjpeg-turbo it is wrong") {
  const Data data;
  const FakeCuda machine({.memory = std::size_t{1} << 30});
  const UseFakeNvjpeg nvjpeg;
  const Row same = nvjpeg_row(data.setup());
  CAPTURE(same.found);
  CHECK(same.verdict == Verdict::fine);
  CHECK(contains(same.found, "mean difference 0.00, most 0; 0 of "));
  CHECK(contains(same.found, "7 engines"));
  nvjpeg->grey_levels = 3;
  const Row off = nvjpeg_row(data.setup());
  CAPTURE(off.found);
  CHECK(off.verdict == Verdict::wrong);
  CHECK(nvjpeg->objects == 0);
}

TEST_CASE("a batch that is not what the host expects is found") {
  const Data data;
  const FakeCuda machine({.memory = std::size_t{1} << 30});
  hash_error = 1;
  const Row soak = soak_row(data.setup());
  hash_error = 0;
  CAPTURE(soak.found);
  CHECK(soak.verdict == Verdict::wrong);
  CHECK_FALSE(soak.found.starts_with("0 of "));
}

TEST_CASE("a GPU that fails is a line of the table, and something wrong") {
  const Data data;
  FakeCuda machine({.memory = std::size_t{1} << 30});
  CHECK(gpu_check::print_table(data.setup(), {"device", "nvjpeg"}));
  machine.fail_next("cudaMemcpyAsync", cudaErrorIllegalAddress);
  CHECK_FALSE(gpu_check::print_table(data.setup(), {"copy"}));
}

}  // namespace
}  // namespace forebay::testing
