#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace forebay::jpeg {

// The bytes of an entropy-coded segment up to the next marker, without what is stuffed behind each 0xff, a window of
// them at a time.
//
// Invariant: end() <= memory + kCapacity, and kMargin bytes behind end() may be read; they have no meaning.
class EntropyWindow {
 public:
  static constexpr std::size_t kMargin = 2560;
  // So many bytes before what advance() is given stay, if they have been here.
  static constexpr std::size_t kKept = 8;

  // Begins at the first of these bytes, and gives back where they are. They must stay.
  const std::uint8_t* open(std::span<const std::byte> bytes) noexcept;

  // Behind the last byte that is here.
  [[nodiscard]] const std::uint8_t* end() const noexcept { return memory_.data() + size_; }
  // How many of the bytes lie before `at` as they were given, stuffed ones and markers included. REQUIRES: `at` points
  // into what is here
  [[nodiscard]] std::size_t place_of(const std::uint8_t* at) const noexcept;
  // Fewer than kMargin bytes are here from `at` on, and there are more in the segment.
  [[nodiscard]] bool is_short(const std::uint8_t* at) const noexcept {
    return !ended_ && end() - at < static_cast<std::ptrdiff_t>(kMargin);
  }
  // Drops what is before `at` but for kKept bytes, adds what comes next, and gives back where `at` is now. REQUIRES:
  // is_short(at)
  const std::uint8_t* advance(const std::uint8_t* at) noexcept;

  // All of the segment is here.
  [[nodiscard]] bool is_whole() const noexcept { return ended_; }
  // The second byte of the marker that ends the segment; 0 if there is none, or if more than one 0xff precedes it.
  // REQUIRES: is_whole()
  [[nodiscard]] unsigned marker() const noexcept;
  // Begins with what follows that marker, and gives back where it is. REQUIRES: marker() is not 0
  const std::uint8_t* pass_marker() noexcept;

 private:
  static constexpr std::size_t kCapacity = std::size_t{16} << 10;

  const std::uint8_t* begin_with(std::span<const std::byte> bytes) noexcept;
  void fill() noexcept;

  std::array<std::uint8_t, kCapacity + kMargin> memory_{};
  std::size_t size_ = 0;
  std::size_t given_ = 0;            // bytes in all
  std::span<const std::byte> rest_;  // that has not been copied
  bool ended_ = false;               // `rest_` is empty or begins with a marker
};

}  // namespace forebay::jpeg
