// Rank 0 writes the job's state; the others only learn whether it worked. A save is collective:
// rank 0's thread hands the text to a writer of its own thread and, where the state has to be
// durable before the program may continue, waits for the disk while it keeps telling the others
// that it is busy; then all ranks agree on the outcome. The error of a write in the background is
// thrown by the next save, on all ranks.

#include "saves.hpp"

#include <chrono>
#include <cmath>
#include <exception>
#include <utility>

#include <forebay/error.hpp>

#include "base/output_file.hpp"
#include "base/text.hpp"
#include "coordinator.hpp"
#include "order/state_file.hpp"

namespace forebay::ranks {

void Saves::save(const std::filesystem::path& file, std::string text, bool is_last) {
  write_together([&] {
    if (!writer_) {
      writer_ =
          std::make_unique<order::StateWriter>([this](const std::filesystem::path& target, const std::string& saved) {
            try {
              order::write_state(target, saved);
            } catch (const std::exception& error) {
              warn_(cause_of(error).c_str());
              throw;
            }
          });
    }
    is_late_ = false;
    if (const auto problem = problem_of_output(file.native()); !problem.empty()) {
      throw Error("cannot save the state to " + file.string() + ": " + std::string(problem));
    }
    file_ = std::filesystem::absolute(file);  // resolved now, in case the program changes its working directory
    writer_->save(file_, std::move(text), patient([this] { liveness_.excuse(); }));
    if (is_last) wait();
  });
}

void Saves::finish() {
  (void)communicator_.all_gather("");  // all have arrived, and only the disk is awaited
  write_together([this] { wait(); });
}

void Saves::write_together(const std::function<void()>& work) {
  std::string failure;
  if (communicator_.rank() == 0) {
    try {
      work();
      failure = take_failure();
    } catch (const std::exception& error) {
      failure = cause_of(error);
    }
  }
  if (const auto cause = agreed_failure(communicator_, failure)) throw Error(*cause);
}

order::StateWriter::Hook Saves::patient(std::function<void()> meanwhile) const {
  const auto begin = std::chrono::steady_clock::now();
  return [this, begin, meanwhile = std::move(meanwhile)] {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (waited < patience_ && !is_late_) return meanwhile();
    is_late_ = true;
    throw Error("cannot save the state to " + file_.string() + ": its disk has not answered for " +
                std::to_string(std::lround(patience_.count())) + " s; what was saved there before is as it was");
  };
}

void Saves::wait() {
  if (writer_) writer_->finish(patient([this] { liveness_.excuse(); }));
}

bool Saves::end() {
  if (!writer_) return true;
  try {
    writer_->finish(patient([] {}));
  } catch (const Error& late) {
    if (failure_.empty()) failure_ = late.what();
    static_cast<void>(writer_.release());  // NOLINT(bugprone-unused-return-value): its thread does not end
    return false;
  }
  failure_ = take_failure();
  writer_.reset();
  return true;
}

std::string Saves::take_failure() {
  if (failure_.empty() && writer_) failure_ = writer_->take_error();
  return std::exchange(failure_, {});
}

}  // namespace forebay::ranks
