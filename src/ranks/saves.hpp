#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <forebay/communicator.hpp>

#include "attendance.hpp"
#include "order/state_file.hpp"

namespace forebay {

// The states that a job saves: a thread of rank 0 writes them, and what fails reaches all ranks.
// Used by the thread that calls next().
class Saves {
 public:
  // References must outlive it. `warn` is told at once what a write met, on the writer's thread: whoever saves hears of
  // it at the next call, which may come late.
  Saves(Communicator& communicator, Attendance& attendance, std::function<void(const char*)> warn)
      : communicator_(communicator), attendance_(attendance), warn_(std::move(warn)) {}
  Saves(const Saves&) = delete;
  Saves& operator=(const Saves&) = delete;

  // Collective. Has rank 0 write the text; `is_last`: it is durable then. Throws Error on all ranks alike: what failed,
  // now or before. The others wait as long as the disk takes, but not for a rank 0 that falls silent meanwhile.
  void save(const std::filesystem::path& file, std::string text, bool is_last);
  // Collective. What was saved is durable. Throws as save().
  void finish();
  // What this rank was given to write is durable, or has failed.
  void wait();
  // The same, but false where it takes longer than this.
  [[nodiscard]] bool wait_within(std::chrono::nanoseconds patience);
  // What this rank was given to write is durable, or has failed, and the writer's thread ends.
  void end();
  // What a write met that nobody was told of, "" when nothing; it is told now.
  [[nodiscard]] std::string take_failure();
  // What the saves of a feeder met in whose place this one comes.
  void take_over(std::string failure) { failure_ = std::move(failure); }

 private:
  // Runs what rank 0 does; all ranks throw what failed.
  void write_together(const std::function<void()>& work);

  Communicator& communicator_;
  Attendance& attendance_;
  std::function<void(const char*)> warn_;
  std::unique_ptr<StateWriter> writer_;  // rank 0's, from the first save() on
  std::string failure_;                  // before end() or take_over()
};

}  // namespace forebay
