#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace forebay::order {

// Atomically replaces the file by one that holds `text`: if the process or the machine dies at any moment, the file is
// as it was or has all of the text. Once the function has returned it has the text. Creates the folder. If the path is
// a symbolic link, its target is replaced, and the link stays. What is not a regular file (a directory, a FIFO, a
// device) is never replaced. Until then there is a file FILE.saving-XXXXXX beside it; the next save removes all of
// those that killed jobs left behind. So two jobs cannot save to one file: either may get an Error. Throws Error naming
// the file and the system's reason. The file is then as it was, unless only the last step failed, which makes the
// folder's new entry survive a crash of the machine.
void write_state(const std::filesystem::path& file, std::string_view text);

// The text of the file; nothing if it does not exist. Throws ConfigError naming the file and the reason when it cannot
// be read or cannot be a state: a folder, a device, more than 16 MiB.
[[nodiscard]] std::optional<std::string> read_state(const std::filesystem::path& file);

// Writes states to files on its own thread, so that no step waits for a disk. One is written at a time and one more may
// wait: a newer state for the same file takes the place of the waiting one.
// All public members: one thread, that of next().
class StateWriter {
 public:
  using Write = std::function<void(const std::filesystem::path& file, const std::string& text)>;

  // `write` makes a state durable or throws; it is called on the writer's thread.
  explicit StateWriter(Write write) : write_(std::move(write)) {}
  // First writes what is left. An unreported error is lost.
  ~StateWriter();
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  // Called every few milliseconds by a call that waits for the disk.
  using Hook = std::function<void()>;

  // Queues a state. Waits only while one for another file is still queued. The thread starts with the first call.
  // Throws Error if it cannot be started; then the state is not written.
  void save(std::filesystem::path file, std::string text, const Hook& while_waiting = {});
  // Waits until everything queued is written or has failed.
  void finish(const Hook& while_waiting = {});
  // Takes the first failure since the last call, "" if there was none.
  [[nodiscard]] std::string take_error();

 private:
  struct Order {
    std::filesystem::path file;
    std::string text;
  };

  void run();
  // Until `is_done`, which is asked under `lock`.
  void wait(std::unique_lock<std::mutex>& lock, const Hook& while_waiting, const std::function<bool()>& is_done);

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

}  // namespace forebay::order
