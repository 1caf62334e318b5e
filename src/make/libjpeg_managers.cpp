// Replaces libjpeg's memory manager and data source. Memory comes from a few large blocks that are
// reused from image to image, because malloc() and page faults cost as much as decoding a small
// image. All memory that libjpeg takes for an image is given back at once at its end (rewind()).
// Under AddressSanitizer, poisoned gaps separate allocations and rows, as with malloc().
//
// Virtual arrays, which libjpeg uses for progressive files, are plain memory here. They are bounded
// by max_memory_to_use, which is set from the size of the image.

#include "libjpeg_managers.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include <jerror.h>

#include "base/poison.hpp"

namespace forebay::make {
namespace {

// A cache line, and no less than any vector that libjpeg-turbo loads. Rows are padded to it as
// well.
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kSmallestBlock = std::size_t{64} << 10;
// The gap after each allocation and each row, so that AddressSanitizer notices reads past the end.
constexpr std::size_t kGap = kPoisons ? kAlignment : 0;

constexpr std::size_t aligned(std::size_t bytes) noexcept { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// ERREXIT1 is a macro that looks like a plain statement; it does not return.
void out_of_memory(j_common_ptr info) noexcept { ERREXIT1(info, JERR_OUT_OF_MEMORY, 0); }

}  // namespace

struct alignas(kAlignment) JpegMemory::Block {
  Block* older;
  std::size_t bytes;

  [[nodiscard]] std::byte* begin() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
};

// A virtual array of coefficient blocks. Rows are zeroed when first accessed, as by libjpeg's own
// manager.
struct JpegMemory::Blocks {
  JBLOCKARRAY rows;
  JDIMENSION count;
  JDIMENSION defined;  // rows below this one were zeroed or written
  std::size_t row_bytes;
  bool zeroed;
};

JpegMemory::JpegMemory() noexcept : jpeg_memory_mgr{} {
  alloc_small = alloc_large = [](j_common_ptr info, int, std::size_t bytes) { return of(info).take(info, bytes); };
  alloc_sarray = [](j_common_ptr info, int, JDIMENSION samples, JDIMENSION rows) {
    return take_rows<JSAMPROW>(info, samples * sizeof(JSAMPLE), rows);
  };
  alloc_barray = [](j_common_ptr info, int, JDIMENSION blocks, JDIMENSION rows) {
    return take_rows<JBLOCKROW>(info, blocks * sizeof(JBLOCK), rows);
  };
  request_virt_barray = [](j_common_ptr info, int, boolean zeroed, JDIMENSION blocks, JDIMENSION rows, JDIMENSION) {
    auto* array = static_cast<Blocks*>(of(info).take(info, sizeof(Blocks)));
    *array = {.rows = take_rows<JBLOCKROW>(info, blocks * sizeof(JBLOCK), rows),
              .count = rows,
              .defined = 0,
              .row_bytes = blocks * sizeof(JBLOCK),
              .zeroed = zeroed != FALSE};
    return reinterpret_cast<jvirt_barray_ptr>(array);
  };
  access_virt_barray = [](j_common_ptr info, jvirt_barray_ptr pointer, JDIMENSION first, JDIMENSION rows, boolean) {
    auto& array = *reinterpret_cast<Blocks*>(pointer);
    const JDIMENSION end = first + rows;
    if (end > array.count) ERREXIT(info, JERR_BAD_VIRTUAL_ACCESS);
    if (end > array.defined) {
      for (; array.zeroed && array.defined < end; ++array.defined)
        std::memset(array.rows[array.defined], 0, array.row_bytes);
      array.defined = end;
    }
    return array.rows + first;
  };
  realize_virt_arrays = [](j_common_ptr) {};
  // Only quantisation to a palette asks for these.
  request_virt_sarray = [](j_common_ptr info, int, boolean, JDIMENSION, JDIMENSION, JDIMENSION) -> jvirt_sarray_ptr {
    ERREXIT(info, JERR_NOTIMPL);
    return nullptr;
  };
  access_virt_sarray = [](j_common_ptr info, jvirt_sarray_ptr, JDIMENSION, JDIMENSION, boolean) -> JSAMPARRAY {
    ERREXIT(info, JERR_NOTIMPL);
    return nullptr;
  };
  free_pool = [](j_common_ptr, int) {};  // rewind() frees everything at once
  // libjpeg's own manager allocated the decompressor, and frees what it allocated before serve().
  self_destruct = [](j_common_ptr info) {
    JpegMemory& memory = of(info);
    info->mem = memory.own_;
    info->mem->self_destruct(info);
    memory.rewind();
  };
}

void JpegMemory::serve(jpeg_decompress_struct& info) noexcept {
  own_ = info.mem;
  was_refused_ = false;
  max_memory_to_use = own_->max_memory_to_use;
  max_alloc_chunk = own_->max_alloc_chunk;
  info.mem = this;
}

std::size_t JpegMemory::held() const noexcept {
  std::size_t bytes = 0;
  for (const Block* block = newest_; block != nullptr; block = block->older) bytes += block->bytes;
  return bytes;
}

// A refusal leaves through libjpeg's error exit. was_refused_ lets the caller tell lack of memory
// from damage.
void* JpegMemory::take(j_common_ptr info, std::size_t wanted) noexcept {
  const std::size_t bytes = aligned(wanted) + kGap;
  const auto limit = static_cast<std::size_t>(max_memory_to_use);
  if (limit != 0 && (bytes > limit || taken_ > limit - bytes)) out_of_memory(info);
  if ((newest_ == nullptr || newest_->bytes - used_ < bytes) && !add_block(bytes)) out_of_memory(info);
  std::byte* const begin = newest_->begin() + used_;
  used_ += bytes;
  taken_ += bytes;
  unpoison(begin, wanted);
  return begin;
}

bool JpegMemory::add_block(std::size_t bytes) noexcept {
  // As much as is held already, so that an image needs few blocks; or all that the last image took,
  // if it needed several, so that this one needs only one.
  const auto size = aligned(std::max({bytes, std::min(held(), kKeptBytes), wanted_, kSmallestBlock}));
  auto* block = static_cast<Block*>(std::aligned_alloc(kAlignment, sizeof(Block) + size));
  was_refused_ = block == nullptr;
  if (was_refused_) return false;
  block->older = newest_;
  block->bytes = size;
  newest_ = block;
  used_ = 0;
  poison(block->begin(), size);
  return true;
}

// If an image took several blocks, they are freed, and the next image gets a single block as large
// as all of them. A block that is much larger than usual is freed once kPatience images in a row
// have not needed it.
void JpegMemory::rewind() noexcept {
  const bool several = newest_ != nullptr && newest_->older != nullptr;
  unneeded_ = taken_ > kKeptBytes || held() <= kKeptBytes ? 0 : unneeded_ + 1;
  wanted_ = several ? taken_ : 0;
  if (several || unneeded_ >= kPatience) free_blocks();
  if (newest_ != nullptr) poison(newest_->begin(), newest_->bytes);
  used_ = taken_ = 0;
}

void JpegMemory::free_blocks() noexcept {
  while (newest_ != nullptr) {
    Block* const older = newest_->older;
    std::free(newest_);
    newest_ = older;
  }
  unneeded_ = 0;
}

template <typename Row>
Row* JpegMemory::take_rows(j_common_ptr info, std::size_t row_bytes, JDIMENSION rows) noexcept {
  const std::size_t stride = aligned(row_bytes) + kGap;
  auto* const all = static_cast<Row*>(of(info).take(info, rows * sizeof(Row)));
  auto* row = static_cast<std::byte*>(of(info).take(info, rows * stride));
  for (JDIMENSION i = 0; i < rows; ++i, row += stride) {
    all[i] = reinterpret_cast<Row>(row);
    poison(row + row_bytes, stride - row_bytes);
  }
  return all;
}

namespace {

// The marker that libjpeg's own data sources deliver past the end of a file, after a warning.
constexpr std::array<JOCTET, 2> kEndOfImageMarker{0xff, JPEG_EOI};

}  // namespace

JpegSource::JpegSource() noexcept : jpeg_source_mgr{} {
  init_source = [](j_decompress_ptr) {};
  term_source = [](j_decompress_ptr) {};
  resync_to_restart = jpeg_resync_to_restart;
  fill_input_buffer = [](j_decompress_ptr info) -> boolean {
    of(info).give_next(info);
    return TRUE;
  };
  // Past the end of the file give_next() delivers end markers for ever, so a segment that claims a
  // length beyond it ends with a warning.
  skip_input_data = [](j_decompress_ptr info, long count) {
    if (count <= 0) return;
    JpegSource& source = of(info);
    auto left = static_cast<std::size_t>(count);
    while (left > source.bytes_in_buffer) {
      left -= source.bytes_in_buffer;
      source.give_next(info);
    }
    source.next_input_byte += left;
    source.bytes_in_buffer -= left;
  };
}

void JpegSource::serve(jpeg_decompress_struct& info, std::span<const std::byte> bytes) noexcept {
  bytes_ = bytes;
  given_ = 0;
  next_input_byte = nullptr;
  bytes_in_buffer = 0;
  info.src = this;
}

void JpegSource::give_next(j_decompress_ptr info) noexcept {
  if (given_ == bytes_.size()) {
    WARNMS(info, JWRN_JPEG_EOF);
    next_input_byte = kEndOfImageMarker.data();
    bytes_in_buffer = kEndOfImageMarker.size();
    return;
  }
  const std::size_t size = std::min(kPieceBytes, bytes_.size() - given_);
  next_input_byte = reinterpret_cast<const JOCTET*>(bytes_.data()) + given_;
  bytes_in_buffer = size;
  given_ += size;
}

}  // namespace forebay::make
