// What a program of one's own sees of the feeder besides batches: lines for its logger, warnings at the start, no
// files.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <forebay/feeder.hpp>

#include "fake_job.hpp"
#include "job/start_checks.hpp"
#include "memory_dataset.hpp"
#include "screen.hpp"
#include "support.hpp"

namespace forebay {
namespace {

using testing::memory_options;
using testing::MemoryDataset;

using Lines = std::vector<std::pair<LogLevel, std::string>>;

// Lines that come one at a time, on whatever thread, while the feeder lives.
Logger into(const std::shared_ptr<Lines>& lines) {
  return [lines](LogLevel level, std::string_view text) { lines->emplace_back(level, text); };
}

bool has(const Lines& lines, LogLevel level, std::string_view part) {
  return std::ranges::any_of(
      lines, [&](const auto& line) { return line.first == level && line.second.find(part) != std::string::npos; });
}

TEST_CASE("a program's logger gets the lines as they are, with their level, and the console none") {
  const auto lines = std::make_shared<Lines>();
  const std::unique_ptr<std::FILE, testing::Screen::Close> file{std::tmpfile()};
  ConsoleLog log(3, Live::always, file.get(), into(lines));
  CHECK_FALSE(log.is_live());
  log.info("one");
  log.warn("two");
  log.error("three {} %v");
  CHECK(*lines == Lines{{LogLevel::info, "one"}, {LogLevel::warning, "two"}, {LogLevel::error, "three {} %v"}});
  std::fflush(file.get());
  CHECK(std::ftell(file.get()) == 0);
}

TEST_CASE("a line that the program's logger throws at is still seen") {
  const std::unique_ptr<std::FILE, testing::Screen::Close> file{std::tmpfile()};
  ConsoleLog log(0, Live::never, file.get(), [](LogLevel, std::string_view) { throw std::runtime_error("no logger"); });
  log.warn("the store is slow");
  std::rewind(file.get());
  std::string text(64, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  CHECK(text == "[forebay] warning: the store is slow\n");
}

TEST_CASE("a feeder talks to the logger of its Parts, and writes no files unless it is told to") {
  const testing::TemporaryDirectory dir;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  Options options = memory_options(4);
  options.telemetry = Options{}.telemetry;
  const auto lines = std::make_shared<Lines>();
  {
    Parts parts;
    parts.dataset = std::make_shared<MemoryDataset>(12, [](std::uint64_t id) {
      if (id == 5) throw SampleError("torn");
    });
    parts.log = into(lines);
    Feeder feeder(options, std::move(parts));
    while (feeder.next()) {
    }
  }
  CHECK(has(*lines, LogLevel::warning, "torn"));
  CHECK(std::filesystem::is_empty(dir.path()));
  std::filesystem::current_path(before);
}

TEST_CASE("mean and std for pixels from 0 to 1 are warned of, and what is meant is not") {
  struct Case {
    std::array<double, 3> mean;
    std::array<double, 3> std;
    DType dtype;
    bool warned;
  };
  for (const Case& one :
       std::vector<Case>{{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}, DType::float32, true},
                         {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}, DType::float16, true},
                         {{0, 0, 0}, {0.5, 0.5, 0.5}, DType::float32, true},
                         {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}, DType::uint8, false},
                         {{0, 0, 0}, {1, 1, 1}, DType::float32, false},
                         {{0, 0, 0}, {255, 255, 255}, DType::float32, false},
                         {{123.675, 116.28, 103.53}, {58.395, 57.12, 57.375}, DType::float32, false}}) {
    Options options;
    options.transform.mean = one.mean;
    options.transform.std = one.std;
    options.transform.dtype = one.dtype;
    const auto warnings = start_warnings(options, {}, 1);
    CAPTURE(one.mean[0]);
    CHECK((warnings.size() == 1) == one.warned);
    if (one.warned) CHECK(warnings.front().find("multiply both by 255") != std::string::npos);
  }
}

TEST_CASE("far more threads than cores are warned of, each key by its name") {
  Options options;
  WorkerPlan plan;
  plan.cores = 4;
  options.workers.decode = 8;
  options.workers.io = 512;
  CHECK(start_warnings(options, plan, 1).empty());
  options.workers.decode = 9;
  options.workers.io = 513;
  const auto warnings = start_warnings(options, plan, 1);
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0].starts_with("workers.decode = 9, and this rank has 4 cores"));
  CHECK(warnings[1].starts_with("workers.io = 513, and this rank has 4 cores"));
  options.workers.decode = options.workers.io = 0;  // auto
  CHECK(start_warnings(options, plan, 1).empty());
}

TEST_CASE("shards that make lockstep's epochs longer than they have to be are warned of") {
  Options options;
  const auto warnings = [&](std::uint32_t ranks) { return start_warnings(options, {}, ranks); };
  CHECK(warnings(1000).empty());  // what is uneven is handed over
  options.mpi.mode = MpiMode::lockstep;
  for (const std::uint32_t ranks : {1U, 4U, 48U, 100U, 512U, 1024U}) CHECK(warnings(ranks).empty());
  REQUIRE(warnings(1000).size() == 1);
  CHECK(warnings(1000).front().starts_with(
      "mpi.virtual_shards = 1024 gives some of the 1000 ranks 2 shards and others 1, so an epoch takes 95 % more"));
  options.mpi.virtual_shards = 8000;
  CHECK(warnings(1000).empty());
}

// One rank whose network is gone when it is to part from the others.
struct CutOff final : testing::FakeJob::SameRank {
  explicit CutOff(Communicator& named, bool* has_hook) : SameRank(named), has_hook_(has_hook) {}
  [[nodiscard]] std::unique_ptr<Communicator> duplicate() const override {
    return std::make_unique<CutOff>(rank_, has_hook_);
  }
  void while_waiting(std::function<void()> hook) override { *has_hook_ = static_cast<bool>(hook); }
  bool close(double /*timeout_s*/) override { throw Error("the network is gone"); }

  bool* has_hook_;
};

TEST_CASE("a communicator that fails at the end leaves nothing unfinished, and a destructor says so") {
  const testing::TemporaryDirectory dir;
  const std::filesystem::path file = dir.path() / "feed.state";
  const auto alone = solo_communicator();
  bool has_hook = false;
  const CutOff ranks(*alone, &has_hook);
  const auto lines = std::make_shared<Lines>();
  const auto parts = [&] {
    Parts made;
    made.dataset = std::make_shared<MemoryDataset>(12);
    made.log = into(lines);
    return made;
  };
  {
    Feeder feeder(memory_options(4), ranks, parts());
    CHECK(feeder.next());
    feeder.save(file.string());
    CHECK_THROWS_WITH_AS(feeder.close(), "the network is gone", Error);
    CHECK_FALSE(has_hook);
    CHECK(std::filesystem::exists(file));
    feeder.close();
  }
  CHECK_FALSE(has(*lines, LogLevel::error, "network"));
  {
    Feeder feeder(memory_options(4), ranks, parts());
    CHECK(feeder.next());
  }
  CHECK(has(*lines, LogLevel::error, "closing the feeder failed: the network is gone"));
  CHECK_FALSE(has_hook);
}

}  // namespace
}  // namespace forebay
