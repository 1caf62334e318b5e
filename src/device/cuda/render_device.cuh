#pragma once

// The dequeue transform on a GPU. What a pixel is stands in forebay/detail/canvas_math.hpp, which the host compiles
// too; here is only who computes which pixel, and what is kept so that nothing is computed twice.
//
// A warp makes a strip: kStripRows rows of 32 lanes' pixels, kPixels neighbours to a lane, so that each of its stores
// fills whole lines of memory. In views that are enlarged downwards a lane goes down its strip with two rows of
// resampled pixels in registers, and each row is resampled once. In others the lanes first mix the rows that make a row
// of the strip, word by word into shared memory, and then resample from there. Warps never wait for each other.

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <forebay/detail/canvas_math.hpp>

#include "render_kernels.hpp"

namespace forebay::cuda {

// The block's memory whose size the launch says. Defined by whoever compiles this.
__device__ std::byte* shared_memory() noexcept;

constexpr std::int32_t kLanes = 32;
constexpr std::int32_t kWarps = 8;  // of a block
constexpr std::int32_t kStripRows = 16;
constexpr std::int32_t kDrawThreads = 128;
constexpr std::int32_t kWord = 4;  // bytes

// As PlainWords, in the device's own instructions.
struct DeviceWords {
  static __device__ __forceinline__ void add_products(std::uint32_t first, std::uint32_t second, std::uint32_t pair,
                                                      std::array<std::uint32_t, 4>& sums) noexcept {
    // Bytes 0 of both and bytes 1 of both; bytes 2 and bytes 3.
    const std::uint32_t lower = __byte_perm(first, second, 0x5140);
    const std::uint32_t upper = __byte_perm(first, second, 0x7362);
    sums[0] = __dp2a_lo(pair, lower, sums[0]);
    sums[1] = __dp2a_hi(pair, lower, sums[1]);
    sums[2] = __dp2a_lo(pair, upper, sums[2]);
    sums[3] = __dp2a_hi(pair, upper, sums[3]);
  }

 protected:
  // Three aligned words hold the 6 bytes of two pixels wherever they begin.
  static __device__ __forceinline__ TwoPixels two_of(std::uint32_t first, std::uint32_t second, std::uint32_t third,
                                                     std::int32_t offset) noexcept {
    const std::uint32_t begin = 8 * static_cast<std::uint32_t>(offset);  // modulo 32
    const std::uint32_t front = __funnelshift_r(first, second, begin);
    const std::uint32_t back = __funnelshift_r(second, third, begin);
    return {front, __byte_perm(front, back, 0x6543)};
  }
  static __device__ __forceinline__ const std::uint32_t* words_at(const std::uint8_t* row,
                                                                  std::int32_t offset) noexcept {
    return reinterpret_cast<const std::uint32_t*>(row) + static_cast<std::uint32_t>(offset) / kWord;
  }
};

// Reads rows of canvases, which nobody writes meanwhile. The third word may begin up to 8 bytes behind the pixels,
// which the infos behind the last canvas leave room for.
struct CanvasWords : DeviceWords {
  static __device__ __forceinline__ TwoPixels two_pixels(const std::uint8_t* row, std::int32_t offset) noexcept {
    const std::uint32_t* const words = words_at(row, offset);
    return two_of(__ldg(words), __ldg(words + 1), __ldg(words + 2), offset);
  }
};

// Reads rows in shared memory.
struct RowWords : DeviceWords {
  static __device__ __forceinline__ TwoPixels two_pixels(const std::uint8_t* row, std::int32_t offset) noexcept {
    const std::uint32_t* const words = words_at(row, offset);
    return two_of(words[0], words[1], words[2], offset);
  }
};

// ---------------------------------------------------------------- views

// What rendering needs of a sample's view; the tables follow it.
struct alignas(16) DrawnView {
  std::int32_t left;  // in the canvas
  std::int32_t top;
  std::int32_t width;
  std::int32_t height;
  std::int32_t mirror;
};
static_assert(sizeof(DrawnView) <= kViewHeader);

// The table of an axis of `out` pixels: the first input pixel of each, then the first pairs of coefficients of all,
// then the second ones.
struct AxisTable {
  std::uint32_t* words;
  std::int32_t out;

  __device__ std::uint32_t& first(std::int32_t i) const noexcept { return words[i]; }
  __device__ std::uint32_t& pair(std::int32_t i, std::int32_t at) const noexcept {
    return words[static_cast<std::size_t>(at + 1) * static_cast<std::size_t>(out) + static_cast<std::size_t>(i)];
  }
  __device__ void set(std::int32_t i, const PixelTaps& taps) const noexcept {
    first(i) = static_cast<std::uint32_t>(taps.first);
    for (std::int32_t at = 0; 2 * at < taps.taps; ++at) pair(i, at) = taps.pair(at);
  }
};

struct ViewTables {
  DrawnView* view;
  AxisTable columns;  // in the order of the result, mirrored or not
  AxisTable rows;
};

__device__ inline ViewTables tables_of(const RenderPlan& plan, std::byte* scratch, std::uint32_t sample) noexcept {
  std::byte* const at = scratch + view_bytes(plan) * sample;
  auto* const columns = reinterpret_cast<std::uint32_t*>(at + kViewHeader);
  auto* const rows = columns + axis_words(plan.canvas.width, plan.view.width);
  return {reinterpret_cast<DrawnView*>(at), {columns, plan.view.width}, {rows, plan.view.height}};
}

// A block for each sample: one thread draws, all of them make the tables.
__global__ void __launch_bounds__(kDrawThreads)
    draw_views(const RenderPlan* __restrict__ plan, RenderBatch batch, std::byte* scratch) {
  __shared__ DrawnView drawn;
  const std::uint32_t sample = blockIdx.x;
  const ViewTables tables = tables_of(*plan, scratch, sample);
  if (threadIdx.x == 0) {
    const CanvasInfo info = info_of(plan->canvas, batch.canvases, sample);
    const ImageView view = canvas_view(*plan, info, batch.epoch, batch.first_position + sample, batch.use_index);
    const Box& region = view.region;
    drawn = {region.left, region.top, region.width(), region.height(), view.mirror ? 1 : 0};
    *tables.view = drawn;
  }
  __syncthreads();
  const ResamplingAxis across = resampling_axis(drawn.width, plan->view.width);
  const ResamplingAxis down = resampling_axis(drawn.height, plan->view.height);
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < across.out + down.out; i += kDrawThreads) {
    if (i < across.out) {
      tables.columns.set(drawn.mirror != 0 ? across.out - 1 - i : i, pixel_taps(across, i));
    } else {
      tables.rows.set(i - across.out, pixel_taps(down, i - across.out));
    }
  }
}

// Coefficients of a pixel along one axis, kPairs of two.
template <std::int32_t kPairs>
struct LaneTaps {
  static constexpr std::int32_t taps = 2 * kPairs;

  std::int32_t first;
  std::int32_t precision;
  std::uint32_t pairs[kPairs];

  __device__ __forceinline__ void read(const ResamplingAxis& axis, const AxisTable& table, std::int32_t i) noexcept {
    first = static_cast<std::int32_t>(table.first(i));
    precision = axis.precision;
#pragma unroll
    for (std::int32_t at = 0; at < kPairs; ++at) pairs[at] = table.pair(i, at);
  }
  __device__ __forceinline__ std::uint32_t pair(std::int32_t at) const noexcept { return pairs[at]; }
};

// As many as there are; they stay in the table.
template <>
struct LaneTaps<0> {
  std::int32_t first;
  std::int32_t taps;
  std::int32_t precision;
  const std::uint32_t* pairs;
  std::int32_t stride;

  __device__ __forceinline__ void read(const ResamplingAxis& axis, const AxisTable& table, std::int32_t i) noexcept {
    first = static_cast<std::int32_t>(table.first(i));
    taps = axis.taps;
    precision = axis.precision;
    pairs = &table.pair(i, 0);
    stride = table.out;
  }
  __device__ __forceinline__ std::uint32_t pair(std::int32_t at) const noexcept {
    return pairs[static_cast<std::size_t>(at) * static_cast<std::size_t>(stride)];
  }
};

// ---------------------------------------------------------------- strips

// What a lane makes of the elements of one size.
template <typename Element>
struct LanePixels {
  static constexpr std::int32_t kPixels = sizeof(Element) == 4 ? 2 : 4;
  static constexpr std::int32_t kInWord = kWord / static_cast<std::int32_t>(sizeof(Element));
  static constexpr std::int32_t kWords = kPixels / kInWord;  // of one channel
};

[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::int32_t parts(std::int32_t whole, std::int32_t part) noexcept {
  return (whole + part - 1) / part;
}

// How the work of a launch is dealt out.
template <typename Element>
struct Deal {
  static constexpr std::int32_t kWidth = kLanes * LanePixels<Element>::kPixels;  // of a strip

  std::int32_t strips_across;
  std::int32_t strips_down;
  std::size_t table_bytes;        // of shared memory, first
  std::size_t mixed_bytes;        // then, of each warp: a mixed row
  std::size_t interleaved_bytes;  // and what its lanes exchange

  FOREBAY_HOST_DEVICE explicit constexpr Deal(const RenderPlan& plan) noexcept
      : strips_across(parts(plan.view.width, kWidth)),
        strips_down(parts(plan.view.height, kStripRows)),
        table_bytes(3 * 256 * sizeof(Element)),
        mixed_bytes(0),
        interleaved_bytes(plan.layout == Layout::nhwc ? 3 * kWidth * sizeof(Element) : 0) {
    // The pixels that a strip's columns can need, a window more than their share of the widest view; and two words
    // that reading aligned ones adds.
    const std::int64_t in = plan.canvas.width;
    const std::int64_t out = plan.view.width;
    const std::int64_t wider = in > out ? in : out;
    const std::int64_t pixels = (kWidth * wider + out - 1) / out + (2 * wider + out - 1) / out + 2;
    mixed_bytes = static_cast<std::size_t>((3 * (pixels < in ? pixels : in) + 3 * kWord + 15) / 16 * 16);
  }
  [[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::uint32_t strips() const noexcept {
    return static_cast<std::uint32_t>(strips_across) * static_cast<std::uint32_t>(strips_down);
  }
  [[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::size_t warp_bytes() const noexcept {
    return mixed_bytes + interleaved_bytes;
  }
  [[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::size_t shared_bytes() const noexcept {
    return table_bytes + kWarps * warp_bytes();
  }
  // Blocks that a batch takes.
  [[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::uint32_t blocks(std::uint32_t samples) const noexcept {
    return (strips() * samples + kWarps - 1) / kWarps;
  }
};

// How the elements of a lane go to memory: each channel's to its plane, pixels beside each other, or one by one in
// either layout, where lanes do not fill rows.
enum class Output : std::uint8_t { planes, pixels, single };

// One warp's work on one strip, with kPairs pairs of coefficients for each pixel along a row, at most two down a
// column; or any number with 0.
template <typename Element, Output kOutput, std::int32_t kPairs>
class StripRenderer {
  using Lane = LanePixels<Element>;
  static constexpr std::int32_t kPixels = Lane::kPixels;
  static constexpr std::int32_t kRowPairs = kPairs == 0 ? 0 : 2;  // of rows that are mixed first

 public:
  __device__ __forceinline__ StripRenderer(const RenderPlan& plan, const RenderLaunch& launch, std::uint32_t sample,
                                           std::int32_t first_column, std::int32_t first_row, const Element* table,
                                           std::uint8_t* mixed, std::uint32_t* interleaved) noexcept
      : tables_(tables_of(plan, launch.scratch, sample)),
        across_(resampling_axis(tables_.view->width, plan.view.width)),
        down_(resampling_axis(tables_.view->height, plan.view.height)),
        row_bytes_(plan.canvas.row_bytes()),
        rows_(reinterpret_cast<const std::uint8_t*>(launch.batch.canvases) + plan.canvas.place_bytes() * sample +
              static_cast<std::size_t>(tables_.view->top) * row_bytes_),
        lane_(static_cast<std::int32_t>(threadIdx.x) % kLanes),
        first_column_(first_column),
        first_row_(first_row),
        height_(first_row + kStripRows < plan.view.height ? kStripRows : plan.view.height - first_row),
        width_(plan.view.width),
        row_step_(plan.layout == Layout::nchw ? width_ : 3 * width_),
        plane_(plan.layout == Layout::nchw
                   ? static_cast<std::size_t>(width_) * static_cast<std::size_t>(plan.view.height)
                   : 1),
        table_(table),
        mixed_(mixed),
        interleaved_(interleaved),
        out_(reinterpret_cast<Element*>(launch.out + plan.sample_bytes() * sample)) {
#pragma unroll
    for (std::int32_t i = 0; i < kPixels; ++i) {
      // A lane beside the row computes the last column, and does not write it.
      const std::int32_t x = column() + i < width_ ? column() + i : width_ - 1;
      columns_[i].read(across_, tables_.columns, x);
      offsets_[i] = 3 * (tables_.view->left + columns_[i].first);
    }
  }

  __device__ __forceinline__ void render() noexcept {
    if (mixes_first(down_)) {
      mixed_then_resampled();
    } else {
      resampled_then_mixed();
    }
  }

 private:
  __device__ __forceinline__ std::int32_t column() const noexcept { return first_column_ + lane_ * kPixels; }
  __device__ __forceinline__ Element* first_out() const noexcept {
    return out_ + static_cast<std::size_t>(first_row_) * static_cast<std::size_t>(row_step_);
  }
  __device__ __forceinline__ const std::uint8_t* region_row(std::int32_t y) const noexcept {
    return rows_ + static_cast<std::size_t>(y) * row_bytes_;
  }

  // This lane's pixels of a row of the region at the new width.
  __device__ __forceinline__ void resample_row(const std::uint8_t* row,
                                               std::uint32_t (&pixels)[kPixels]) const noexcept {
#pragma unroll
    for (std::int32_t i = 0; i < kPixels; ++i) {
      pixels[i] = resampled_mix<CanvasWords>(row, offsets_[i], columns_[i]).pixel();
    }
  }

  // A row of the result has two rows of the region at most, and shares them with its neighbours. What the table says of
  // a row is read while the one before is made.
  __device__ __forceinline__ void resampled_then_mixed() noexcept {
    std::uint32_t upper[kPixels] = {};
    std::uint32_t lower[kPixels] = {};
    const std::uint32_t* table = &tables_.rows.first(first_row_);
    const std::uint32_t* const pairs = &tables_.rows.pair(first_row_, 0);
    std::uint32_t first = table[0];
    std::uint32_t pair = pairs[0];
    std::uint32_t to_come = first;  // the row below `lower`
    const std::uint8_t* row = region_row(static_cast<std::int32_t>(first));
    // A single row is the lower one.
    const std::uint32_t rows = static_cast<std::uint32_t>(down_.taps);
    const std::uint32_t shift = rows == 1 ? 16 : 0;
    Element* out = first_out();
    for (std::int32_t y = 0; y < height_; ++y, out += row_step_) {
      const std::uint32_t end = first + rows;
      const std::uint32_t present = pair << shift;
      if (y + 1 < height_) {
        first = table[y + 1];
        pair = pairs[y + 1];
      }
#pragma unroll 1
      for (; to_come < end; ++to_come, row += row_bytes_) {
#pragma unroll
        for (std::int32_t i = 0; i < kPixels; ++i) upper[i] = lower[i];
        resample_row(row, lower);
      }
      // Enlarging has the base precision.
      write(out, [&](std::int32_t i) {
        WordMix<DeviceWords> mix(kBasePrecision);
        mix.add(upper[i], lower[i], present);
        return mix;
      });
    }
  }

  __device__ __forceinline__ void mixed_then_resampled() noexcept {
    const std::int32_t behind = first_column_ + Deal<Element>::kWidth;
    const auto one_end = static_cast<std::int32_t>(tables_.columns.first(first_column_));
    const auto other_end = static_cast<std::int32_t>(tables_.columns.first((behind < width_ ? behind : width_) - 1));
    const std::int32_t left = tables_.view->left;
    const std::int32_t from = 3 * (left + (one_end < other_end ? one_end : other_end)) / kWord * kWord;
    const std::int32_t end = 3 * (left + (one_end < other_end ? other_end : one_end) + across_.taps);
    Element* out = first_out();
    for (std::int32_t y = 0; y < height_; ++y, out += row_step_) {
      mix_rows(first_row_ + y, from, parts(end - from, kWord));
      __syncwarp();
      write(out, [&](std::int32_t i) { return resampled_mix<RowWords>(mixed_, offsets_[i] - from, columns_[i]); });
      __syncwarp();
    }
  }

  // Writes the mean of the rows that make row y, `words` words from byte `from` of the rows on.
  __device__ __forceinline__ void mix_rows(std::int32_t y, std::int32_t from, std::int32_t words) const noexcept {
    LaneTaps<kRowPairs> rows;
    rows.read(down_, tables_.rows, y);
    const std::uint8_t* const top = region_row(rows.first) + from;
    for (std::int32_t w = lane_; w < words; w += kLanes) {
      reinterpret_cast<std::uint32_t*>(mixed_)[w] = mixed_word<DeviceWords>(rows, [&](std::int32_t t) {
        // What is behind the last row has no weight, and may not be there.
        const std::int32_t row = t < down_.taps ? t : down_.taps - 1;
        return __ldg(reinterpret_cast<const std::uint32_t*>(top + static_cast<std::size_t>(row) * row_bytes_) + w);
      });
    }
  }

  // ------------------------------------------------------------ writing

  // mix_of(i) is the mean that pixel i of the lane is, not yet rounded.
  template <class MixOf>
  __device__ __forceinline__ void write(Element* out, const MixOf& mix_of) const noexcept {
    std::uint32_t elements[3][kPixels];
#pragma unroll
    for (std::int32_t i = 0; i < kPixels; ++i) {
      const auto mix = mix_of(i);
#pragma unroll
      for (std::int32_t channel = 0; channel < 3; ++channel) {
        elements[channel][i] = table_[256 * channel + static_cast<std::int32_t>(mix.rounded(channel))];
      }
    }
    if constexpr (kOutput == Output::planes) {
      write_planes(out, elements);
    } else if constexpr (kOutput == Output::pixels) {
      write_pixels(out, elements);
    } else {
      write_single(out, elements);
    }
  }

  // Each channel's elements with one store.
  __device__ __forceinline__ void write_planes(Element* out,
                                               const std::uint32_t (&elements)[3][kPixels]) const noexcept {
    if (column() >= width_) return;
    Element* const to = out + column();
#pragma unroll
    for (std::int32_t channel = 0; channel < 3; ++channel) {
      std::uint32_t words[Lane::kWords] = {};
#pragma unroll
      for (std::int32_t i = 0; i < kPixels; ++i) put(words, i, elements[channel][i]);
      auto* const place = to + plane_ * static_cast<std::size_t>(channel);
      if constexpr (Lane::kWords == 2) {
        *reinterpret_cast<uint2*>(place) = make_uint2(words[0], words[1]);
      } else {
        *reinterpret_cast<std::uint32_t*>(place) = words[0];
      }
    }
  }

  // The words of all lanes change places, so that the warp writes words in a row.
  __device__ __forceinline__ void write_pixels(Element* out,
                                               const std::uint32_t (&elements)[3][kPixels]) const noexcept {
    constexpr std::int32_t kWords = 3 * Lane::kWords;
    std::uint32_t words[kWords] = {};
#pragma unroll
    for (std::int32_t i = 0; i < 3 * kPixels; ++i) put(words, i, elements[i % 3][i / 3]);
#pragma unroll
    for (std::int32_t i = 0; i < kWords; ++i) interleaved_[kWords * lane_ + i] = words[i];
    __syncwarp();
    const std::int32_t lanes = (width_ - first_column_) / kPixels;
    const std::int32_t end = kWords * (lanes < kLanes ? lanes : kLanes);
    auto* const to = reinterpret_cast<std::uint32_t*>(out + 3 * first_column_);
#pragma unroll
    for (std::int32_t i = 0; i < kWords; ++i) {
      const std::int32_t word = lane_ + i * kLanes;
      if (word < end) to[word] = interleaved_[word];
    }
    __syncwarp();
  }

  // Rows that lanes do not fill.
  __device__ __forceinline__ void write_single(Element* out,
                                               const std::uint32_t (&elements)[3][kPixels]) const noexcept {
#pragma unroll
    for (std::int32_t i = 0; i < kPixels; ++i) {
      if (column() + i >= width_) return;
      Element* const to = out + (row_step_ == width_ ? 1 : 3) * (column() + i);
#pragma unroll
      for (std::int32_t channel = 0; channel < 3; ++channel) {
        to[plane_ * static_cast<std::size_t>(channel)] = static_cast<Element>(elements[channel][i]);
      }
    }
  }

  // Puts element i of a row of elements into its word.
  template <std::size_t kWords>
  static __device__ __forceinline__ void put(std::uint32_t (&words)[kWords], std::int32_t i,
                                             std::uint32_t element) noexcept {
    constexpr std::int32_t kBits = 8 * static_cast<std::int32_t>(sizeof(Element));
    words[i / Lane::kInWord] |= element << (i % Lane::kInWord * kBits);
  }

  ViewTables tables_;
  ResamplingAxis across_;
  ResamplingAxis down_;
  std::size_t row_bytes_;
  const std::uint8_t* rows_;  // the first of the region, from the canvas's left edge on
  std::int32_t lane_;
  std::int32_t first_column_;
  std::int32_t first_row_;
  std::int32_t height_;    // rows of the strip
  std::int32_t width_;     // of the result
  std::int32_t row_step_;  // elements between rows of the result
  std::size_t plane_;      // and between channels of a pixel
  const Element* table_;
  std::uint8_t* mixed_;
  std::uint32_t* interleaved_;
  Element* out_;
  LaneTaps<kPairs> columns_[kPixels];
  std::int32_t offsets_[kPixels];  // in bytes, of the first pixel of each
};

// A warp for each strip; those of a sample follow each other. kFew: no pixel has more than four coefficients
// along either axis, as with canvases up to twice as large as the result.
template <typename Element, Output kOutput, bool kFew>
__global__ void __launch_bounds__(kWarps* kLanes, 3) render_views(RenderLaunch launch) {
  const RenderPlan& plan = *launch.device_plan;
  const Deal<Element> deal(plan);
  std::byte* const memory = shared_memory();
  auto* const table = reinterpret_cast<Element*>(memory);
  for (std::uint32_t i = threadIdx.x; i < 3 * 256; i += kWarps * kLanes) {
    table[i] = static_cast<Element>(plan.table[i / 256][i % 256]);
  }
  __syncthreads();
  const std::uint32_t warp = threadIdx.x / kLanes;
  const std::uint32_t strip = blockIdx.x * kWarps + warp;
  const std::uint32_t sample = strip / deal.strips();
  if (sample >= launch.batch.size) return;
  const auto place = static_cast<std::int32_t>(strip % deal.strips());
  std::byte* const mixed = memory + deal.table_bytes + deal.warp_bytes() * warp;
  const auto render = [&](auto pairs) {
    StripRenderer<Element, kOutput, decltype(pairs)::value>(
        plan, launch, sample, place % deal.strips_across * Deal<Element>::kWidth,
        place / deal.strips_across * kStripRows, table, reinterpret_cast<std::uint8_t*>(mixed),
        reinterpret_cast<std::uint32_t*>(mixed + deal.mixed_bytes))
        .render();
  };
  if constexpr (kFew) {
    const std::int32_t width = tables_of(plan, launch.scratch, sample).view->width;
    if (resampling_axis(width, plan.view.width).taps <= 2) {
      render(std::integral_constant<std::int32_t, 1>());
    } else {
      render(std::integral_constant<std::int32_t, 2>());
    }
  } else {
    render(std::integral_constant<std::int32_t, 0>());
  }
}

// A kernel of those above, by the types that are its arguments.
template <typename E, Output kTo, bool kIsFew>
struct RenderKernel {
  using Element = E;
  static constexpr Output kOutput = kTo;
  static constexpr bool kFew = kIsFew;
};

// Calls `use` with the RenderKernel that a plan takes.
template <typename Element, class Use>
auto with_kernel_of(const RenderPlan& plan, const Use& use) {
  const bool few = plan.canvas.width <= 2 * std::int64_t{plan.view.width} &&
                   plan.canvas.height <= 2 * std::int64_t{plan.view.height};
  if (plan.view.width % LanePixels<Element>::kPixels != 0) return use(RenderKernel<Element, Output::single, false>());
  if (plan.layout == Layout::nchw) {
    return few ? use(RenderKernel<Element, Output::planes, true>())
               : use(RenderKernel<Element, Output::planes, false>());
  }
  return few ? use(RenderKernel<Element, Output::pixels, true>()) : use(RenderKernel<Element, Output::pixels, false>());
}
template <class Use>
auto with_kernel(const RenderPlan& plan, const Use& use) {
  switch (size_of(plan.dtype)) {
    case 4: return with_kernel_of<std::uint32_t>(plan, use);
    case 2: return with_kernel_of<std::uint16_t>(plan, use);
    default: return with_kernel_of<std::uint8_t>(plan, use);
  }
}

}  // namespace forebay::cuda
