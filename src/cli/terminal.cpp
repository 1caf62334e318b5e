#include "terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace forebay {
namespace {

std::size_t terminal_width() {
  winsize size{};
  constexpr std::size_t kUsual = 80;
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

}  // namespace

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
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit > 0 && value < 10 ? "%.1f %s" : "%.0f %s", value, kUnits[unit]);
  return text.data();
}

ProgressBar::ProgressBar(std::string what) : what_(std::move(what)), is_terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (is_drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  const auto now = Clock::now();
  if (!is_terminal_ || total == 0 || now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  draw(std::min(done, total), total, std::chrono::duration<double>(now - start_).count());
  is_drawn_ = true;
}

void ProgressBar::draw(std::uint64_t done, std::uint64_t total, double elapsed_s) const {
  const double share = static_cast<double>(done) / static_cast<double>(total);
  std::array<char, 96> tail{};
  std::snprintf(tail.data(), tail.size(), " %3.0f %%  %s / %s", share * 100, grouped(done).c_str(),
                grouped(total).c_str());
  std::string text = tail.data();
  if (done > 0) {
    std::snprintf(tail.data(), tail.size(), "  %.0f s left", elapsed_s * (1 - share) / share);
    text += tail.data();
  }
  constexpr std::size_t kFrame = 4;
  const std::size_t taken = what_.size() + text.size() + kFrame;
  const std::size_t width = terminal_width();
  const std::size_t bar = width > taken ? std::min<std::size_t>(width - taken, 40) : 0;
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(bar));
  const std::string line = what_ + " [" + std::string(filled, '#') + std::string(bar - filled, '-') + "]" + text;
  std::fprintf(stderr, "\r%s\033[K", line.substr(0, width > 0 ? width - 1 : 0).c_str());
  std::fflush(stderr);
}

}  // namespace forebay
