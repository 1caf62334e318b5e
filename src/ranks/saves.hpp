#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <forebay/communicator.hpp>

#include "liveness.hpp"
#include "order/state_file.hpp"

namespace forebay::ranks {

// The states that a job saves: a thread of rank 0 writes them, and what fails reaches all ranks.
// Used by the thread that calls next().
class Saves {
 public:
  // References must outlive it. `patience`: how long a disk may take to write a state that is waited for. `warn` is
  // told at once what a write met, on the writer's thread: whoever saves hears of it at the next call, which may come
  // late.
  Saves(Communicator& communicator, Liveness& liveness, std::chrono::duration<double> patience,
        std::function<void(const char*)> warn)
      : communicator_(communicator), liveness_(liveness), patience_(patience), warn_(std::move(warn)) {}
  Saves(const Saves&) = delete;
  Saves& operator=(const Saves&) = delete;

  // Collective. Has rank 0 write the text; `is_last`: it is durable then. Throws Error on all ranks alike: what failed,
  // now or before. The others wait as long as rank 0 waits for its disk, but
  // not for a rank 0 that falls silent meanwhile.
  void save(const std::filesystem::path& file, std::string text, bool is_last);
  // Collective. What was saved is durable. Throws as save().
  void finish();
  // What this rank was given to write is durable, or has failed. Throws Error where the disk does not answer for as
  // long as a save is waited for.
  void wait();
  // What this rank was given to write is durable, or has failed, and the writer's thread has ended. False where the
  // disk does not answer: then that is the failure, and this object must be left as it is, with all it refers to.
  [[nodiscard]] bool end();
  // What a write met that nobody was told of, "" when nothing; it is told now.
  [[nodiscard]] std::string take_failure();
  // What the saves of a feeder met in whose place this one comes.
  void take_over(std::string failure) { failure_ = std::move(failure); }

 private:
  // Runs what rank 0 does; all ranks throw what failed.
  void write_together(const std::function<void()>& work);
  // What to call again and again while the disk is waited for: `meanwhile`, and throws Error once it takes too long.
  [[nodiscard]] order::StateWriter::Hook patient(std::function<void()> meanwhile) const;

  Communicator& communicator_;
  Liveness& liveness_;
  std::chrono::duration<double> patience_;
  std::function<void(const char*)> warn_;
  std::unique_ptr<order::StateWriter> writer_;  // rank 0's, from the first save() on
  std::filesystem::path file_;                  // that was given to it last
  mutable bool is_late_ = false;                // the disk has not answered in time
  std::string failure_;                         // before end() or take_over()
};

}  // namespace forebay::ranks
