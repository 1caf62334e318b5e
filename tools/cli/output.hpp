#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <forebay/dataset.hpp>
#include <forebay/profile.hpp>
#include <forebay/summary.hpp>

namespace forebay::cli {

// Throws ConfigError naming `flag` and the path if the file cannot be written, as far as that can be told without
// touching it, so that a run does not end with nowhere to put its result. `makes_folder`: the folder will be created.
// An empty path means no file; "-" is standard output.
void require_writable(const std::string& flag, const std::filesystem::path& file, bool makes_folder = false);

// Throws ConfigError if the file, which will be JSON, is one of `inputs` or has something else in it, which would be
// lost. An empty path means no file; "-" is standard output.
void require_no_loss(const std::string& flag, const std::filesystem::path& file, std::span<const std::string> inputs);

// Writes `text` and a newline; "-" is standard output. Throws Error, naming `flag` and the path,
// also if the disk does not answer.
void write_output(const std::string& flag, const std::filesystem::path& file, const std::string& text);

// Calls `write`, which writes to `file`, on a separate thread. Throws the same error. A call that
// has not ended after `patience` is abandoned, so `write` must own what it uses.
void write_in_time(const std::string& flag, const std::filesystem::path& file, std::chrono::seconds patience,
                   std::function<void()> write);

// 1234567 -> "1,234,567".
[[nodiscard]] std::string grouped(std::uint64_t number);
// 831488 -> "812 KiB"; three digits or so, binary units.
[[nodiscard]] std::string size_text(std::uint64_t bytes);

// A line of a report: the name, blanks up to the column of values, the value.
inline constexpr std::size_t kValueColumn = 13;
[[nodiscard]] std::string row(std::string name, const std::string& value);
void print_row(std::string name, const std::string& value);

// A progress bar on standard error if that is a terminal; otherwise nothing. Used by one thread.
// The destructor removes the line.
class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `total` may grow from call to call. Draws at most ten times a second.
  void update(std::uint64_t done, std::uint64_t total);
  // Calls update(); the bar must outlive it.
  [[nodiscard]] IndexProgress progress() {
    return [this](std::uint64_t done, std::uint64_t total) { update(done, total); };
  }

 private:
  using Clock = std::chrono::steady_clock;

  void draw(std::uint64_t done, std::uint64_t total, double elapsed_s) const;

  std::string what_;
  bool is_terminal_;
  bool is_drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_ + std::chrono::milliseconds(200);  // quick work needs no bar
};

// A run's summary as text, with a row for each rank if there are several.
[[nodiscard]] std::string summary_table(std::string_view policy, const Summary& job, std::span<const Summary> ranks);

// Adds a "profile" to the JSON of a job's summary: the job's, which also has the number of the
// "slowest_rank", and one for each rank.
[[nodiscard]] std::string add_profiles(const std::string& summary, std::span<const Profile> ranks);

}  // namespace forebay::cli
