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

// Replaces the file atomically by one that holds `text`: if the process or the machine dies at any
// moment, the file is as it was or has all of the text. When the function has returned it has the
// text. Creates the folder. If the path is a symbolic link, its target is replaced and the link
// stays. Anything but a regular file (a directory, a FIFO, a device) is never replaced.
//
// Until the rename there is a file FILE.saving-XXXXXX beside it; the next save removes all of those
// that killed jobs left behind. So two jobs cannot save to the same file: either may get an Error.
// Throws Error, naming the file and the system's reason. The file is then as it was, unless only
// the last step failed, which makes the folder's new entry survive a crash of the machine.
void write_state(const std::filesystem::path& file, std::string_view text);

// The text of the file; none if it does not exist. Throws ConfigError, naming the file and the
// reason, if it cannot be read or cannot be a state: a folder, a device, more than 16 MiB.
[[nodiscard]] std::optional<std::string> read_state(const std::filesystem::path& file);

// Writes states to files on its own thread, so that no step waits for a disk. One is written at a
// time and one more may wait; a newer state for the same file takes the place of the waiting one.
// All public members are called on one thread, that of next().
class StateWriter {
 public:
  using Write = std::function<void(const std::filesystem::path& file, const std::string& text)>;

  // `write` makes a state durable or throws; it is called on the writer's thread.
  explicit StateWriter(Write write) : write_(std::move(write)) {}
  // First writes what is queued. An unreported error is lost.
  ~StateWriter();
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  // Called every few milliseconds while a member waits for the disk.
  using Hook = std::function<void()>;

  // Queues a state. Waits only while a state for another file is still queued. The first call
  // starts the thread. Throws Error if it cannot be started; then the state is not written.
  void save(std::filesystem::path file, std::string text, const Hook& while_waiting = {});
  // Waits until everything queued has been written or has failed.
  void finish(const Hook& while_waiting = {});
  // Returns and clears the first failure since the last call; "" if there was none.
  [[nodiscard]] std::string take_error();

 private:
  struct Order {
    std::filesystem::path file;
    std::string text;
  };

  void run();
  // Waits until `is_done`, which is called under `lock`.
  void wait(std::unique_lock<std::mutex>& lock, const Hook& while_waiting, const std::function<bool()>& is_done);

  Write write_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // These are guarded by mutex_.
  std::optional<Order> waiting_;
  bool is_writing_ = false;
  bool is_closed_ = false;
  std::string error_;

  std::thread thread_;
};

}  // namespace forebay::order
