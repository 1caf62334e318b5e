#include "saves.hpp"

#include <chrono>
#include <exception>
#include <utility>

#include <forebay/error.hpp>

#include "base/text.hpp"
#include "coordinator.hpp"
#include "order/state_file.hpp"

namespace forebay {

void Saves::save(const std::filesystem::path& file, std::string text, bool is_last) {
  write_together([&] {
    if (!writer_) {
      writer_ = std::make_unique<StateWriter>([this](const std::filesystem::path& target, const std::string& saved) {
        try {
          write_state(target, saved);
        } catch (const std::exception& error) {
          warn_(cause_of(error).c_str());
          throw;
        }
      });
    }
    // As it is now, should the program go to another folder.
    writer_->save(std::filesystem::absolute(file), std::move(text), [this] { attendance_.excuse(); });
    if (is_last) wait();
  });
}

void Saves::finish() {
  (void)communicator_.all_gather("");  // all are here, and only the disk is waited for
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

void Saves::wait() {
  if (writer_) writer_->finish([this] { attendance_.excuse(); });
}

bool Saves::wait_within(std::chrono::nanoseconds patience) {
  struct Late {};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  try {
    if (!writer_) return true;
    writer_->finish([deadline] {
      if (std::chrono::steady_clock::now() >= deadline) throw Late{};
    });
    return true;
  } catch (const Late&) {
    return false;
  }
}

void Saves::end() {
  if (!writer_) return;
  writer_->finish();
  failure_ = take_failure();
  writer_.reset();
}

std::string Saves::take_failure() {
  if (failure_.empty() && writer_) failure_ = writer_->take_error();
  return std::exchange(failure_, {});
}

}  // namespace forebay
