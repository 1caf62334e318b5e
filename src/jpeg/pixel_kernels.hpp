#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace forebay::jpeg {

// A row of chroma samples and its neighbour above or below.
struct ChromaRows {
  const std::uint8_t* near;
  const std::uint8_t* far;  // null: there is no row to mix with
};

// The steps from coefficients to pixels, for one kind of processor. All kernels give the same
// bytes. They read and write whole vectors, so every row has kSlack extra bytes at its end, unless
// stated otherwise.
struct PixelKernels {
  static constexpr std::size_t kSlack = 128;
  // The largest product of coefficient and quantiser, and the largest quantiser, that they support.
  static constexpr std::int32_t kMostCoefficient = 8191;
  static constexpr std::int32_t kMostQuantiser = 16383;

  const char* name;

  // libjpeg's accurate integer inverse DCT of a row of `count` blocks in the layout of
  // CoefficientRow; `count` is a multiple of the group size. `out` receives eight rows of 8 * count
  // samples. The coefficients are 0 afterwards.
  //
  // Returns false, with samples unspecified, if libjpeg's variants may disagree: if a coefficient
  // times its quantiser is outside -8192..8191, a value after the first pass outside -16384..16383,
  // or a sample outside -512..511 before 128 is added and it is clamped. Within these bounds
  // nothing exceeds 16 bits between the passes or 32 bits within them, and nothing leaves the table
  // by which libjpeg's plain code clamps.
  bool (*transform)(std::int16_t* blocks, const std::uint8_t* extents, std::size_t count,
                    const std::uint16_t* quantiser, std::uint8_t* out, std::size_t stride) noexcept;

  // Fancy upsampling to twice as many samples across and, if there is a far row, between the two
  // rows. Samples -1 and `count` of both rows must be the neighbours of the `count` samples. `sums`
  // is scratch space for count + 2 numbers.
  void (*double_across)(const ChromaRows& rows, std::size_t count, std::uint16_t* sums, std::uint8_t* out) noexcept;
  // Fancy upsampling between two rows only: (3 * near + far + bias) / 4.
  void (*mix_rows)(const ChromaRows& rows, std::size_t count, int bias, std::uint8_t* out) noexcept;

  // Each converts a row of `count` pixels, and writes nothing after them.
  void (*from_ycc)(const std::uint8_t* const* parts, std::size_t count, std::uint8_t* out) noexcept;
  void (*from_rgb)(const std::uint8_t* const* parts, std::size_t count, std::uint8_t* out) noexcept;
  void (*from_grey)(const std::uint8_t* const* parts, std::size_t count, std::uint8_t* out) noexcept;
};

// The plain loops, which define the results of all others. Any thread may call.
[[nodiscard]] const PixelKernels& scalar_pixel_kernels() noexcept;

// The kernels that this processor can run, fastest first, the scalar ones last. Never empty; the same in every call.
// Any thread may call.
[[nodiscard]] std::span<const PixelKernels> supported_pixel_kernels();

// The first of supported_pixel_kernels() that reproduces the pixels of the linked libjpeg-turbo for
// some test images; both decode them now, in a few milliseconds. Null if none does. Any thread may
// call.
[[nodiscard]] const PixelKernels* trusted_pixel_kernels();
// Likewise with the caller's candidates, which must outlive the result.
[[nodiscard]] const PixelKernels* trusted_pixel_kernels(std::span<const PixelKernels> candidates);

// Whether decoding without libjpeg-turbo is worthwhile here.
struct PixelKernelChoice {
  const PixelKernels* kernels = nullptr;  // null: let libjpeg-turbo decode everything
  std::string_view reason;                // if null: why
};
// The trusted kernels, unless they are the plain loops. Those take several times as long as
// libjpeg-turbo's vector code, which outweighs what Forebay's entropy decoding saves. Any thread
// may call.
[[nodiscard]] PixelKernelChoice choose_pixel_kernels();
[[nodiscard]] PixelKernelChoice choose_pixel_kernels(std::span<const PixelKernels> candidates);

// These fill in the kernels compiled for `target`, one of Highway's targets: the inverse DCT, and
// all others. Any thread may call.
void set_transform_kernel(std::int64_t target, PixelKernels& kernels);
void set_row_kernels(std::int64_t target, PixelKernels& kernels);

}  // namespace forebay::jpeg
