// What commands print and write: checks that a file can be written before a long run begins, writes
// with a time limit, progress bars, tables of summaries.

#include "output.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include <forebay/error.hpp>

#include <spdlog/fmt/fmt.h>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "measure/figures.hpp"

#include "base/ending.hpp"
#include "base/output_file.hpp"

namespace forebay::cli {
namespace {

namespace fs = std::filesystem;

std::string cannot_write(const std::string& flag, const fs::path& file) {
  return flag + ": cannot write " + file.string() + ": ";
}

// The nearest existing folder above, which must be writable for the missing ones to be created.
fs::path existing(fs::path folder) {
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder_of(folder);
  return folder;
}

std::size_t terminal_width() {
  winsize size{};
  constexpr std::size_t kUsual = 80;
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

}  // namespace

// Checks without creating the file: a run that fails later must not leave an empty one. Terminals
// and /dev/null are character devices.
void require_writable(const std::string& flag, const fs::path& file, bool makes_folder) {
  if (file.empty() || file == "-") return;
  const auto refuse = [&](const std::string& cause) { throw ConfigError(cannot_write(flag, file) + cause); };
  if (const auto problem = problem_of_output(file.native()); !problem.empty()) refuse(std::string(problem));
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (fs::is_directory(status)) refuse("it is a folder; name a file");
  if (fs::exists(status)) {
    if (!fs::is_regular_file(status) && !fs::is_character_file(status)) {
      refuse("it is neither a regular file nor a terminal");
    }
    if (::access(file.c_str(), W_OK) != 0) refuse(std::strerror(errno));
    return;
  }
  const fs::path folder = makes_folder ? existing(folder_of(file)) : folder_of(file);
  if (!fs::exists(folder, error)) refuse("there is no folder " + folder.string());
  if (!fs::is_directory(folder, error)) refuse(folder.string() + " is not a folder");
  if (::access(folder.c_str(), W_OK | X_OK) != 0) refuse(std::strerror(errno));
}

void require_no_loss(const std::string& flag, const fs::path& file, std::span<const std::string> inputs) {
  std::error_code error;
  if (file.empty() || file == "-" || !fs::is_regular_file(file, error) || fs::file_size(file, error) == 0) return;
  const auto is_it = [&](const std::string& input) { return !input.empty() && fs::equivalent(file, input, error); };
  if (std::ranges::any_of(inputs, is_it)) {
    throw ConfigError(cannot_write(flag, file) + "this command reads it; name another file");
  }
  // A configuration begins with "[" as well, but then with a letter.
  std::string head(2, '\0');
  std::ifstream(file, std::ios::binary).read(head.data(), static_cast<std::streamsize>(head.size()));
  const bool is_list = head[0] == '[' && std::isalpha(static_cast<unsigned char>(head[1])) == 0;
  if (head[0] == '{' || is_list) return;
  throw ConfigError(cannot_write(flag, file) +
                    "the file that is there is not JSON and would be lost: name another, or remove it");
}

void write_output(const std::string& flag, const fs::path& file, const std::string& text) {
  if (file == "-") {
    std::puts(text.c_str());  // main() checks the result
    return;
  }
  write_in_time(flag, file, kEndPatience, [file, text] { write_all(open_named(file), text + "\n"); });
}

// The write happens on a separate thread (ends_within), which is abandoned if the disk never
// answers.
void write_in_time(const std::string& flag, const fs::path& file, std::chrono::seconds patience,
                   std::function<void()> write) {
  std::string cause = "the disk has not answered for " + std::to_string(patience.count()) + " s";
  try {
    if (ends_within(patience, std::move(write))) return;
  } catch (const Error& error) {
    cause = error.what();
  }
  throw Error(cannot_write(flag, file) + cause);
}

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, unit > 0 && value < 10 ? 1 : 0, kUnits[unit]);
}

std::string row(std::string name, const std::string& value) {
  name.resize(std::max(name.size() + 1, kValueColumn), ' ');
  return name + value + "\n";
}

void print_row(std::string name, const std::string& value) { std::fputs(row(std::move(name), value).c_str(), stdout); }

ProgressBar::ProgressBar(std::string what) : what_(std::move(what)), is_terminal_(::isatty(STDERR_FILENO) == 1) {}

// Clears the line, so that the next output starts on an empty one.
ProgressBar::~ProgressBar() {
  if (is_drawn_) std::fputs("\r\033[K", stderr);
}

// Draws at most ten times a second, and only on a terminal.
void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  const auto now = Clock::now();
  if (!is_terminal_ || total == 0 || now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  draw(std::min(done, total), total, std::chrono::duration<double>(now - start_).count());
  is_drawn_ = true;
}

// The last column stays empty, because some terminals wrap after writing it.
void ProgressBar::draw(std::uint64_t done, std::uint64_t total, double elapsed_s) const {
  const double share = static_cast<double>(done) / static_cast<double>(total);
  std::string text = fmt::format(" {:3.0f} %  {} / {}", share * 100, grouped(done), grouped(total));
  if (done > 0) text += fmt::format("  {:.0f} s left", elapsed_s * (1 - share) / share);
  constexpr std::size_t kFrame = 4;
  const std::size_t taken = what_.size() + text.size() + kFrame;
  const std::size_t width = terminal_width();
  const std::size_t bar = width > taken ? std::min<std::size_t>(width - taken, 40) : 0;
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(bar));
  const std::string line = what_ + " [" + std::string(filled, '#') + std::string(bar - filled, '-') + "]" + text;
  std::fprintf(stderr, "\r%s\033[K", line.substr(0, width > 0 ? width - 1 : 0).c_str());
  std::fflush(stderr);
}

std::string summary_table(std::string_view policy, const Summary& job, std::span<const Summary> ranks) {
  std::string text;
  const auto line = [&text]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
    text += '\n';
  };
  line("policy    {}, {}, {:.2f} s after {:.2f} s of start-up", policy, counted(ranks.size(), "rank"), job.wall_s,
       job.startup_s);
  text += measure::summary_text(job);
  if (ranks.size() == 1) return text;
  line("\n{:>6} {:>8} {:>8} {:>9} {:>9} {:>9} {:>10}", "rank", "steps", "fresh", "AU %", "stall %", "lambda",
       "images/s");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Summary& one = ranks[rank];
    line("{:>6} {:>8} {:>8} {:>9.1f} {:>9.2f} {:>9.2f} {:>10.0f}", rank, one.steps, one.fresh, 100 * one.au,
         100 * measure::ratio(one.stall_s, one.wall_s), one.produce_rate, one.images_per_s);
  }
  return text;
}

std::string add_profiles(const std::string& summary, std::span<const Profile> ranks) {
  using Json = nlohmann::ordered_json;
  Json job = Json::parse(summary);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    job["ranks"].at(rank)["profile"] = Json::parse(forebay::to_json(ranks[rank]));
  }
  job["profile"] = Json::parse(forebay::to_json(combine(ranks)));
  job["profile"]["slowest_rank"] = slowest_rank(ranks);
  return job.dump(2);
}

}  // namespace forebay::cli
