// Writes the entropy-coded data of a scan from coefficients (T.81, F.1.2), with the Huffman codes
// of the file's own header, so that a packed file becomes the same file again. JpegPacker calls it
// for each row of MCUs. Encoders may differ in details (fill bits, superfluous runs of zeros). This
// does what nearly all of them do, and the packer compares the result with the original.

#include "scan_writer.hpp"

#include <bit>
#include <cstdlib>

namespace forebay::pack {
namespace {

constexpr unsigned kFirstRestartMarker = 0xd0;
constexpr unsigned kSixteenZeros = 0xf0;
constexpr unsigned kLargestSize = 15;

constexpr unsigned size_of_value(std::int32_t value) noexcept {
  return static_cast<unsigned>(std::bit_width(static_cast<std::uint32_t>(value < 0 ? -value : value)));
}

}  // namespace

// Codes are canonical, numbered as in HuffmanTable::build().
ScanWriter::Words::Words(const jpeg::HuffmanCode& code) noexcept {
  std::uint32_t next = 0;
  std::size_t taken = 0;
  for (std::size_t bits = 1; bits <= jpeg::HuffmanCode::kLongest; ++bits, next <<= 1U) {
    for (unsigned i = 0; i < code.counts[bits] && taken < jpeg::HuffmanCode::kMost; ++i, ++next, ++taken) {
      word[code.symbols[taken]] = static_cast<std::uint16_t>(next);
      length[code.symbols[taken]] = static_cast<std::uint8_t>(bits);
    }
  }
}

ScanWriter::ScanWriter(const PlainHeader& header, std::vector<std::byte>& out)
    : header_(header), out_(out), until_restart_(header.restart_interval) {
  for (std::size_t k = 0; k < header.frame.components; ++k) {
    dc_.emplace_back(header.codes[k].dc);
    ac_.emplace_back(header.codes[k].ac);
  }
}

// A restart interval ends with a filled byte and a marker that counts modulo 8; DC prediction then
// starts anew.
bool ScanWriter::add(jpeg::CoefficientRow& row) {
  const jpeg::JpegFrame& frame = header_.frame;
  for (std::int32_t x = 0; x < frame.mcus_across; ++x) {
    if (header_.restart_interval > 0) {
      if (until_restart_ == 0) {
        fill_byte();
        out_.push_back(std::byte{0xff});
        out_.push_back(static_cast<std::byte>(kFirstRestartMarker + next_restart_));
        next_restart_ = (next_restart_ + 1) % 8;
        predictors_ = {};
        until_restart_ = header_.restart_interval;
      }
      --until_restart_;
    }
    for (std::size_t k = 0; k < frame.components; ++k) {
      const auto h = static_cast<std::size_t>(frame.component[k].h);
      for (std::size_t r = 0; r < static_cast<std::size_t>(frame.component[k].v); ++r) {
        const std::int16_t* const blocks = row.blocks(k, r);
        const std::uint8_t* const extents = row.extents(k, r);
        for (std::size_t at = static_cast<std::size_t>(x) * h; at < (static_cast<std::size_t>(x) + 1) * h; ++at) {
          if (!add_block(k, blocks + jpeg::CoefficientRow::place_of(at), extents[at])) return false;
        }
      }
    }
  }
  return true;
}

// A run of more than 15 zeros takes the symbol 0xf0 for each 16 of them. There is no end of block
// after the last coefficient of the zigzag.
bool ScanWriter::add_block(std::size_t component, const std::int16_t* block, std::size_t extent) {
  const std::int32_t difference = block[0] - predictors_[component];
  predictors_[component] = block[0];
  if (!put_symbol(dc_[component], 0, difference)) return false;
  const Words& ac = ac_[component];
  unsigned zeros = 0;
  for (std::size_t k = 1; k <= extent; ++k) {
    const std::int32_t value = block[jpeg::CoefficientRow::kPlaces[k]];
    if (value == 0) {
      ++zeros;
      continue;
    }
    for (; zeros > 15; zeros -= 16) {
      if (!put_symbol(ac, kSixteenZeros, 0)) return false;
    }
    if (!put_symbol(ac, zeros << 4U, value)) return false;
    zeros = 0;
  }
  const bool reaches_end = extent == jpeg::kBlockSize - 1 && zeros == 0;
  return reaches_end || put_symbol(ac, 0, 0);
}

// The low four bits of the symbol say how many bits the value takes.
bool ScanWriter::put_symbol(const Words& words, unsigned symbol, std::int32_t value) {
  const unsigned size = size_of_value(value);
  if (size > kLargestSize) return false;
  symbol |= size;
  if (words.length[symbol] == 0) return false;
  // A negative value is stored as its one's complement (T.81, F.1.2.1).
  const auto bits = static_cast<std::uint32_t>(value < 0 ? value - 1 : value) & ((1U << size) - 1);
  put(std::uint32_t{words.word[symbol]} << size | bits, words.length[symbol] + size);
  return true;
}

// A byte 0xff is followed by 0x00, so that it does not look like a marker.
void ScanWriter::put(std::uint32_t bits, unsigned count) {
  buffer_ = buffer_ << count | bits;
  count_ += count;
  while (count_ >= 8) {
    count_ -= 8;
    const auto byte = static_cast<std::byte>(buffer_ >> count_ & 0xffU);
    out_.push_back(byte);
    if (byte == std::byte{0xff}) out_.push_back(std::byte{0});
  }
}

// Fills with ones, as T.81 (F.1.2.3) requires before a marker.
void ScanWriter::fill_byte() {
  if (count_ > 0) put((1U << (8 - count_)) - 1, 8 - count_);
}

}  // namespace forebay::pack
