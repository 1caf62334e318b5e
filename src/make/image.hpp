#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/view.hpp>

namespace forebay::make {

// EXIF orientations, 1 to 8, determined by where the stored image's left side and top end up: columns run right to left
// for 2, 3, 7, 8 and rows bottom to top for 3, 4, 6, 7 (CIPA DC-008, tag 0x0112). All functions are pure; any thread
// may call.

// 5 to 8 exchange rows and columns: the displayed image is as wide as the stored one is high.
[[nodiscard]] constexpr bool swaps_axes(int orientation) noexcept { return orientation >= 5; }

[[nodiscard]] constexpr bool flips_columns(int orientation) noexcept {
  return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}
[[nodiscard]] constexpr bool flips_rows(int orientation) noexcept {
  return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

// Mirrors the box along the axes that the orientation reverses.
[[nodiscard]] constexpr Box flipped_box(Box box, std::int32_t width, std::int32_t height, int orientation) noexcept {
  if (flips_columns(orientation)) box = {width - box.right, box.top, width - box.left, box.bottom};
  if (flips_rows(orientation)) box = {box.left, height - box.bottom, box.right, height - box.top};
  return box;
}
[[nodiscard]] constexpr Box transposed_box(const Box& box) noexcept {
  return {box.top, box.left, box.bottom, box.right};
}

// stored_box() maps a box of the displayed image to the stored image of `stored_width` x
// `stored_height` pixels; displayed_box() maps it back. Boxes may extend beyond the image.
[[nodiscard]] constexpr Box stored_box(const Box& displayed, std::int32_t stored_width, std::int32_t stored_height,
                                       int orientation) noexcept {
  return flipped_box(swaps_axes(orientation) ? transposed_box(displayed) : displayed, stored_width, stored_height,
                     orientation);
}
[[nodiscard]] constexpr Box displayed_box(const Box& stored, std::int32_t stored_width, std::int32_t stored_height,
                                          int orientation) noexcept {
  const Box box = flipped_box(stored, stored_width, stored_height, orientation);
  return swaps_axes(orientation) ? transposed_box(box) : box;
}

// Options that apply to every image file.
struct ImageOptions {
  bool exif = true;                       // rotate the image to its display orientation
  std::int64_t max_pixels = 178'956'970;  // width * height; larger images are refused
  bool grey = false;                      // R = G = B: a JPEG's own luma, else make_grey()
  bool is_checked = false;                // the bytes matched a checksum when they were read
  int orientation = 0;                    // 1 to 8: overrides the file's own; 0: the file's own, if `exif`
};

struct ImageSize {
  std::int32_t width = 0;
  std::int32_t height = 0;
};

// Decoded RGB pixels: 8 bits, interleaved, rows from the top without padding. Either a whole image
// or a part of one. Reused from sample to sample; belongs to one thread.
struct Image {
  // A buffer larger than this is freed once kPatience images in a row have not needed it.
  static constexpr std::size_t kKeptBytes = std::size_t{32} << 20;
  static constexpr int kPatience = 64;

  std::int32_t width = 0;  // size of the pixels held here
  std::int32_t height = 0;
  std::vector<std::uint8_t> pixels;  // at least width * height * 3
  // Where the pixels lie in the whole image as displayed, in pixels of that image at full size.
  // Each pixel here stands for shrink x shrink pixels there, so area.width() == width * shrink.
  // With shrink > 1 the area may extend beyond the image, whose sides need not be multiples of
  // shrink.
  Box area;
  std::int32_t shrink = 1;
  int unneeded = 0;  // consecutive images for which kKeptBytes would have been enough

  // Makes room for a whole image of this size; the pixels are unspecified. Allocates only for an
  // image larger than all before, or after memory was freed.
  void resize(std::int32_t new_width, std::int32_t new_height) {
    width = new_width;
    height = new_height;
    area = {0, 0, width, height};
    shrink = 1;
    const auto needed = static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3;
    unneeded = needed > kKeptBytes || pixels.capacity() <= kKeptBytes ? 0 : unneeded + 1;
    if (unneeded >= kPatience) std::vector<std::uint8_t>(kKeptBytes).swap(pixels);
    if (pixels.size() < needed) pixels.resize(needed);
  }
  // Where `region` of the whole image lies among the pixels held here: exact if shrink == 1,
  // otherwise rounded to whole pixels; at least one pixel wide and high. REQUIRES: region within
  // area and not empty.
  [[nodiscard]] Box place_of(const Box& region) const noexcept {
    const Box from{region.left - area.left, region.top - area.top, region.right - area.left, region.bottom - area.top};
    const auto nearest = [this](std::int32_t distance) { return (distance + shrink / 2) / shrink; };
    Box place{nearest(from.left), nearest(from.top), nearest(from.right), nearest(from.bottom)};
    if (place.left == place.right) place.right = (place.left = from.left / shrink) + 1;
    if (place.top == place.bottom) place.bottom = (place.top = from.top / shrink) + 1;
    return place;
  }
  [[nodiscard]] const std::uint8_t* row(std::int32_t y) const noexcept {
    return pixels.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width) * 3;
  }
  [[nodiscard]] std::uint8_t* row(std::int32_t y) noexcept {
    return pixels.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width) * 3;
  }
};

// One byte for each pixel of an image, rows from the top without padding.
struct Mask {
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::vector<std::uint8_t> values;
};

// Sets `to` to the mask as it is displayed with this orientation.
void turn(const Mask& from, int orientation, Mask& to);

// How an image was rotated for display, and whether its annotations refer to the stored image.
struct ImageTurn {
  int orientation = 1;  // EXIF, 1 to 8
  bool is_annotated_as_stored = false;

  // Whether something of size `size` belongs to the stored image rather than to the displayed one,
  // of size `shown`. That shows only with orientations that exchange width and height.
  [[nodiscard]] bool is_of_stored(ImageSize size, ImageSize shown) const noexcept {
    return swaps_axes(orientation) && size.width != size.height && size.width == shown.height &&
           size.height == shown.width;
  }
};

// Throws SampleError if an image of this size has more pixels than the options permit. `kind`, such
// as "JPEG", goes into the message.
void require_permitted_size(std::string_view kind, std::int64_t width, std::int64_t height,
                            const ImageOptions& options);

// Copies rows [first, first + count) of a stored image of `stored_width` x `stored_height` pixels
// to where EXIF orientation 1 to 8 displays them in `out`, which has the size of the displayed
// image. A part of an image is rotated like a whole one. `rows` holds `count` rows of RGB without
// padding; several at once make orientations that swap the axes cache-friendly. One thread at a
// time per `out`; never throws.
void place_rows(std::span<const std::uint8_t> rows, std::int32_t first, std::int32_t count, std::int32_t stored_width,
                std::int32_t stored_height, int orientation, Image& out) noexcept;

// The part of `box` that lies in a width x height image; the whole image if there is no box. Throws
// SampleError for a box that lies outside the image or has no area, and for an image with a side
// above Resampling::kMaxSide. Any thread may call.
[[nodiscard]] Box clamp_to_image(const std::optional<Box>& box, std::int32_t width, std::int32_t height);

// Grey is (kRedOfGrey * red + kGreenOfGrey * green + kBlueOfGrey * blue) / kAllOfGrey, rounded to
// nearest. This is BT.601's luma as Pillow's convert("L") and libjpeg compute it.
inline constexpr std::uint32_t kRedOfGrey = 19595;
inline constexpr std::uint32_t kGreenOfGrey = 38470;
inline constexpr std::uint32_t kBlueOfGrey = 7471;
inline constexpr std::uint32_t kAllOfGrey = 65536;
static_assert(kRedOfGrey + kGreenOfGrey + kBlueOfGrey == kAllOfGrey);

// Converts RGB pixels to R = G = B in place. Grey pixels do not change.
void make_grey(std::span<std::uint8_t> rgb) noexcept;
void make_grey(Image& image) noexcept;

// All pixels of an image as stored, decoded by something other than JpegDecoder: RGB, interleaved,
// rows without padding. A view of memory that its decoder owns.
struct StoredPicture {
  std::span<const std::uint8_t> pixels;
  std::int32_t width = 0;
  std::int32_t height = 0;
  int orientation = 1;  // EXIF, 1 to 8

  // The size as displayed.
  [[nodiscard]] ImageSize size() const noexcept;
  // Copies at least `region` of the displayed picture to `out`, and sets out.area to what was
  // copied, like JpegDecoder::decode(). REQUIRES: region within the picture and not empty. Any
  // thread may call, each with its own `out`.
  void show(const Box& region, Image& out) const;
};

// Converts the bytes of a sample of Encoding::raw (rows from the top, 8 bits) to interleaved RGB;
// grey is replicated. Throws SampleError if there are not exactly width * height * channels bytes,
// if a side is below 1, or if channels is neither 1 nor 3. Any thread may call, each with its own
// `out`.
void decode_raw(std::span<const std::byte> bytes, const Sample& sample, Image& out);

}  // namespace forebay::make
