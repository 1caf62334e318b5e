#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace forebay {

// Writes states to files on its own thread, so that no step waits for a disk. One is written at a time and one more may
// wait: a newer state for the same file takes the place of the waiting one.
// All public members: one thread, that of next().
class StateWriter {
 public:
  using Write = std::function<void(const std::filesystem::path& file, const std::string& text)>;

  // `write` makes a state durable or throws; it is called on the writer's thread.
  explicit StateWriter(Write write) : write_(std::move(write)) {}
  // First writes what is left. An error that was not asked for is lost.
  ~StateWriter();
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  // Hands a state over. Waits only while one for another file waits for its turn. The thread starts with the first.
  // Throws Error if it cannot be started; then the state is not written.
  void save(std::filesystem::path file, std::string text);
  // Returns once everything handed over is written or has failed.
  void finish();
  // The first failure since the last call of this, "" if there was none. Forgets it.
  [[nodiscard]] std::string take_error();

 private:
  struct Order {
    std::filesystem::path file;
    std::string text;
  };

  void run();

  Write write_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_.
  std::optional<Order> waiting_;
  bool is_writing_ = false;
  bool is_closed_ = false;
  std::string error_;

  std::thread thread_;
};

}  // namespace forebay
