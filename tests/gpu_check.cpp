// The program that checks a GPU, run on the fake one: tests that it counts and compares. Its
// timings mean nothing here.
#include "fake_cuda.hpp"
#include "gpu/batch_hash.hpp"
#include "gpu/checks.hpp"
#include "nvjpeg_support.hpp"
#include "process.hpp"
#include "test.hpp"

namespace forebay::testing {
namespace {

// Added to every hash that the fake GPU computes.
std::uint64_t hash_error = 0;
// How many delays were queued on streams.
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

// A small dataset that exists as long as this object.
struct Data {
  Data() {
    Process made({testing::built_command(), "make-dataset", (dir / "data").string(), "--images", "70", "--classes", "3",
                  "--seed", "17", "--size", "96x64"},
                 dir / "output");
    REQUIRE(made.wait() == 0);
  }
  [[nodiscard]] Setup setup() const { return {.data = dir / "data", .soak_s = 0.5, .quick = true}; }
  TemporaryDirectory dir;
};

TEST_CASE("on a GPU that does what it should, nothing is wrong") {
  const Data data;
  const FakeCuda machine({.memory = std::size_t{1} << 30});
  CHECK(contains(device_row(data.setup()).found, "Fake GPU (cuda:0"));
  const Row kernel = kernel_row(data.setup());
  CAPTURE(kernel.found);
  CHECK(kernel.verdict == Verdict::fine);
  CHECK(kernel.found.starts_with("0 bytes differ of "));
  CHECK(contains(kernel.found, "32 of 32 kernels"));
  const Row soak = soak_row(data.setup());
  CAPTURE(soak.found);
  CHECK(soak.verdict != Verdict::wrong);
  CHECK(soak.found.starts_with("0 of "));
  const Row views = views_row(data.setup());
  CAPTURE(views.found);
  CHECK(views.verdict == Verdict::fine);
  CHECK(contains(views.found, "40 steps"));
  const Row copy = copy_row(data.setup());
  CAPTURE(copy.found);
  CHECK(copy.found.starts_with("through a feeder "));
  CHECK(contains(copy.found, " of plain cudaMemcpyAsync beside the same producers"));
  CHECK(contains(copy.found, "the feeder's alone 100 %"));
  spins = 0;
  const Row render = render_row(data.setup());
  CAPTURE(render.found);
  CHECK(contains(render.found, "(judged)"));
  CHECK(contains(render.found, "random-resized crops of noise "));
  CHECK(contains(render.found, "; 2 x 256 x 256 uint8 -> 224 x 224 float16"));
  CHECK_FALSE(contains(render.found, " 0 % of the views"));
  CHECK(spins == 11 * (3 + 1));  // the GPU is busy while each round's work is queued
  const Row next = next_row(data.setup());
  CAPTURE(next.found);
  CHECK(contains(next.found, "us (judged), the lease's end p50 "));
  CHECK(contains(next.found, "; with when = dequeue p50 "));
  CHECK(next.found.ends_with("; 100 calls each"));
  CHECK(nvjpeg_row(data.setup()).verdict == Verdict::unknown);
}

TEST_CASE("where staging lies is looked up, not taken for granted") {
  const Data data;
  const auto row_on_node = [&](int node) {
    const FakeCuda machine({.memory = std::size_t{1} << 30, .numa_node = node});
    return device_row(data.setup());
  };
  const std::vector<std::byte> written(std::size_t{1} << 20, std::byte{1});
  const gpu_check::PagePlaces places = gpu_check::places_of_pages(written);
  CAPTURE(places.text());
  if (!places.refusal.empty()) {
    CHECK(contains(row_on_node(0).found, "cannot be asked (" + places.refusal));
    return;
  }
  CHECK(contains(places.text(), " of 16 pages looked at lie on node "));
  const Row anywhere = row_on_node(-1);
  CHECK(contains(anywhere.found, "pages looked at lie on node "));
  CHECK(anywhere.wanted.empty());
  CHECK(anywhere.verdict == Verdict::fine);
  const Row elsewhere = row_on_node(1000);  // which no machine has
  CHECK(contains(elsewhere.found, "NUMA node 1000 not asked for"));
  CHECK(elsewhere.verdict == Verdict::missed);
}

TEST_CASE("nvJPEG is measured where it is, and what is far from libjpeg-turbo is missed") {
  const Data data;
  const FakeCuda machine({.memory = std::size_t{1} << 30});
  const UseFakeNvjpeg nvjpeg;
  const Row same = nvjpeg_row(data.setup());
  CAPTURE(same.found);
  CHECK(same.verdict == Verdict::fine);
  CHECK(contains(same.found, "mean difference 0.00, most 0; 0 of "));
  CHECK(contains(same.found, "7 engines of 1 core each"));
  CHECK(contains(same.found, "reading headers, parsing and copying pixels back included"));
  nvjpeg->grey_levels = 3;
  const Row off = nvjpeg_row(data.setup());
  CAPTURE(off.found);
  CHECK(off.verdict == Verdict::missed);
  nvjpeg->unsupported_width = 96;
  CHECK(nvjpeg_row(data.setup()).verdict == Verdict::wrong);  // nothing was decoded
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

// A bundle whose program finds no error, and a fake compute-sanitizer.
class Bundle {
 public:
  Bundle() {
    std::filesystem::create_directories(root_ / "bin");
    std::filesystem::copy_file(forebay::testing::source_dir() / "scripts" / "gpu-check", root_ / "gpu-check");
    write("VERSION", "a test\nIt needs an NVIDIA driver for CUDA 13.\n");
    program("bin/cuda_graph", "echo '9 steps by one graph'\n");
    program("bin/gpu_check",
            "[ $1 != --help ] || exit 0\necho \"$@\" >> " + (root_ / "calls").string() +
                "\necho '| check | found | wanted | |'\n" +
                "for word in \"$@\"; do case $word in --only) echo '| a check | something | | ok |' ;; esac; done\n");
  }
  // The exit code and last line of gpu-check, with a sanitizer that runs these lines of shell, in
  // which `run` runs its arguments.
  std::pair<int, std::string> check(const std::string& sanitizer, const std::vector<std::string>& words = {}) {
    program("bin/compute-sanitizer",
            "run() { while [ \"${1##*/}\" != gpu_check ]; do shift; done; \"$@\"; }\n" + sanitizer);
    const std::string path = (root_ / "bin").string() + ":" + std::getenv("PATH");
    std::vector<std::string> command{"env", "PATH=" + path, (root_ / "gpu-check").string()};
    command.insert(command.end(), words.begin(), words.end());
    Process process(command, dir_ / "output");
    const int code = process.wait();
    std::string text = process.output();
    if (text.ends_with('\n')) text.pop_back();
    return {code, text.substr(text.rfind('\n') + 1)};
  }
  // As if the C library were too old.
  void does_not_start() const { program("bin/gpu_check", "exit 1\n"); }
  void graphs_fail() const { program("bin/cuda_graph", "exit 1\n"); }
  void finds_no_gpu() const { program("bin/gpu_check", "[ $1 = --help ] || exit 3\n"); }
  [[nodiscard]] std::string calls() const { return read_text(root_ / "calls"); }

 private:
  void write(const std::string& name, const std::string& text) const { std::ofstream(root_ / name) << text; }
  void program(const std::string& name, const std::string& lines) const {
    write(name, "#!/bin/sh\n" + lines);
    std::filesystem::permissions(root_ / name, std::filesystem::perms::owner_all);
  }

  TemporaryDirectory dir_;
  std::filesystem::path root_ = dir_ / "bundle";
};

TEST_CASE("what compute-sanitizer says ends the table; where it cannot run, nothing is wrong") {
  Bundle bundle;
  const auto [well, line] =
      bundle.check("run \"$@\"\necho '========= ERROR SUMMARY: 0 errors'\n", {"--device", "cuda:3"});
  CHECK(well == 0);
  CHECK(
      line ==
      "| compute-sanitizer | memcheck: ERROR SUMMARY: 0 errors; racecheck: ERROR SUMMARY: 0 errors | 0 errors | ok |");
  // The table, memcheck and racecheck, all on the requested GPU.
  const std::string calls = bundle.calls();
  CHECK(std::ranges::count(calls, '\n') == 3);
  std::istringstream lines(calls);
  for (std::string call; std::getline(lines, call);) CHECK(contains(call, "--device cuda:3"));

  const auto [found, errors] = bundle.check("run \"$@\"\necho '========= ERROR SUMMARY: 2 errors'\nexit 1\n");
  CHECK(found == 1);
  CHECK(contains(errors, "ERROR SUMMARY: 2 errors"));
  CHECK(errors.ends_with("| 0 errors | WRONG |"));
  // The sanitizer ends in the middle of the table.
  CHECK(bundle.check("echo '========= ERROR SUMMARY: 1 error'\nexit 1\n").second.ends_with("| WRONG |"));

  const auto [refused, why] =
      bundle.check("echo '========= COMPUTE-SANITIZER'\necho '========= Error: Device not supported.'\nexit 1\n");
  CHECK(refused == 0);
  CHECK(why ==
        "| compute-sanitizer | memcheck: could not run: Error: Device not supported.; racecheck: could not run: Error: "
        "Device not supported. | 0 errors |  |");
  // A sanitizer that runs nothing and reports no errors.
  const auto [nothing, silence] = bundle.check("echo '========= ERROR SUMMARY: 0 errors'\n");
  CHECK(nothing == 0);
  CHECK(contains(silence, "could not run: "));
  CHECK(silence.ends_with("| 0 errors |  |"));

  CHECK(bundle.check("", {"--minutes", "10"}).second == "| compute-sanitizer | not run with --minutes | 0 errors |  |");
  CHECK(contains(bundle.calls(), "--seconds 30 --json "));
  CHECK(bundle.check("").first == 0);
  bundle.graphs_fail();
  CHECK(bundle.check("").first == 1);
  bundle.finds_no_gpu();
  CHECK(bundle.check("") == std::pair(3, std::string("gpu-check: this bundle needs an NVIDIA driver for CUDA 13.")));
  bundle.does_not_start();
  CHECK(bundle.check("").first == 2);
}

TEST_CASE("a GPU that fails is a line of the table, and something wrong") {
  const Data data;
  FakeCuda machine({.memory = std::size_t{1} << 30});
  CHECK(gpu_check::print_table(data.setup(), {"device", "nvjpeg"}));
  machine.fail_next("cudaMemcpyAsync", cudaErrorIllegalAddress);
  CHECK_FALSE(gpu_check::print_table(data.setup(), {"copy"}));
}

TEST_CASE("all figures are written as JSON, and no check begins when the minutes are over") {
  const Data data;
  const FakeCuda machine({.memory = std::size_t{1} << 30});
  Setup setup = data.setup();
  setup.json = data.dir / "figures.json";
  const auto written = [&] { return testing::read_text(setup.json); };
  CHECK(gpu_check::print_table(setup, {"next"}));
  CHECK(contains(written(), "\"check\": \"next\""));
  CHECK(contains(written(), "\"next, us\": ["));
  setup.end = std::chrono::steady_clock::now();
  CHECK(gpu_check::print_table(setup, {"soak"}));
  CHECK(contains(written(), "not run: the minutes are over"));
}

}  // namespace
}  // namespace forebay::testing
