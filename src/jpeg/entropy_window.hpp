#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace forebay::jpeg {

// A moving window over the bytes of an entropy-coded segment, up to the next marker, without the
// byte stuffed after each 0xff. Belongs to one thread.
//
// Invariant: end() <= memory + kCapacity, and kMargin bytes after end() are readable; their values
// are meaningless.
class EntropyWindow {
 public:
  static constexpr std::size_t kMargin = 2560;
  // Bytes before the position given to advance() that stay in the window, if there are as many.
  static constexpr std::size_t kKept = 8;

  // Begins at the first of these bytes, which must stay valid. Returns its position in the window.
  const std::uint8_t* open(std::span<const std::byte> bytes) noexcept;

  // After the last byte in the window.
  [[nodiscard]] const std::uint8_t* end() const noexcept { return memory_.data() + size_; }
  // The number of input bytes before `at`, including stuffed ones and markers. REQUIRES: `at` points into the window.
  [[nodiscard]] std::size_t place_of(const std::uint8_t* at) const noexcept;
  // Whether fewer than kMargin bytes follow `at` in the window, and there are more in the segment.
  [[nodiscard]] bool is_short(const std::uint8_t* at) const noexcept {
    return !ended_ && end() - at < static_cast<std::ptrdiff_t>(kMargin);
  }
  // Drops all but kKept bytes before `at`, appends more of the segment, and returns the new
  // position of `at`. REQUIRES: is_short(at).
  const std::uint8_t* advance(const std::uint8_t* at) noexcept;

  // Whether the window contains the rest of the segment.
  [[nodiscard]] bool is_whole() const noexcept { return ended_; }
  // The second byte of the marker that ends the segment; 0 if there is none, or if more than one
  // 0xff precedes it. REQUIRES: is_whole().
  [[nodiscard]] unsigned marker() const noexcept;
  // Continues after that marker, and returns the new position. REQUIRES: marker() is not 0.
  const std::uint8_t* pass_marker() noexcept;

 private:
  static constexpr std::size_t kCapacity = std::size_t{16} << 10;

  const std::uint8_t* begin_with(std::span<const std::byte> bytes) noexcept;
  void fill() noexcept;

  std::array<std::uint8_t, kCapacity + kMargin> memory_{};
  std::size_t size_ = 0;
  std::size_t given_ = 0;            // bytes given to open()
  std::span<const std::byte> rest_;  // not copied yet
  bool ended_ = false;               // `rest_` is empty or begins with a marker
};

}  // namespace forebay::jpeg
