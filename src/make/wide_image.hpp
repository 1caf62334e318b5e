#pragma once

#include <cstdint>
#include <vector>

#include <forebay/view.hpp>

#include "resample_math.hpp"

// Pictures with more than 8 bits per value, such as depth maps and X-rays. They are fields beside the image.
namespace forebay::make {

// Rows from the top, channels interleaved, without padding. Reused from sample to sample; belongs to one thread.
struct WideImage {
  std::int32_t width = 0;
  std::int32_t height = 0;
  int channels = 1;           // 1 or 3
  std::vector<float> values;  // at least width * height * channels

  void resize(std::int32_t new_width, std::int32_t new_height, int new_channels);
  // Frees the values if they take more than 16 MiB, because few pictures are that large; they are then empty.
  void release_large();
};

// Sets `to` to `from` as displayed by EXIF orientation 1 to 8.
void turn(const WideImage& from, int orientation, WideImage& to);

// Turns one channel into three by repeating it, and three into one with the weights of make_grey(), without rounding.
void set_channels(int channels, WideImage& image);

// Resizes a region of a picture as Resizer does, by the same windows and weights, but in double precision: the weights
// are quotients of whole numbers, rounded once, and no intermediate result is rounded further. Belongs to one thread;
// memory is kept and only grows.
class WideResizer {
 public:
  // The region resized, channels interleaved; valid until the next call. REQUIRES: `region` lies within the picture and
  // is not empty; across.in == region.width(), down.in == region.height().
  const std::vector<double>& resize(const WideImage& image, const Box& region, const ResamplingAxis& across,
                                    const ResamplingAxis& down, bool mirror);

 private:
  // The input pixels of each output pixel of a row or column, and their weights.
  struct Axis {
    struct Window {
      std::int32_t first = 0;
      std::int32_t count = 0;
      std::size_t weights = 0;  // where they begin
    };
    std::vector<Window> windows;
    std::vector<double> weights;

    void set(const ResamplingAxis& axis, bool mirror);
  };

  // Rows begin from_row numbers apart; `row` numbers of each are used.
  template <typename Number>
  void mix_rows(const Number* from, std::size_t from_row, std::size_t row, double* to) const;
  template <typename Number>
  void mix_columns(const Number* from, std::int32_t rows, std::size_t from_row, std::size_t channels, double* to) const;

  Axis across_;
  Axis down_;
  std::vector<double> between_;
  std::vector<double> out_;
};

}  // namespace forebay::make
