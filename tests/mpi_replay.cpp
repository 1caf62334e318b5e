// A recorded run of several ranks and epochs, repeated.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/feeder.hpp>

#include "dataset_support.hpp"
#include "measure/recording.hpp"
#include "memory_dataset.hpp"
#include "memory_parts.hpp"
#include "mpi_world.hpp"
#include "support.hpp"

namespace forebay::testing {
namespace {

// Epoch, batch and use of every step, and where the epochs ended.
std::string course(const Options& options, std::uint64_t samples, bool by_epochs, std::atomic<int>& read_us) {
  Feeder feeder(options, world(), parts(samples, [&](std::uint64_t) {
                  std::this_thread::sleep_for(std::chrono::microseconds(read_us));
                }));
  std::string course;
  for (bool is_first = true; by_epochs ? feeder.next_epoch() : is_first; is_first = false) {
    while (auto batch = feeder.next()) {
      course += std::to_string(batch->epoch()) + "/" + std::to_string(batch->batch()) + "/" +
                std::to_string(batch->use_index()) + " ";
      std::this_thread::sleep_for(std::chrono::microseconds(50));  // compute: a spinning trainer cannot be recorded
    }
    course += "| ";
  }
  feeder.close();
  return course;
}

std::string fresh_steps_of(const std::string& course) {
  std::string fresh;
  std::istringstream words(course);
  for (std::string word; words >> word;) {
    if (word != "|") fresh += word.ends_with("/0") ? 'f' : '-';
  }
  return fresh;
}

// Of this rank: padding is none, although ranks in lockstep have decided for fresh batches there.
std::string fresh_steps_recorded(const std::string& dir) {
  const Recording recording = read_recording(recording_file(dir, world().rank()));
  DecisionRuns::Cursor decided;
  DecisionRuns::Cursor padded;
  std::string fresh;
  for (std::uint64_t step = 0; step < recording.fresh.size(); ++step) {
    fresh += decided.is_set(recording.fresh, step) && !padded.is_set(recording.padded, step) ? 'f' : '-';
  }
  return fresh;
}

TEST_CASE("a recorded run of epochs is repeated exactly, and only in a loop of its kind") {
  for (const MpiMode mode : {MpiMode::local, MpiMode::lockstep}) {
    for (const bool by_epochs : {true, false}) {
      CAPTURE(static_cast<int>(mode));
      CAPTURE(by_epochs);
      const TemporaryDirectory mine;
      const std::string dir = gather_texts(mine.path().string())[0];
      Options options = memory_options(2);
      options.mpi.mode = mode;
      options.mpi.epoch_end = EpochEnd::reuse;  // pads at the end of every epoch too
      options.policy.name = "greedy";
      options.run.epochs = 3;
      options.telemetry.dir = dir + "/recorded";
      std::atomic<int> read_us{world().rank() == 0 ? 300 : 0};
      const std::uint64_t samples = 15 * world().size() + 1;
      const std::string recorded = course(options, samples, by_epochs, read_us);
      (void)gather_texts("");
      options.policy.name = "replay";
      options.policy.recording = dir + "/recorded";
      options.telemetry.dir = "";
      read_us = 0;
      CHECK(course(options, samples, by_epochs, read_us) == recorded);
      CHECK(fresh_steps_recorded(dir + "/recorded") == fresh_steps_of(recorded));
      if (world().size() > 1) {
        const std::string error = error_of([&] { (void)course(options, samples, !by_epochs, read_us); });
        CHECK(error.find("a loop over epochs (next_epoch())") != std::string::npos);
      }
      (void)gather_texts("");
    }
  }
}

}  // namespace
}  // namespace forebay::testing
