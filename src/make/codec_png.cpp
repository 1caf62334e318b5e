// PNG files. open() reads the header with libpng, up to the pixels. decode() inflates them with
// libdeflate if the file is of the most common kind (png_inflater.hpp), otherwise with libpng. The
// pixels equal those of Pillow's convert("RGB"). One codec per decoder thread.

#include <algorithm>
#include <array>
#include <bit>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <png.h>

#include <forebay/error.hpp>

#include "codecs.hpp"
#include "data/image_size.hpp"
#include "png_inflater.hpp"

namespace forebay::make {
namespace {

constexpr std::size_t kPngSignatureBytes = 8;
// Deflate expands one byte to at most 1032 (a match of 258 bytes may take only 2 bits).
constexpr std::uint64_t kMostInflation = 1032;

bool is_png(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= kPngSignatureBytes &&
         png_sig_cmp(reinterpret_cast<png_const_bytep>(bytes.data()), 0, kPngSignatureBytes) == 0;
}

// libpng reports errors through a callback that must not return. The callback longjmp()s to
// require(), so no stack frame between require() and libpng may hold anything with a destructor.
class PngCodec final : public Codec {
 public:
  PngCodec() = default;
  PngCodec(const PngCodec&) = delete;
  PngCodec& operator=(const PngCodec&) = delete;
  ~PngCodec() override { close(); }

  CodecHeader open(std::span<const std::byte> bytes) override {
    close();
    file_ = rest_ = bytes;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      if (png_access_version_number() / 100 == PNG_LIBPNG_VER / 100) throw std::bad_alloc();
      // libpng returns null for two reasons: no memory, or a library version that differs from the
      // header's.
      throw SampleError("PNG: libpng is another version than Forebay was built for");
    }
    require([this] { read_header(); });
    const auto width = static_cast<std::int32_t>(png_get_image_width(png_, info_));
    const auto height = static_cast<std::int32_t>(png_get_image_height(png_, info_));
    require_enough_bytes(height);
    return {.width = width, .height = height, .orientation = orientation_, .wide_channels = wide_channels()};
  }

  void decode(std::span<std::uint8_t> rgb) override {
    const CloseAtEnd close_at_end{*this};
    if (png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE) return decode_palette(rgb);
    if (inflate(rgb)) return;
    require([this] { convert_to_rgb(); });
    read_rows(rgb.data(), rgb.size());
  }

  void decode_indices(std::span<std::uint8_t> indices) override {
    const CloseAtEnd close_at_end{*this};
    const auto colours = png_get_color_type(png_, info_);
    const auto bits = static_cast<int>(png_get_bit_depth(png_, info_));
    if ((colours != PNG_COLOR_TYPE_GRAY && colours != PNG_COLOR_TYPE_PALETTE) || bits > 8) {
      throw no_mask("PNG", png_get_channels(png_, info_), bits);
    }
    read_indices(indices);
  }

  // PNG stores 16-bit numbers big-endian.
  void decode_wide(std::span<float> values) override {
    const CloseAtEnd close_at_end{*this};
    words_.resize(values.size());
    require([this] {
      png_set_strip_alpha(png_);
      if constexpr (std::endian::native == std::endian::little) png_set_swap(png_);
    });
    read_rows(reinterpret_cast<std::uint8_t*>(words_.data()), words_.size() * sizeof(std::uint16_t));
    std::ranges::copy(words_, values.begin());
  }

 private:
  struct CloseAtEnd {
    PngCodec& codec;
    ~CloseAtEnd() { codec.close(); }
  };

  static PngCodec& of(void* pointer) noexcept { return *static_cast<PngCodec*>(pointer); }

  [[noreturn]] void escape(const char* message) noexcept {
    std::snprintf(message_.data(), message_.size(), "PNG: damaged (libpng: %s)", message);
    // NOLINTNEXTLINE(modernize-avoid-setjmp-longjmp,cert-err52-cpp): the way out of a C library's callback
    std::longjmp(escape_, 1);
  }
  static void on_error(png_structp png, png_const_charp message) { of(png_get_error_ptr(png)).escape(message); }
  // libpng's warnings do not affect the pixels.
  static void on_warning(png_structp /*png*/, png_const_charp /*message*/) {}
  static void on_read(png_structp png, png_bytep to, std::size_t count) {
    PngCodec& codec = of(png_get_io_ptr(png));
    if (count > codec.rest_.size()) codec.escape("the file ends early, probably cut short");
    std::memcpy(to, codec.rest_.data(), count);
    codec.rest_ = codec.rest_.subspan(count);
  }

  // Runs a step made of libpng calls and throws SampleError if libpng escaped from it.
  template <typename Step>
  void require(const Step& step) {
    // NOLINTNEXTLINE(modernize-avoid-setjmp-longjmp,cert-err52-cpp): the way out of a C library's callback
    if (setjmp(escape_) != 0) {
      // What libpng and zlib say when an allocation fails.
      const std::string_view said = message_.data();
      for (const std::string_view words : {"ut of memory", "nsufficient memory"}) {
        if (said.find(words) != std::string_view::npos) throw std::bad_alloc();
      }
      throw SampleError(message_.data());
    }
    step();
  }

  void close() noexcept { png_destroy_read_struct(&png_, &info_, nullptr); }

  // Reads up to the first IDAT. Of the metadata only the orientation matters. Texts and profiles
  // may be decompression bombs and are not even inflated.
  void read_header() noexcept {
    png_set_read_fn(png_, this, on_read);
    png_set_chunk_malloc_max(png_, std::max<std::size_t>(file_.size(), 1));  // whatever length a chunk claims
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    static constexpr std::array<png_byte, 5> kExif{'e', 'X', 'I', 'f', 0};
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_AS_DEFAULT, kExif.data(), 1);
    png_read_info(png_, info_);
    png_uint_32 count = 0;
    png_bytep exif = nullptr;
    const bool has_exif = png_get_eXIf_1(png_, info_, &count, &exif) != 0;
    orientation_ = has_exif ? data::tiff_orientation(std::as_bytes(std::span(exif, count))) : 1;
  }

  [[nodiscard]] int wide_channels() const noexcept {
    if (png_get_bit_depth(png_, info_) != 16) return 0;
    return (png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1;
  }

  // A header may claim gigabytes although only a few bytes follow.
  void require_enough_bytes(std::int32_t height) const {
    const std::uint64_t rows = std::uint64_t{png_get_rowbytes(png_, info_)} * static_cast<std::uint64_t>(height);
    if (rows / kMostInflation > file_.size()) {
      throw SampleError("PNG: damaged: " + std::to_string(file_.size()) + " bytes cannot hold the " +
                        std::to_string(rows) + " bytes of pixels that its header claims");
    }
  }

  // As Pillow's convert("RGB"): alpha and transparent colours are dropped, not blended.
  void convert_to_rgb() noexcept {
    png_set_strip_16(png_);
    png_set_expand_gray_1_2_4_to_8(png_);
    png_set_gray_to_rgb(png_);
    png_set_strip_alpha(png_);
  }

  // libpng shows palette indices out of range as black; here they count as damage.
  void decode_palette(std::span<std::uint8_t> rgb) {
    png_colorp colours = nullptr;
    int count = 0;
    require([&] { png_get_PLTE(png_, info_, &colours, &count); });
    // The indices are read into the end of the buffer, so expanding them in place overwrites only
    // indices that were already used.
    const auto indices = rgb.last(rgb.size() / 3);
    read_indices(indices);
    std::uint8_t* to = rgb.data();
    for (const std::uint8_t index : indices) {
      if (index >= count) {
        throw SampleError("PNG: damaged: palette index " + std::to_string(index) + ", but the palette has " +
                          std::to_string(count) + " colours");
      }
      const png_color colour = colours[index];
      *to++ = colour.red;
      *to++ = colour.green;
      *to++ = colour.blue;
    }
  }

  // One channel, one byte per pixel.
  void read_indices(std::span<std::uint8_t> indices) {
    if (inflate(indices)) return;
    require([this] { png_set_packing(png_); });
    read_rows(indices.data(), indices.size());
  }

  // The fast path for the most common images. Returns false if libpng has to decode the file.
  bool inflate(std::span<std::uint8_t> out) {
    if (png_get_bit_depth(png_, info_) != 8 || png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE) return false;
    const PngShape shape{.width = png_get_image_width(png_, info_),
                         .height = png_get_image_height(png_, info_),
                         .channels = png_get_channels(png_, info_)};
    return inflater_.decode(file_, shape, out);
  }

  // After the last row libpng reads to the end of the compressed data and verifies its checksums.
  // What follows, including the end marker, does not affect the pixels.
  void read_rows(std::uint8_t* to, std::size_t bytes) {
    require([&] {
      const int passes = png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
      const std::size_t row_bytes = png_get_rowbytes(png_, info_);
      const std::size_t height = png_get_image_height(png_, info_);
      if (row_bytes * height != bytes) escape("its rows are not what its header says");
      for (int pass = 0; pass < passes; ++pass) {
        for (std::size_t y = 0; y < height; ++y) png_read_row(png_, to + y * row_bytes, nullptr);
      }
    });
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf escape_{};
  std::array<char, 256> message_{};
  std::span<const std::byte> file_;
  std::span<const std::byte> rest_;  // not read yet
  PngInflater inflater_;
  std::vector<std::uint16_t> words_;  // pixels of a 16-bit image
  int orientation_ = 1;
};

}  // namespace

const CodecKind codecs::png{
    .matches = is_png, .make = [] { return std::unique_ptr<Codec>(new PngCodec); }, .library = "libpng"};

}  // namespace forebay::make
