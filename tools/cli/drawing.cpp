// Paints the backgrounds of generated pictures (`forebay make-dataset`): soft areas of colour,
// patches, strokes, noise and grain, so that thresholds alone cannot find the shapes. Also encodes
// pictures as JPEG with libjpeg.
//
// All randomness comes from one Random per picture (scene.cpp), in a fixed order of calls: the same
// seed must give the same bytes on any number of threads. Changing the number or order of random
// numbers changes every generated dataset.

#include "drawing.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <jpeglib.h>

#include <forebay/error.hpp>

namespace forebay::cli {
namespace {

float uniform(Random& random, float low, float high) { return static_cast<float>(random.uniform(low, high)); }

Colour any_colour(Random& random, float low, float high) {
  return {uniform(random, low, high), uniform(random, low, high), uniform(random, low, high)};
}

// Smoothstep: from 0 to 1, with slope 0 at both ends, so that no creases show between cells of
// noise.
float smooth(float t) { return t * t * (3 - 2 * t); }

// A position between two neighbouring lattice points.
struct Tap {
  std::size_t cell;
  float share;  // weight of the right (lower) neighbour
};

// `shift` moves the lattice, so that cells do not start exactly at the picture's edge.
std::vector<Tap> taps(int length, int cell, float shift) {
  std::vector<Tap> result;
  result.reserve(static_cast<std::size_t>(length));
  for (int i = 0; i < length; ++i) {
    const float place = static_cast<float>(i) / static_cast<float>(cell) + shift;
    const auto left = static_cast<std::size_t>(place);
    result.push_back({left, smooth(place - static_cast<float>(left))});
  }
  return result;
}

// Octaves of noise: each has half the cell size of the one before, and its amplitude times
// `roughness`.
std::vector<float> clouds(const Drawing& drawing, int coarsest, int finest, float amplitude, float roughness,
                          Random& random) {
  std::vector<float> plane(static_cast<std::size_t>(drawing.width()) * static_cast<std::size_t>(drawing.height()));
  for (int cell = coarsest; cell >= finest; cell /= 2) {
    add_noise(plane, drawing.width(), drawing.height(), cell, amplitude, random);
    amplitude *= roughness;
  }
  return plane;
}

// Three colours mixed by two fields of clouds, with light and texture on top.
void paint_areas(Drawing& drawing, Random& random) {
  const int coarsest = std::max(drawing.width(), drawing.height()) / 2 + 1;
  const Colour first = any_colour(random, 30, 210);
  const Colour second = any_colour(random, 30, 210);
  const Colour third = any_colour(random, 30, 210);
  const auto mix = clouds(drawing, coarsest, 16, 0.6F, 0.5F, random);
  const auto blend = clouds(drawing, coarsest, 16, 0.6F, 0.5F, random);
  const float roughness = uniform(random, 0.6F, 0.8F);
  const float amplitude = uniform(random, 8, 22);
  const auto texture = clouds(drawing, 32, 1, amplitude, roughness, random);
  const float slope_x = uniform(random, -50, 50) / static_cast<float>(drawing.width());
  const float slope_y = uniform(random, -50, 50) / static_cast<float>(drawing.height());
  std::size_t i = 0;
  for (int y = 0; y < drawing.height(); ++y) {
    for (int x = 0; x < drawing.width(); ++x, ++i) {
      const float light = texture[i] + slope_x * static_cast<float>(x) + slope_y * static_cast<float>(y);
      drawing.at(x, y) = first;
      drawing.blend(x, y, second, std::clamp(0.5F + mix[i], 0.0F, 1.0F));
      drawing.blend(x, y, third, std::clamp(0.3F + blend[i], 0.0F, 0.8F));
      for (float& channel : drawing.at(x, y)) channel += light;
    }
  }
}

// A soft-edged patch.
void paint_blob(Drawing& drawing, Random& random) {
  const float radius = uniform(random, 0.04F, 0.2F) * static_cast<float>(std::min(drawing.width(), drawing.height()));
  const float centre_x = uniform(random, 0, static_cast<float>(drawing.width()));
  const float centre_y = uniform(random, 0, static_cast<float>(drawing.height()));
  const float strength = uniform(random, 0.2F, 0.6F);
  const Colour colour = any_colour(random, 20, 235);
  for (int y = std::max(0, static_cast<int>(centre_y - radius)); y < drawing.height(); ++y) {
    const float dy = (static_cast<float>(y) - centre_y) / radius;
    if (dy >= 1) break;
    for (int x = std::max(0, static_cast<int>(centre_x - radius)); x < drawing.width(); ++x) {
      const float dx = (static_cast<float>(x) - centre_x) / radius;
      if (dx >= 1) break;
      const float distance = dx * dx + dy * dy;
      if (distance < 1) drawing.blend(x, y, colour, strength * (1 - distance));
    }
  }
}

// A curve from edge to edge, like a twig, a cable or the line of a roof.
void paint_stroke(Drawing& drawing, Random& random) {
  const auto width = static_cast<float>(drawing.width());
  const auto height = static_cast<float>(drawing.height());
  const float thickness = uniform(random, 0.8F, 2.5F);
  const float strength = uniform(random, 0.25F, 0.6F);
  const Colour colour = any_colour(random, 10, 245);
  const float start = uniform(random, 0, height);
  const float slope = uniform(random, -1.5F, 1.5F);
  const float bend = uniform(random, -1.5F, 1.5F) / width;
  for (int x = 0; x < drawing.width(); ++x) {
    const auto along = static_cast<float>(x);
    const float middle = start + along * (slope + bend * along);
    const float steepness = std::abs(slope + 2 * bend * along);
    const float half = thickness * (1 + steepness) / 2;  // keeps the visible thickness about the same at any slope
    const int top = std::max(0, static_cast<int>(std::floor(middle - half)));
    const int bottom = std::min(drawing.height() - 1, static_cast<int>(std::ceil(middle + half)));
    for (int y = top; y <= bottom; ++y) {
      const float inside = std::clamp(half + 0.5F - std::abs(static_cast<float>(y) - middle), 0.0F, 1.0F);
      drawing.blend(x, y, colour, strength * inside);
    }
  }
}

// On an error libjpeg calls error_exit, which must not return; longjmp leaves the library.
struct ErrorManager {
  jpeg_error_mgr base;  // first: libjpeg hands back a pointer to it
  std::jmp_buf back;
  std::array<char, JMSG_LENGTH_MAX> message;
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  manager->base.format_message(info, manager->message.data());
  std::longjmp(manager->back, 1);
}

struct Encoder {
  jpeg_compress_struct info{};
  ErrorManager errors{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;

  Encoder() {
    info.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = on_error;
  }
  ~Encoder() {
    jpeg_destroy_compress(&info);
    std::free(bytes);  // libjpeg allocated it
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
};

// False after an error. No object with a destructor may live between setjmp and the return. ISLOW
// uses integer arithmetic, so the bytes are the same on every machine.
bool encode(Encoder& encoder, const RgbImage& image, int quality) {
  if (setjmp(encoder.errors.back) != 0) return false;
  jpeg_compress_struct& info = encoder.info;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &encoder.bytes, &encoder.size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  info.dct_method = JDCT_ISLOW;
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  const std::size_t stride = static_cast<std::size_t>(image.width) * 3;
  while (info.next_scanline < info.image_height) {
    auto row = const_cast<JSAMPROW>(image.bytes.data() + info.next_scanline * stride);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  return true;
}

}  // namespace

// Value noise: random values on a lattice, interpolated first between lattice rows and then along
// each row.
void add_noise(std::vector<float>& plane, int width, int height, int cell, float amplitude, Random& random) {
  const auto horizontal = taps(width, cell, uniform(random, 0, 1));
  const auto vertical = taps(height, cell, uniform(random, 0, 1));
  const std::size_t columns = horizontal.back().cell + 2;
  const std::size_t rows = vertical.back().cell + 2;
  std::vector<float> lattice(columns * rows);
  for (float& value : lattice) value = uniform(random, -amplitude, amplitude);

  std::vector<float> line(columns);
  float* out = plane.data();
  for (const Tap& down : vertical) {
    const float* upper = &lattice[down.cell * columns];
    for (std::size_t i = 0; i < columns; ++i) line[i] = upper[i] + (upper[columns + i] - upper[i]) * down.share;
    for (const Tap& across : horizontal) {
      *out++ += line[across.cell] + (line[across.cell + 1] - line[across.cell]) * across.share;
    }
  }
}

void paint_background(Drawing& drawing, Random& random) {
  paint_areas(drawing, random);
  for (std::uint64_t left = 4 + random.below(8); left > 0; --left) paint_blob(drawing, random);
  for (std::uint64_t left = 1 + random.below(5); left > 0; --left) paint_stroke(drawing, random);
}

void add_grain(Drawing& drawing, Random& random) {
  constexpr float kStep = 1.0F / 8;
  for (Colour& pixel : drawing.pixels()) {
    // Each channel takes the difference of two 5-bit numbers: triangular noise of about -4 to 4
    // grey levels.
    const std::uint64_t bits = random.bits();
    for (std::size_t c = 0; c < pixel.size(); ++c) {
      const auto one = static_cast<float>((bits >> (16 * c)) & 31);
      const auto other = static_cast<float>((bits >> (16 * c + 8)) & 31);
      pixel[c] += (one - other) * kStep;
    }
  }
}

std::vector<std::byte> encode_jpeg(const RgbImage& image, int quality) {
  Encoder encoder;
  if (!encode(encoder, image, quality)) {
    throw Error("cannot encode a JPEG of " + std::to_string(image.width) + " x " + std::to_string(image.height) +
                " pixels: " + encoder.errors.message.data());
  }
  const auto* first = reinterpret_cast<const std::byte*>(encoder.bytes);
  return {first, first + encoder.size};
}

}  // namespace forebay::cli
