#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "jpeg/coefficients.hpp"

namespace forebay {

// What the coefficients of a block weigh, in the order of the zigzag.
using RecordWeights = std::array<std::int16_t, kBlockSize>;

// Records of blocks (held_math.hpp) on the host, for one kind of processor. All of them give the same results.
struct RecordKernels {
  const char* name;

  // Writes the record of a block that lies as CoefficientRow says and has nothing behind `extent`, and gives back how
  // long it is. 0, with anything written, when the first coefficient is outside -2048..2047 or another one outside
  // -8192..8192. Sets `is_heavy` if the coefficients, each times its weight, are more than `most` together, and
  // leaves it as it is if not. May write kHeldSlack bytes behind the record. REQUIRES: 0 <= weights; most <= 4000;
  // kMostRecordBytes and kHeldSlack fit at `record`
  std::size_t (*write)(const std::int16_t* block, std::size_t extent, const RecordWeights& weights, std::uint32_t most,
                       std::uint8_t* record, bool& is_heavy) noexcept;

  // Puts the coefficients of a record into a block that is 0 and lies likewise, and gives back its extent. May read
  // kHeldSlack bytes behind the record.
  std::uint8_t (*read)(const std::uint8_t* record, std::int16_t* block) noexcept;
};

// Plain loops, which define the results of the others. Any thread may call.
[[nodiscard]] const RecordKernels& scalar_record_kernels() noexcept;

// Those this processor can run, the fastest first, the scalar ones last. Never empty; the same in every call.
// Any thread may call.
[[nodiscard]] std::span<const RecordKernels> supported_record_kernels();

// Fills in what is compiled for `target`, one of Highway's, if anything. Any thread may call.
void set_record_kernels(std::int64_t target, RecordKernels& kernels);

}  // namespace forebay
