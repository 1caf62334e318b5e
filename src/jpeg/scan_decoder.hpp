#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "coefficients.hpp"
#include "entropy_window.hpp"
#include "huffman_table.hpp"
#include "scan_points.hpp"
#include "scan_symbols.hpp"

namespace forebay::jpeg {

// A cache of the tables of recently used codes, because many files of a dataset share theirs.
class HuffmanTables {
 public:
  // Null if libjpeg would refuse the code. The table stays valid until kKept other codes have been
  // requested.
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

// Decodes the entropy-coded segment of a baseline or extended sequential JPEG file with one scan:
// Huffman codes, 8 bits, components interleaved in the order of the frame.
//
// It can fail only by stopping. If it does not stop, libjpeg decodes the same coefficients without
// a warning. The cause of a stop may be damage, or something unusual that libjpeg accepts. It reads
// only the given bytes and writes only to the requested row, whatever the bytes are.
//
// With points it decodes only what is requested. It trusts them: if they are the file's, the result
// equals libjpeg's; otherwise the result is arbitrary, or the decoder stops.
//
// A decoder belongs to one thread; its memory is reused from image to image.
class ScanDecoder final : public CoefficientSource {
 public:
  struct Codes {
    HuffmanCode dc;
    HuffmanCode ac;
  };
  struct Scan {
    std::array<Codes, JpegFrame::kMostComponents> codes{};
    std::uint32_t restart_interval = 0;  // in MCUs; 0: none
    std::span<const std::byte> bytes;    // everything after the header; must stay valid
    McuRegion wanted;                    // what read() will be asked for
    ScanPoints points;                   // if any, read() begins each row at one of them
  };

  // Returns false if a table is invalid or an MCU has more than ten blocks. `frame` must outlive
  // the decoding.
  [[nodiscard]] bool open(const JpegFrame& frame, const Scan& scan);

  // REQUIRES: open() succeeded, and nothing has stopped since.
  [[nodiscard]] bool read(std::int32_t mcu_row, CoefficientRow& row) override;
  // Parses the rows above `mcu_row` that have not been parsed yet. REQUIRES: as for read(); there
  // are no points.
  [[nodiscard]] bool finish(std::int32_t mcu_row);
  // Parses all rows, and appends the points of the file to `packed`. Returns false also if a point
  // is too far into the file to be stored. REQUIRES: as for read(); nothing was read yet; there are
  // no points.
  [[nodiscard]] bool locate(std::vector<std::byte>& packed);
  // Whether the image ends here, with only padding before the end-of-image marker. REQUIRES:
  // finish(mcus_down) succeeded.
  [[nodiscard]] bool at_end_of_image() const noexcept { return is_at_marker(at_.bits, kEndOfImage); }

 private:
  static constexpr std::size_t kMostBlocks = 10;  // per MCU
  static constexpr std::int32_t kNone = -1;
  static constexpr unsigned kEndOfImage = 0xd9;
  static constexpr unsigned kFirstRestart = 0xd0;

  struct Block {
    const HuffmanTable* dc = nullptr;
    const HuffmanTable* ac = nullptr;
    std::size_t component = 0;
    std::size_t row = 0;     // row of blocks within the MCU
    std::size_t column = 0;  // column likewise
    std::size_t across = 0;  // blocks per row of the MCU, of this component
  };
  // Where a block of the next MCU is stored.
  struct Place {
    std::int16_t* blocks = nullptr;  // null: not stored
    std::uint8_t* extents = nullptr;
    std::size_t block = 0;
  };

  // A position in the scan.
  struct Cursor {
    std::unique_ptr<EntropyWindow> window = std::make_unique<EntropyWindow>();
    scan::Bits bits;
    std::array<std::int32_t, JpegFrame::kMostComponents> predictors{};
    std::size_t begun_at = 0;  // offset of the window in bytes_

    // Whether all bits consumed so far exist.
    [[nodiscard]] bool has(const scan::Bits& left) const noexcept {
      return (window->end() - left.next) * 8 + static_cast<std::ptrdiff_t>(left.count) >= 0;
    }
  };
  class Lane;

  void plan_blocks(const JpegFrame& frame, const std::array<HuffmanTable*, JpegFrame::kMostComponents>& dc,
                   const std::array<HuffmanTable*, JpegFrame::kMostComponents>& ac) noexcept;
  // The position where the next MCU begins.
  [[nodiscard]] ScanPoint point() const noexcept;
  // The first point at or after an MCU; none at the end of the scan.
  [[nodiscard]] std::optional<ScanPoint> point_behind(std::int32_t mcu_row, std::int32_t mcu) const noexcept;
  void begin_restarts(std::int64_t mcu) noexcept;
  [[nodiscard]] bool begin_at(std::int32_t mcu_row, std::int32_t number, std::int32_t right) noexcept;
  // begin_row() moves to MCU row.left(); is_behind() checks against the points that decoding has
  // ended at MCU row.right().
  [[nodiscard]] bool begin_row(std::int32_t mcu_row, const CoefficientRow& row) noexcept;
  [[nodiscard]] bool is_behind(std::int32_t mcu_row, const CoefficientRow& row) const noexcept;
  [[nodiscard]] bool read_from_points(std::int32_t mcu_row, CoefficientRow& row);
  // read_two() decodes this row and the next one, which is kept in ahead_.
  [[nodiscard]] bool can_read_two(std::int32_t mcu_row, const CoefficientRow& row) const noexcept;
  [[nodiscard]] bool read_two(std::int32_t mcu_row, CoefficientRow& row);
  [[nodiscard]] bool read_mcus(std::int32_t count, CoefficientRow& row) noexcept;
  [[nodiscard]] bool skip_mcus(std::int64_t count) noexcept;
  [[nodiscard]] bool begin_mcu(scan::Bits& bits) noexcept;
  [[nodiscard]] bool restart(scan::Bits& bits) noexcept;
  [[nodiscard]] bool is_at_marker(const scan::Bits& bits, unsigned marker) const noexcept;

  HuffmanTables tables_;
  const JpegFrame* frame_ = nullptr;
  std::span<const std::byte> bytes_;
  McuRegion wanted_;
  ScanPoints points_;
  std::array<Block, kMostBlocks> blocks_{};
  std::size_t block_count_ = 0;
  Cursor at_;
  std::int32_t next_row_ = 0;
  std::uint32_t restart_interval_ = 0;
  std::uint32_t until_restart_ = 0;  // in MCUs
  unsigned next_restart_ = 0;        // 0 to 7
  // With points: the cursor of the lower of two rows that are decoded together, and that row, kept
  // until it is requested.
  Cursor below_;
  CoefficientRow ahead_;
  std::int32_t ahead_row_ = kNone;
  bool has_ahead_ = false;  // ahead_ has the size for this image
};

}  // namespace forebay::jpeg
