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

// A cache of tables for recently used codes, because many files of a dataset have the same ones.
class HuffmanTables {
 public:
  // Null if libjpeg would refuse the code. The table stays valid until kKept other codes have been requested.
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
// Its only kind of failure is to stop. If it does not stop, libjpeg decodes the same coefficients without a warning;
// the cause of a stop may be damage, or something unusual that libjpeg accepts. It reads only the given bytes and
// writes only to the requested row, whatever the bytes are.
//
// With points it decodes only what is requested. It trusts them: if they are the file's, the result equals libjpeg's;
// otherwise it is arbitrary, or the decoder stops.
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
    McuRegion wanted;                    // what will be requested from read()
    ScanPoints points;                   // if any, where read() begins with each row
  };

  // False if a table is invalid or an MCU has more than ten blocks. `frame` must outlive the decoding.
  [[nodiscard]] bool open(const JpegFrame& frame, const Scan& scan);

  // REQUIRES: open() succeeded, and nothing has stopped since
  [[nodiscard]] bool read(std::int32_t mcu_row, CoefficientRow& row) override;
  // Decodes the rows above `mcu_row` that have not been decoded yet. REQUIRES: as for read(), and there are no points.
  [[nodiscard]] bool finish(std::int32_t mcu_row);
  // Decodes all rows, and appends the points of the file to `packed`. Also false if a point is too far to be stored.
  // REQUIRES: as for read(), nothing was read, and there are no points.
  [[nodiscard]] bool locate(std::vector<std::byte>& packed);
  // Whether the image ends here, with nothing but padding before the end-of-image marker. REQUIRES: finish(mcus_down)
  // succeeded
  [[nodiscard]] bool at_end_of_image() const noexcept { return is_at_marker(at_.bits, kEndOfImage); }

 private:
  static constexpr std::size_t kMostBlocks = 10;  // of an MCU
  static constexpr std::int32_t kNone = -1;
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

  // A place in the scan.
  struct Cursor {
    std::unique_ptr<EntropyWindow> window = std::make_unique<EntropyWindow>();
    scan::Bits bits;
    std::array<std::int32_t, JpegFrame::kMostComponents> predictors{};
    std::size_t begun_at = 0;  // the window, among bytes_

    // Whether all bits consumed so far exist.
    [[nodiscard]] bool has(const scan::Bits& left) const noexcept {
      return (window->end() - left.next) * 8 + static_cast<std::ptrdiff_t>(left.count) >= 0;
    }
  };
  class Lane;

  void plan_blocks(const JpegFrame& frame, const std::array<HuffmanTable*, JpegFrame::kMostComponents>& dc,
                   const std::array<HuffmanTable*, JpegFrame::kMostComponents>& ac) noexcept;
  // Where the next MCU begins.
  [[nodiscard]] ScanPoint point() const noexcept;
  // The first point at or after an MCU; none at the end.
  [[nodiscard]] std::optional<ScanPoint> point_behind(std::int32_t mcu_row, std::int32_t mcu) const noexcept;
  void begin_restarts(std::int64_t mcu) noexcept;
  [[nodiscard]] bool begin_at(std::int32_t mcu_row, std::int32_t number, std::int32_t right) noexcept;
  // Where reading row.left() begins, as is_behind() says whether it ended at row.right().
  [[nodiscard]] bool begin_row(std::int32_t mcu_row, const CoefficientRow& row) noexcept;
  [[nodiscard]] bool is_behind(std::int32_t mcu_row, const CoefficientRow& row) const noexcept;
  [[nodiscard]] bool read_from_points(std::int32_t mcu_row, CoefficientRow& row);
  // This row and the next one, which waits in ahead_.
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
  std::uint32_t until_restart_ = 0;  // MCUs
  unsigned next_restart_ = 0;        // 0 to 7
  // With points: the row below the last one read, if it has already been decoded.
  Cursor below_;
  CoefficientRow ahead_;
  std::int32_t ahead_row_ = kNone;
  bool has_ahead_ = false;  // it has this image's size
};

}  // namespace forebay::jpeg
