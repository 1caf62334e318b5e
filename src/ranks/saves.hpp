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

// Saves the states of a job: a thread of rank 0 writes them, and failures are reported on all ranks. Used by the thread
// that calls next().
class Saves {
 public:
  // References must outlive it. `patience`: how long a disk may take to write a state that is waited for. `warn`
  // receives the error of a write immediately, on the writer's thread; the caller gets it only at the next call, which
  // may come late.
  Saves(Communicator& communicator, Liveness& liveness, std::chrono::duration<double> patience,
        std::function<void(const char*)> warn)
      : communicator_(communicator), liveness_(liveness), patience_(patience), warn_(std::move(warn)) {}
  Saves(const Saves&) = delete;
  Saves& operator=(const Saves&) = delete;

  // Collective. Makes rank 0 write the text; with `is_last` it is durable on return. Throws Error on all ranks alike
  // for a failure now or earlier. The others wait as long as rank 0 waits for its disk, but not for a rank 0 that falls
  // silent.
  void save(const std::filesystem::path& file, std::string text, bool is_last);
  // Collective. Makes everything saved durable. Throws like save().
  void finish();
  // Waits until everything that this rank was given to write is durable or has failed. Throws Error if the disk does
  // not answer within the patience for a save.
  void wait();
  // The same, and ends the writer's thread. False if the disk does not answer: then that is the failure, and this
  // object and everything it refers to must be left untouched.
  [[nodiscard]] bool end();
  // Takes the error of a write that has not been reported, "" if there is none; it then counts as reported.
  [[nodiscard]] std::string take_failure();
  // Takes over the unreported error of a feeder that this one replaces.
  void take_over(std::string failure) { failure_ = std::move(failure); }

 private:
  // Runs rank 0's part; if it fails, all ranks throw.
  void write_together(const std::function<void()>& work);
  // A hook to be called repeatedly while waiting for the disk: calls `meanwhile`, and throws Error once the wait takes
  // too long.
  [[nodiscard]] order::StateWriter::Hook patient(std::function<void()> meanwhile) const;

  Communicator& communicator_;
  Liveness& liveness_;
  std::chrono::duration<double> patience_;
  std::function<void(const char*)> warn_;
  std::unique_ptr<order::StateWriter> writer_;  // rank 0's, from the first save() on
  std::filesystem::path file_;                  // the last one given to it
  mutable bool is_late_ = false;                // the disk has not answered in time
  std::string failure_;                         // before end() or take_over()
};

}  // namespace forebay::ranks
