// TIFF files, read with libtiff. open() reads the tags and refuses what would not become an image
// (signed or floating-point numbers, the bands of a scene, unknown colour spaces). decode() reads
// strips or tiles and converts samples to RGB as Pillow does. Damage that libtiff only warns about
// counts as damage (TiffSource collects its messages). Sizes in the file are compared with what the
// image needs before memory is allocated. One codec per decoder thread.
//
// "Sample" means here, as in the TIFF specification, one number of a pixel.

#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/error.hpp>

#include "codecs.hpp"
#include "signature.hpp"
#include "tiff_source.hpp"

namespace forebay::make {
namespace {

struct CloseTiff {
  void operator()(TIFF* tiff) const noexcept { TIFFClose(tiff); }
};

// How the samples of a pixel become red, green and blue.
enum class TiffColours : std::uint8_t {
  grey,
  inverted_grey,
  premultiplied_grey,
  palette,
  rgb,
  premultiplied_rgb,
  cmyk
};

// The samples of consecutive pixels: of a row, or of the part of a row that lies in a tile.
struct TiffRun {
  const std::uint8_t* bytes;
  std::int32_t pixels;
  int samples;  // per pixel
  int bits;     // per sample
};

// Sample `number` of the run. Samples of fewer than 8 bits are not scaled; of 16 bits an 8-bit T
// takes the upper ones.
template <typename T>
T sample_of(const TiffRun& run, std::size_t number) noexcept {
  switch (run.bits) {
    case 8: return run.bytes[number];
    case 16: {
      std::uint16_t value = 0;
      std::memcpy(&value, run.bytes + 2 * number, sizeof value);
      return static_cast<T>(value >> (16U - 8U * sizeof(T)));
    }
    default: {
      const std::size_t bit = number * static_cast<std::size_t>(run.bits);
      const unsigned above = 8U - static_cast<unsigned>(run.bits) - static_cast<unsigned>(bit % 8);
      return static_cast<T>(run.bytes[bit / 8] >> above & ((1U << static_cast<unsigned>(run.bits)) - 1));
    }
  }
}

std::size_t bytes_of_run(std::int64_t pixels, int samples, int bits) noexcept {
  return static_cast<std::size_t>((pixels * samples * bits + 7) / 8);
}

// Writes the first `channels` samples of each pixel; pixels are `stride` elements apart.
template <typename T>
void unpack(const TiffRun& run, int channels, std::size_t stride, T* to) noexcept {
  for (std::int32_t x = 0; x < run.pixels; ++x, to += stride) {
    const auto first = static_cast<std::size_t>(x) * static_cast<std::size_t>(run.samples);
    for (int channel = 0; channel < channels; ++channel)
      to[channel] = sample_of<T>(run, first + static_cast<std::size_t>(channel));
  }
}

// The formula of Pillow.
std::uint8_t unpremultiplied(unsigned value, unsigned alpha) noexcept {
  return alpha == 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(std::min(255U, value * 255 / alpha));
}
// light - ink * light / 255, with the quotient rounded to nearest like Pillow's MULDIV255.
std::uint8_t uninked(unsigned ink, unsigned black) noexcept {
  const unsigned light = 255 - black;
  const unsigned product = ink * light + 128;
  return static_cast<std::uint8_t>(light - (((product >> 8U) + product) >> 8U));
}

class TiffCodec final : public Codec {
 public:
  CodecHeader open(std::span<const std::byte> bytes) override {
    tiff_.reset();
    tiff_.reset(source_.open(bytes));
    read_header();
    return {.width = width_, .height = height_, .orientation = orientation_, .wide_channels = wide_channels()};
  }

  void decode(std::span<std::uint8_t> rgb) override {
    const Tiff tiff = std::move(tiff_);
    const std::size_t pixels = rgb.size() / 3;
    switch (colours_) {
      case TiffColours::rgb: return read_samples<std::uint8_t>(*tiff, 3, rgb);
      case TiffColours::premultiplied_grey:
      case TiffColours::premultiplied_rgb: {
        const auto samples = static_cast<std::size_t>(alpha_) + 1;
        several_.resize(samples * pixels);
        read_samples<std::uint8_t>(*tiff, alpha_ + 1, several_);
        return divide_by_alpha(samples, rgb);
      }
      case TiffColours::cmyk:
        several_.resize(4 * pixels);
        read_samples<std::uint8_t>(*tiff, 4, several_);
        return remove_ink(rgb);
      default: break;
    }
    // The values are read into the end of the buffer, so expanding them in place overwrites only
    // values that were already used.
    const auto values = rgb.last(pixels);
    read_samples<std::uint8_t>(*tiff, 1, values);
    std::uint8_t* to = rgb.data();
    const auto table = colour_table(*tiff);
    for (const std::uint8_t value : values) to = std::ranges::copy(table[value], to).out;
  }

  void decode_indices(std::span<std::uint8_t> indices) override {
    const Tiff tiff = std::move(tiff_);
    const bool is_single =
        colours_ == TiffColours::grey || colours_ == TiffColours::inverted_grey || colours_ == TiffColours::palette;
    if (!is_single || samples_ != 1 || bits_ > 8) {
      throw no_mask("TIFF", samples_, bits_);
    }
    read_samples<std::uint8_t>(*tiff, 1, indices);
    if (colours_ != TiffColours::inverted_grey) return;
    const unsigned most = (1U << static_cast<unsigned>(bits_)) - 1;
    for (std::uint8_t& index : indices) index = static_cast<std::uint8_t>(most - index);
  }

  void decode_wide(std::span<float> values) override {
    const Tiff tiff = std::move(tiff_);
    words_.resize(values.size());
    read_samples<std::uint16_t>(*tiff, colours_ == TiffColours::rgb ? 3 : 1, words_);
    constexpr unsigned kMost = std::numeric_limits<std::uint16_t>::max();
    const bool inverts = colours_ == TiffColours::inverted_grey;
    std::ranges::transform(words_, values.begin(),
                           [&](unsigned word) { return static_cast<float>(inverts ? kMost - word : word); });
  }

 private:
  using Tiff = std::unique_ptr<TIFF, CloseTiff>;

  [[nodiscard]] static SampleError refusal(const std::string& what) { return SampleError("TIFF: " + what); }

  template <typename Number>
  [[nodiscard]] Number field(std::uint32_t tag, Number otherwise) const noexcept {
    Number value = otherwise;
    return TIFFGetFieldDefaulted(tiff_.get(), tag, &value) == 1 ? value : otherwise;
  }

  void read_header() {
    const auto width = field<std::uint32_t>(TIFFTAG_IMAGEWIDTH, 0);
    const auto height = field<std::uint32_t>(TIFFTAG_IMAGELENGTH, 0);
    constexpr std::uint32_t kMostSide = std::numeric_limits<std::int32_t>::max();
    if (width < 1 || height < 1 || width > kMostSide || height > kMostSide) {
      throw refusal("damaged: " + std::to_string(width) + " x " + std::to_string(height) + " pixels");
    }
    width_ = static_cast<std::int32_t>(width);
    height_ = static_cast<std::int32_t>(height);
    bits_ = field<std::uint16_t>(TIFFTAG_BITSPERSAMPLE, 1);
    samples_ = field<std::uint16_t>(TIFFTAG_SAMPLESPERPIXEL, 1);
    is_separate_ =
        samples_ > 1 && field<std::uint16_t>(TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE;
    const auto orientation = field<std::uint16_t>(TIFFTAG_ORIENTATION, 1);
    orientation_ = orientation >= 1 && orientation <= 8 ? orientation : 1;
    check_samples();
    find_colours();
  }

  // Checked before anything is decoded, because libtiff would hand out the raw bytes of what it
  // cannot interpret.
  void check_samples() const {
    constexpr int kMostSamples = 16;
    const auto format = field<std::uint16_t>(TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
    if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID) {
      throw refusal("its numbers are signed, real or complex; only unsigned whole ones are read");
    }
    const bool is_known = bits_ == 1 || bits_ == 2 || bits_ == 4 || bits_ == 8 || bits_ == 16;
    if (!is_known) throw refusal(std::to_string(bits_) + " bits per sample; 1, 2, 4, 8 and 16 are read");
    if (samples_ < 1 || samples_ > kMostSamples)
      throw refusal(std::to_string(samples_) + " samples per pixel; 1 to 16 are read");
    const auto compression = field<std::uint16_t>(TIFFTAG_COMPRESSION, COMPRESSION_NONE);
    if (TIFFIsCODECConfigured(compression) == 0) {
      throw refusal("compression " + std::to_string(compression) + " is not one that the installed libtiff decodes");
    }
  }

  // Determines the colours. How many samples a pixel may have beside them depends on the kind
  // (require_few_others()).
  void find_colours() {
    const auto photometric = field<std::uint16_t>(TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISWHITE);
    switch (photometric) {
      case PHOTOMETRIC_MINISWHITE:
        require_few_others(1, 1);
        colours_ = TiffColours::inverted_grey;
        return;
      case PHOTOMETRIC_MINISBLACK:
        require_few_others(1, 1);
        alpha_ = premultiplied_alpha(1);
        colours_ = alpha_ != 0 && bits_ >= 8 ? TiffColours::premultiplied_grey : TiffColours::grey;
        return;
      case PHOTOMETRIC_PALETTE:
        if (bits_ > 8) break;
        require_few_others(1, 1);
        colours_ = TiffColours::palette;
        return;
      case PHOTOMETRIC_RGB:
        if (bits_ < 8 || samples_ < 3) break;
        require_few_others(3, 3);
        alpha_ = premultiplied_alpha(3);
        colours_ = alpha_ != 0 ? TiffColours::premultiplied_rgb : TiffColours::rgb;
        return;
      case PHOTOMETRIC_YCBCR:
        // libtiff converts YCbCr only if the samples are interleaved.
        if (bits_ != 8 || samples_ != 3 || is_separate_) break;
        if (field<std::uint16_t>(TIFFTAG_COMPRESSION, 0) != COMPRESSION_JPEG) break;
        // Lets libjpeg convert to RGB.
        TIFFSetField(tiff_.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
        colours_ = TiffColours::rgb;
        return;
      case PHOTOMETRIC_SEPARATED:
        if (bits_ < 8 || samples_ < 4) break;
        require_few_others(4, 2);
        colours_ = TiffColours::cmyk;
        return;
      default: break;
    }
    throw refusal("colours of kind " + std::to_string(photometric) + " with " + std::to_string(samples_) +
                  " samples of " + std::to_string(bits_) + " bits are not read");
  }

  // Colours with premultiplied alpha or ink are read at 8 bits only.
  [[nodiscard]] int wide_channels() const noexcept {
    if (bits_ != 16) return 0;
    switch (colours_) {
      case TiffColours::grey:
      case TiffColours::inverted_grey: return 1;
      case TiffColours::rgb: return 3;
      default: return 0;
    }
  }

  // Samples beside the colours are alpha and the like, which an image can be shown without. More of
  // them than other readers accept means the bands of a scene, of which most would be lost; that is
  // refused.
  void require_few_others(int colours, int most) const {
    if (samples_ - colours <= most) return;
    throw refusal(std::to_string(samples_) + " samples per pixel, of which an image would have " +
                  std::to_string(colours) + "; store bands as .npy files");
  }

  // The index of the alpha sample by which the colours were multiplied; 0 if they were not.
  [[nodiscard]] int premultiplied_alpha(int colours) const noexcept {
    std::uint16_t count = 0;
    std::uint16_t* kinds = nullptr;
    if (TIFFGetField(tiff_.get(), TIFFTAG_EXTRASAMPLES, &count, &kinds) != 1) return 0;
    for (int i = 0; i < std::min<int>(count, samples_ - colours); ++i) {
      if (kinds[i] == EXTRASAMPLE_ASSOCALPHA) return colours + i;
    }
    return 0;
  }

  // Reads the first `channels` samples of all pixels, converted by sample_of(). REQUIRES: channels
  // <= samples_.
  template <typename T>
  void read_samples(TIFF& tiff, int channels, std::span<T> to) {
    source_.begin_decoding();
    const int planes = is_separate_ ? channels : 1;
    for (int plane = 0; plane < planes; ++plane) {
      const Target<T> target{.first = to.data() + plane,
                             .stride = static_cast<std::size_t>(channels),
                             .channels = is_separate_ ? 1 : channels,
                             .plane = static_cast<std::uint16_t>(plane)};
      TIFFIsTiled(&tiff) != 0 ? read_tiles(tiff, target) : read_strips(tiff, target);
    }
    // Some damage makes libtiff only warn.
    if (source_.has_complaint()) throw source_.failure();
  }

  // Where the samples of one plane go.
  template <typename T>
  struct Target {
    T* first;            // of the first pixel
    std::size_t stride;  // from one pixel to the next, in elements
    int channels;
    std::uint16_t plane;

    [[nodiscard]] T* at(std::size_t pixel) const noexcept { return first + pixel * stride; }
  };

  [[nodiscard]] int samples_together() const noexcept { return is_separate_ ? 1 : samples_; }

  // TIFFReadScanline() delivers rows however the file is divided into strips.
  template <typename T>
  void read_strips(TIFF& tiff, const Target<T>& target) {
    const auto row_bytes = static_cast<std::size_t>(std::max<tmsize_t>(TIFFScanlineSize(&tiff), 0));
    if (row_bytes < bytes_of_run(width_, samples_together(), bits_) || row_bytes > kMostTiffBytes)
      throw source_.failure();
    buffer_.resize(row_bytes);
    for (std::int32_t y = 0; y < height_; ++y) {
      if (TIFFReadScanline(&tiff, buffer_.data(), static_cast<std::uint32_t>(y), target.plane) != 1)
        throw source_.failure();
      const TiffRun row{buffer_.data(), width_, samples_together(), bits_};
      unpack(row, target.channels, target.stride,
             target.at(static_cast<std::size_t>(y) * static_cast<std::size_t>(width_)));
    }
  }

  // Tiles at the right and bottom edges extend beyond the image.
  template <typename T>
  void read_tiles(TIFF& tiff, const Target<T>& target) {
    std::uint32_t across = 0;
    std::uint32_t down = 0;
    TIFFGetField(&tiff, TIFFTAG_TILEWIDTH, &across);
    TIFFGetField(&tiff, TIFFTAG_TILELENGTH, &down);
    const auto bytes = static_cast<std::uint64_t>(std::max<tmsize_t>(TIFFTileSize(&tiff), 0));
    const auto row_bytes = static_cast<std::uint64_t>(std::max<tmsize_t>(TIFFTileRowSize(&tiff), 0));
    if (across < 1 || down < 1 || bytes > kMostTiffBytes ||
        row_bytes < bytes_of_run(across, samples_together(), bits_) || row_bytes * down > bytes) {
      throw refusal("damaged, or tiles of more than 256 MiB: " + std::to_string(across) + " x " + std::to_string(down) +
                    " pixels");
    }
    buffer_.resize(bytes);
    const auto width = static_cast<std::uint32_t>(width_);
    const auto height = static_cast<std::uint32_t>(height_);
    for (std::uint32_t top = 0; top < height; top += std::min(down, height - top)) {
      for (std::uint32_t left = 0; left < width; left += std::min(across, width - left)) {
        if (TIFFReadTile(&tiff, buffer_.data(), left, top, 0, target.plane) < 0) throw source_.failure();
        const auto pixels = static_cast<std::int32_t>(std::min(across, width - left));
        for (std::uint32_t y = 0; y < std::min(down, height - top); ++y) {
          const TiffRun row{buffer_.data() + y * row_bytes, pixels, samples_together(), bits_};
          unpack(row, target.channels, target.stride, target.at(std::size_t{top + y} * width + left));
        }
      }
    }
  }

  // The RGB colour of each sample value.
  [[nodiscard]] std::array<std::array<std::uint8_t, 3>, 256> colour_table(TIFF& tiff) const {
    std::array<std::array<std::uint8_t, 3>, 256> table{};
    const unsigned most = bits_ >= 8 ? 255U : (1U << static_cast<unsigned>(bits_)) - 1;
    if (colours_ != TiffColours::palette) {
      for (unsigned value = 0; value <= most; ++value) {
        const unsigned grey = value * 255 / most;
        table[value].fill(static_cast<std::uint8_t>(colours_ == TiffColours::grey ? grey : 255 - grey));
      }
      return table;
    }
    std::uint16_t* red = nullptr;
    std::uint16_t* green = nullptr;
    std::uint16_t* blue = nullptr;
    if (TIFFGetField(&tiff, TIFFTAG_COLORMAP, &red, &green, &blue) != 1) {
      throw refusal("damaged: it has palette indices and no palette");
    }
    for (unsigned value = 0; value <= most; ++value) {
      for (std::size_t channel = 0; channel < 3; ++channel) {
        table[value][channel] = static_cast<std::uint8_t>(std::array{red, green, blue}[channel][value] >> 8U);
      }
    }
    return table;
  }

  // `samples`: samples per pixel in several_, the last of which is alpha.
  void divide_by_alpha(std::size_t samples, std::span<std::uint8_t> rgb) const noexcept {
    const std::size_t next = colours_ == TiffColours::premultiplied_grey ? 0 : 1;
    const std::uint8_t* from = several_.data();
    for (std::size_t i = 0; i < rgb.size(); i += 3, from += samples) {
      for (std::size_t channel = 0; channel < 3; ++channel) {
        rgb[i + channel] = unpremultiplied(from[channel * next], from[samples - 1]);
      }
    }
  }

  void remove_ink(std::span<std::uint8_t> rgb) const noexcept {
    const std::uint8_t* from = several_.data();
    for (std::size_t i = 0; i < rgb.size(); i += 3, from += 4) {
      for (std::size_t channel = 0; channel < 3; ++channel) rgb[i + channel] = uninked(from[channel], from[3]);
    }
  }

  TiffSource source_;
  Tiff tiff_;
  std::int32_t width_ = 0;
  std::int32_t height_ = 0;
  int bits_ = 0;
  int samples_ = 0;  // per pixel
  int alpha_ = 0;    // index of the alpha sample that colours were multiplied by; 0: none
  bool is_separate_ = false;
  int orientation_ = 1;
  TiffColours colours_ = TiffColours::grey;
  std::vector<std::uint8_t> buffer_;   // a row or a tile
  std::vector<std::uint16_t> words_;   // all samples of a 16-bit image
  std::vector<std::uint8_t> several_;  // samples of all pixels that are combined into colours
};

}  // namespace

const CodecKind codecs::tiff{
    .matches = starts_as_tiff, .make = [] { return std::unique_ptr<Codec>(new TiffCodec); }, .library = "libtiff 4.5"};

}  // namespace forebay::make
