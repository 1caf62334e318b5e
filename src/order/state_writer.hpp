#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace forebay {

// Writes states to files on a thread of its own, so that no step waits for a disk. One is being written at a time and
// one more may wait for it: a newer state for the same file takes the place of the one that waits.
// All members but those of the thread: one thread, that of next().
class StateWriter {
 public:
  using Write = std::function<void(const std::filesystem::path& file, const std::string& text)>;

  // `write` makes a state durable or throws; it is called on the writer's thread.
  explicit StateWriter(Write write) : write_(std::move(write)) {}
  // Writes what is left first; an error nobody asked for is lost.
  ~StateWriter();
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  // Hands a state over. Waits only while one for another file waits for its turn. The thread starts with the first.
  // Throws Error when it cannot be started; then the state is not written.
  void save(std::filesystem::path file, std::string text);
  // Returns once all that was handed over is written, or was refused.
  void finish();
  // What a write that has ended met, "" when nothing, and forgets it: the first since this was last asked.
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
