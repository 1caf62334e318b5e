// Removes the byte 0x00 that JPEG stuffs after each 0xff of entropy-coded data (T.81, B.1.1.5), one
// window at a time, so that the bit reader can load eight bytes at once without looking for
// markers. Runs on a decoder thread. A marker ends the window; is_whole() then says that all bits
// before it are in the window. When the window moves, kKept bytes before the current position stay,
// because the reader's buffer still holds bits of them whose position in the file may be requested
// (place_of()).

#include "entropy_window.hpp"

#include <algorithm>
#include <cstring>

namespace forebay::jpeg {
namespace {

constexpr std::byte kMarkerByte{0xff};

std::span<const std::byte> up_to_marker_byte(std::span<const std::byte> bytes) noexcept {
  if (bytes.empty()) return bytes;
  const auto* found =
      static_cast<const std::byte*>(std::memchr(bytes.data(), std::to_integer<int>(kMarkerByte), bytes.size()));
  return found == nullptr ? bytes : bytes.first(static_cast<std::size_t>(found - bytes.data()));
}

// There are no bytes left, or the next one begins a marker: a 0xff not followed by 0x00.
bool is_at_marker(std::span<const std::byte> bytes) noexcept {
  return bytes.empty() || (bytes[0] == kMarkerByte && (bytes.size() == 1 || bytes[1] != std::byte{0}));
}

}  // namespace

const std::uint8_t* EntropyWindow::open(std::span<const std::byte> bytes) noexcept {
  given_ = bytes.size();
  return begin_with(bytes);
}

const std::uint8_t* EntropyWindow::begin_with(std::span<const std::byte> bytes) noexcept {
  rest_ = bytes;
  size_ = 0;
  ended_ = false;
  fill();
  return memory_.data();
}

// Each 0xff in the window stands for two bytes of the file.
std::size_t EntropyWindow::place_of(const std::uint8_t* at) const noexcept {
  const auto stuffed = std::count(at, end(), std::to_integer<std::uint8_t>(kMarkerByte));
  return given_ - rest_.size() - static_cast<std::size_t>(end() - at + stuffed);
}

const std::uint8_t* EntropyWindow::advance(const std::uint8_t* at) noexcept {
  const auto before = std::min<std::ptrdiff_t>(at - memory_.data(), kKept);
  size_ = static_cast<std::size_t>(end() - at + before);
  std::memmove(memory_.data(), at - before, size_);
  fill();
  return memory_.data() + before;
}

// Stretches without 0xff are copied as a whole; about one byte in 256 is a 0xff.
void EntropyWindow::fill() noexcept {
  while (!is_at_marker(rest_) && size_ < kCapacity) {
    const auto plain = up_to_marker_byte(rest_.first(std::min(rest_.size(), kCapacity - size_)));
    if (!plain.empty()) {
      std::memcpy(memory_.data() + size_, plain.data(), plain.size());
      size_ += plain.size();
      rest_ = rest_.subspan(plain.size());
    } else {
      memory_[size_++] = std::to_integer<std::uint8_t>(kMarkerByte);
      rest_ = rest_.subspan(2);
    }
  }
  ended_ = is_at_marker(rest_);
}

// 0xff may be repeated as padding before a marker's code. libjpeg handles that in its own way, so
// the decoder stops there.
unsigned EntropyWindow::marker() const noexcept {
  if (rest_.size() < 2 || rest_[1] == kMarkerByte) return 0;
  return std::to_integer<unsigned>(rest_[1]);
}

const std::uint8_t* EntropyWindow::pass_marker() noexcept { return begin_with(rest_.subspan(2)); }

}  // namespace forebay::jpeg
