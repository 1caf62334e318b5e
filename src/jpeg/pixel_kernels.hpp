#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace forebay::jpeg {

// A row of chroma samples and its neighbour above or below.
struct ChromaRows {
  const std::uint8_t* near;
  const std::uint8_t* far;  // null: there is nothing to mix with
};

// The steps from coefficients to pixels, for one kind of processor. All of them give the same bytes. They read and
// write whole vectors: every row has kSlack bytes more behind what is said to be read or written, unless said
// otherwise.
struct PixelKernels {
  static constexpr std::size_t kSlack = 128;
  // Largest coefficient times quantiser, and largest quantiser, that they take.
  static constexpr std::int32_t kMostCoefficient = 8191;
  static constexpr std::int32_t kMostQuantiser = 16383;

  const char* name;

  // The inverse DCT, libjpeg's accurate integer one, of a row of `count` blocks that lie as CoefficientRow says, a
  // multiple of its group. `out` gets eight rows of 8 * count samples. The coefficients are 0 afterwards.
  // False, with samples unspecified, when libjpeg's variants may disagree: a coefficient times its quantiser outside
  // -8192..8191, a value after the first pass outside -16384..16383, or a sample outside -512..511 before it is moved
  // by 128 and clamped. Within these bounds nothing overflows 16 bits between the passes and 32 bits inside of them,
  // and nothing leaves the table by which libjpeg's plain code clamps.
  bool (*transform)(std::int16_t* blocks, const std::uint8_t* extents, std::size_t count,
                    const std::uint16_t* quantiser, std::uint8_t* out, std::size_t stride) noexcept;

  // Fancy upsampling to twice as many samples across, and where there is a far row, between two rows. Samples -1 and
  // `count` of both rows are what `count` samples have beside them. `sums` is scratch for count + 2 numbers.
  void (*double_across)(const ChromaRows& rows, std::size_t count, std::uint16_t* sums, std::uint8_t* out) noexcept;
  // Fancy upsampling between two rows alone: (3 * near + far + bias) / 4.
  void (*mix_rows)(const ChromaRows& rows, std::size_t count, int bias, std::uint8_t* out) noexcept;

  // A row of pixels, `count` of them; nothing is written behind them.
  void (*from_ycc)(const std::uint8_t* const* parts, std::size_t count, std::uint8_t* out) noexcept;
  void (*from_rgb)(const std::uint8_t* const* parts, std::size_t count, std::uint8_t* out) noexcept;
  void (*from_grey)(const std::uint8_t* const* parts, std::size_t count, std::uint8_t* out) noexcept;
};

// Plain loops, which define the results of the others. Any thread may call.
[[nodiscard]] const PixelKernels& scalar_pixel_kernels() noexcept;

// Those this processor can run, the fastest first, the scalar ones last. Never empty; the same in every call.
// Any thread may call.
[[nodiscard]] std::span<const PixelKernels> supported_pixel_kernels();

// The first of supported_pixel_kernels() that gives the pixels of the linked libjpeg-turbo for some images, which are
// decoded now by both, in a few milliseconds. Null if none does. Any thread may call.
[[nodiscard]] const PixelKernels* trusted_pixel_kernels();
// The same with candidates of the caller's, which live as long as what is returned.
[[nodiscard]] const PixelKernels* trusted_pixel_kernels(std::span<const PixelKernels> candidates);

// What decoding without libjpeg-turbo is worth here.
struct PixelKernelChoice {
  const PixelKernels* kernels = nullptr;  // null: libjpeg-turbo is to decode everything
  std::string_view reason;                // then: why
};
// The trusted ones, unless they are the plain loops: those take several times as long as libjpeg-turbo, whose vector
// code outweighs what the own entropy decoding saves. Any thread may call.
[[nodiscard]] PixelKernelChoice choose_pixel_kernels();
[[nodiscard]] PixelKernelChoice choose_pixel_kernels(std::span<const PixelKernels> candidates);

// Fill in what is compiled for `target`, one of Highway's: the inverse DCT, and all else. Any thread may call.
void set_transform_kernel(std::int64_t target, PixelKernels& kernels);
void set_row_kernels(std::int64_t target, PixelKernels& kernels);

}  // namespace forebay::jpeg
