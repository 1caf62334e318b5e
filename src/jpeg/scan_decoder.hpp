#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "coefficients.hpp"
#include "entropy_window.hpp"
#include "huffman_table.hpp"

namespace forebay {

// Tables of the codes that files had of late; many files of a dataset have the same.
class HuffmanTables {
 public:
  // Null when libjpeg would refuse the code. What it points to stays until kKept other codes were asked for.
  [[nodiscard]] HuffmanTable* find(const HuffmanCode& code, HuffmanKind kind);

 private:
  static constexpr std::size_t kKept = 8;

  struct Known {
    HuffmanCode code;
    HuffmanKind kind = HuffmanKind::dc;
    HuffmanTable table;
    std::uint64_t used = 0;
    bool is_valid = false;
  };
  [[nodiscard]] Known& oldest();

  std::array<std::unique_ptr<Known>, kKept> known_;
  std::uint64_t uses_ = 0;
};

// Decodes the entropy-coded segment of a baseline or extended sequential JPEG file with one scan: Huffman codes, 8
// bits, components interleaved in the order of the frame.
//
// It knows one kind of failure: it stops. Whenever it does not, libjpeg decodes the same coefficients and has no
// complaint; what stops it may be damage, or something odd that libjpeg accepts. No bytes are read but those given, and
// nothing is written but to the row asked for, whatever the bytes are.
//
// One decoder belongs to one thread; its memory is reused from image to image.
class ScanDecoder final : public CoefficientSource {
 public:
  struct Codes {
    HuffmanCode dc;
    HuffmanCode ac;
  };
  struct Scan {
    std::array<Codes, JpegFrame::kMostComponents> codes{};
    std::uint32_t restart_interval = 0;  // MCUs; 0: none
    std::span<const std::byte> bytes;    // from the header's end to the end of the file; must stay
    McuRegion wanted;                    // what read() is going to be asked for
  };

  // False when a table is none, or when an MCU has more than ten blocks. `frame` must stay.
  [[nodiscard]] bool open(const JpegFrame& frame, const Scan& scan);

  // REQUIRES: open() succeeded, and nothing has stopped since
  [[nodiscard]] bool read(std::int32_t mcu_row, CoefficientRow& row) override;
  // Decodes the rows above `mcu_row` that have not been yet. REQUIRES: as read()
  [[nodiscard]] bool finish(std::int32_t mcu_row);
  // Whether the image ends here, as far as libjpeg cares. REQUIRES: finish(mcus_down) succeeded
  [[nodiscard]] bool at_end_of_image() { return window_.find_marker() == kEndOfImage; }

  // Bits that have been read, the first one on top.
  struct Bits {
    std::uint64_t buffer = 0;
    std::uint64_t count = 0;             // that are valid; more may be there, as they will be read again
    const std::uint8_t* next = nullptr;  // byte
  };

 private:
  static constexpr std::size_t kMostBlocks = 10;  // of an MCU
  static constexpr unsigned kEndOfImage = 0xd9;
  static constexpr unsigned kFirstRestart = 0xd0;

  struct Block {
    const HuffmanTable* dc = nullptr;
    const HuffmanTable* ac = nullptr;
    std::size_t component = 0;
    std::size_t row = 0;     // of blocks, in its MCU
    std::size_t column = 0;  // likewise
    std::size_t across = 0;  // blocks of a row of it
  };
  // Where a block of the next MCU goes.
  struct Place {
    std::int16_t* blocks = nullptr;  // null: nowhere
    std::uint8_t* extents = nullptr;
    std::size_t block = 0;
  };

  void plan_blocks(const JpegFrame& frame, const std::array<HuffmanTable*, JpegFrame::kMostComponents>& dc,
                   const std::array<HuffmanTable*, JpegFrame::kMostComponents>& ac) noexcept;
  [[nodiscard]] bool read_mcus(std::int32_t count, CoefficientRow& row) noexcept;
  [[nodiscard]] bool skip_mcus(std::int64_t count) noexcept;
  [[nodiscard]] bool begin_mcu(Bits& bits) noexcept;
  [[nodiscard]] bool restart(Bits& bits) noexcept;
  // Whether all bits that were taken exist.
  [[nodiscard]] bool is_within(const Bits& bits) const noexcept {
    return (window_.end() - bits.next) * 8 + static_cast<std::ptrdiff_t>(bits.count) >= 0;
  }

  HuffmanTables tables_;
  EntropyWindow window_;
  Bits bits_;
  const JpegFrame* frame_ = nullptr;
  std::array<Block, kMostBlocks> blocks_{};
  std::size_t block_count_ = 0;
  std::array<std::int32_t, JpegFrame::kMostComponents> predictors_{};
  std::int32_t next_row_ = 0;
  std::uint32_t restart_interval_ = 0;
  std::uint32_t until_restart_ = 0;  // MCUs
  unsigned next_restart_ = 0;        // 0 to 7
};

}  // namespace forebay
