#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "jpeg/coefficients.hpp"
#include "plain_header.hpp"

namespace forebay::pack {

// Writes the scan of a sequential JPEG file from its coefficients, with the codes in its header, as
// nearly all encoders do: no superfluous zeros, restart markers where they are due, the last byte
// padded with ones. For one thread.
class ScanWriter {
 public:
  // Appends to `out`. Both arguments must stay valid.
  ScanWriter(const PlainHeader& header, std::vector<std::byte>& out);

  // Writes a row of MCUs, with all columns; called from the top. Returns false if the codes have no
  // word for a symbol. REQUIRES: row.components() == frame.components.
  [[nodiscard]] bool add(jpeg::CoefficientRow& row);
  // Called after the last row.
  void finish() { fill_byte(); }

 private:
  struct Words {
    std::array<std::uint16_t, jpeg::HuffmanCode::kMost> word{};
    std::array<std::uint8_t, jpeg::HuffmanCode::kMost> length{};  // 0: the symbol has no word

    explicit Words(const jpeg::HuffmanCode& code) noexcept;
  };

  void put(std::uint32_t bits, unsigned count);
  [[nodiscard]] bool put_symbol(const Words& words, unsigned symbol, std::int32_t value);
  [[nodiscard]] bool add_block(std::size_t component, const std::int16_t* block, std::size_t extent);
  void fill_byte();

  const PlainHeader& header_;
  std::vector<std::byte>& out_;
  std::vector<Words> dc_;
  std::vector<Words> ac_;
  std::array<std::int32_t, jpeg::JpegFrame::kMostComponents> predictors_{};
  std::uint32_t until_restart_;
  unsigned next_restart_ = 0;
  std::uint64_t buffer_ = 0;  // the lowest `count_` bits are valid
  unsigned count_ = 0;
};

}  // namespace forebay::pack
