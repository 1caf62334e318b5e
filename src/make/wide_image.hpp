#pragma once

#include <cstdint>
#include <vector>

#include <forebay/view.hpp>

#include "resample_math.hpp"

// Pictures with more than 8 bits per value, such as depth maps and X-ray images. They are fields in
// addition to the image.
namespace forebay::make {

// Rows from the top, channels interleaved, without padding. Reused from sample to sample; belongs to one thread.
struct WideImage {
  std::int32_t width = 0;
  std::int32_t height = 0;
  int channels = 1;           // 1 or 3
  std::vector<float> values;  // at least width * height * channels

  void resize(std::int32_t new_width, std::int32_t new_height, int new_channels);
  // Frees the values if they take more than 16 MiB, because few pictures are that large; `values`
  // is then empty.
  void release_large();
};

// Sets `to` to `from` as it is displayed with EXIF orientation 1 to 8.
void turn(const WideImage& from, int orientation, WideImage& to);

// Converts one channel to three by repeating it, and three to one with the weights of make_grey(),
// without rounding.
void set_channels(int channels, WideImage& image);

// Resizes a region of a picture as Resizer does, with the same windows and weights, but in double
// precision: the weights are quotients of integers, rounded once, and intermediate results are not
// rounded to integers. Belongs to one thread; memory is kept and only grows.
class WideResizer {
 public:
  // Returns the resized region, channels interleaved; valid until the next call. REQUIRES: `region`
  // lies within the picture and is not empty; across.in == region.width(), down.in ==
  // region.height().
  const std::vector<double>& resize(const WideImage& image, const Box& region, const ResamplingAxis& across,
                                    const ResamplingAxis& down, bool mirror);

 private:
  // For each output pixel of a row or column: its input pixels and their weights.
  struct Axis {
    struct Window {
      std::int32_t first = 0;
      std::int32_t count = 0;
      std::size_t weights = 0;  // index of the first weight
    };
    std::vector<Window> windows;
    std::vector<double> weights;

    void set(const ResamplingAxis& axis, bool mirror);
  };

  // Input rows are from_row numbers apart; `row` numbers of each are used.
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
