#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "base/file_io.hpp"
#include "base/retry.hpp"

// Lets nlohmann's parser read a file as a stream.
namespace forebay::data {

// Sequential bytes of a file, read in pieces of 1 MiB. One thread. With each piece it calls
// `progress` with the share of the file that lies before it; the constructor and pass() throw what
// it throws, and SampleError if the file cannot be read.
class PiecewiseBytes {
 public:
  PiecewiseBytes(const OpenFile& file, std::function<void(double share)> progress)
      : file_(file), progress_(std::move(progress)) {
    next_piece();
  }
  [[nodiscard]] bool is_at_end() const noexcept { return at_ == piece_.size(); }
  [[nodiscard]] char byte() const noexcept { return static_cast<char>(piece_[at_]); }
  void pass() {
    if (++at_ == piece_.size()) next_piece();
  }
  [[nodiscard]] std::size_t passed() const noexcept { return begin_ + at_; }

 private:
  static constexpr std::size_t kPieceOfJson = std::size_t{1} << 20U;

  void next_piece() {
    begin_ += piece_.size();
    at_ = 0;
    piece_.resize(std::min(kPieceOfJson, file_.size - begin_));
    if (piece_.empty()) return;
    read_at_patiently(file_, begin_, piece_);
    progress_(static_cast<double>(begin_) / static_cast<double>(file_.size));
  }

  const OpenFile& file_;
  std::function<void(double share)> progress_;
  std::vector<std::byte> piece_;
  std::size_t begin_ = 0;  // offset of the piece in the file
  std::size_t at_ = 0;     // position in the piece
};

// An input iterator over PiecewiseBytes, as the parser requires it.
struct ByteIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  PiecewiseBytes* bytes = nullptr;  // null: the end

  char operator*() const noexcept { return bytes->byte(); }
  ByteIterator& operator++() {
    bytes->pass();
    return *this;
  }
  ByteIterator operator++(int) {
    const ByteIterator before = *this;
    bytes->pass();
    return before;
  }
  // REQUIRES: one of them is the end.
  friend bool operator==(const ByteIterator& a, const ByteIterator& b) noexcept {
    return (a.bytes == nullptr || a.bytes->is_at_end()) && (b.bytes == nullptr || b.bytes->is_at_end());
  }
  friend bool operator!=(const ByteIterator& a, const ByteIterator& b) noexcept { return !(a == b); }
};

}  // namespace forebay::data
