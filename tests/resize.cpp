#include "make/resample.hpp"
#include "make/resizer.hpp"
#include "make/view_axes.hpp"
#include "test.hpp"

// Resizing with fixed-point coefficients, compared with exact arithmetic. The results must be the
// same on every machine.
namespace forebay::test_resize {
namespace {

using namespace forebay::make;
using Pixels = std::vector<std::uint8_t>;

Image noise(std::int32_t width, std::int32_t height) {
  forebay::Random random(forebay::key64(5, width, height));
  Image image;
  image.resize(width, height);
  // Noise with runs of extreme values: the hardest case for rounding, and the largest sums.
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    const bool extreme = i / 40 % 3 == 0;
    image.pixels[i] = extreme ? (i / 120 % 2 == 0 ? 255 : 0) : static_cast<std::uint8_t>(random.bits());
  }
  return image;
}

Box whole(const Image& image) { return {0, 0, image.width, image.height}; }

Pixels rows_of(Resizer& resizer, std::int32_t width, std::int32_t height) {
  Pixels pixels;
  for (std::int32_t y = 0; y < height; ++y) {
    const auto* pixel = resizer.row(y);
    for (std::int32_t x = 0; x < width; ++x, pixel += forebay::make::kPixelBytes) {
      pixels.insert(pixels.end(), pixel, pixel + 3);
    }
  }
  return pixels;
}

Pixels resize(Resizer& resizer, const Image& image, const Box& region, std::int32_t width, std::int32_t height,
              bool mirror) {
  resizer.begin(image, region, width, height, mirror);
  return rows_of(resizer, width, height);
}

Pixels resize(const Image& image, const Box& region, std::int32_t width, std::int32_t height, bool mirror = false) {
  Resizer resizer;
  return resize(resizer, image, region, width, height, mirror);
}

// A triangle filter in floating point, written from its definition.
std::vector<std::vector<double>> exact_weights(std::int32_t in, std::int32_t out) {
  const double scale = static_cast<double>(in) / out;
  const double support = std::max(scale, 1.0);
  std::vector<std::vector<double>> weights(static_cast<std::size_t>(out));
  for (std::int32_t i = 0; i < out; ++i) {
    auto& row = weights[static_cast<std::size_t>(i)];
    for (std::int32_t x = 0; x < in; ++x) {
      const double distance = std::abs(x + 0.5 - (i + 0.5) * scale) / support;
      row.push_back(std::max(0.0, 1 - distance));
    }
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    for (double& weight : row) weight /= sum;
  }
  return weights;
}

std::vector<double> exact_resize(const Image& image, const Box& region, std::int32_t width, std::int32_t height) {
  const auto columns = exact_weights(region.width(), width);
  const auto rows = exact_weights(region.height(), height);
  std::vector<double> narrow;  // region.height() rows of the output's width
  for (std::int32_t y = region.top; y < region.bottom; ++y) {
    for (const auto& weights : columns) {
      for (std::ptrdiff_t c = 0; c < 3; ++c) {
        const std::uint8_t* value = image.row(y) + std::ptrdiff_t{region.left} * 3 + c;
        double sum = 0;
        for (const double weight : weights) {
          sum += weight * *value;
          value += 3;
        }
        narrow.push_back(sum);
      }
    }
  }
  const auto row_values = static_cast<std::size_t>(width) * 3;
  std::vector<double> result;
  for (const auto& weights : rows) {
    for (std::size_t i = 0; i < row_values; ++i) {
      double sum = 0;
      for (std::size_t y = 0; y < weights.size(); ++y) sum += weights[y] * narrow[y * row_values + i];
      result.push_back(sum);
    }
  }
  return result;
}

double largest_error(const Image& image, const Box& region, std::int32_t width, std::int32_t height) {
  const auto exact = exact_resize(image, region, width, height);
  const auto given = resize(image, region, width, height);
  REQUIRE(exact.size() == given.size());
  double worst = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) worst = std::max(worst, std::abs(exact[i] - given[i]));
  return worst;
}

Box around(const Box& a, const Box& b) {
  return {std::min(a.left, b.left), std::min(a.top, b.top), std::max(a.right, b.right), std::max(a.bottom, b.bottom)};
}

// The largest error of the middle of `box`, compared with the whole box resized in floating point
// and then cropped.
double largest_error_of_middle(const Image& image, const Box& box, std::int32_t width, std::int32_t height,
                               double fraction) {
  const forebay::make::ViewAxes axes = forebay::make::central_axes(box, width, height, fraction);
  const auto exact = exact_resize(image, box, axes.across.out, axes.down.out);
  const Box pixels = forebay::make::pixels_of(axes);
  REQUIRE(around(pixels, box) == box);
  REQUIRE(around(forebay::make::shown_region(axes), pixels) == pixels);
  // Only these pixels exist, as after a region decode.
  Image part;
  part.resize(pixels.width(), pixels.height());
  part.area = pixels;
  for (std::int32_t y = 0; y < part.height; ++y) {
    std::copy_n(image.row(pixels.top + y) + 3 * pixels.left, 3 * part.width, part.row(y));
  }
  double worst = 0;
  Resizer resizer;
  for (const bool mirror : {false, true}) {
    forebay::make::begin_exactly(resizer, part, axes, pixels, mirror, {});
    const Pixels given = rows_of(resizer, width, height);
    for (std::int32_t y = 0; y < height; ++y) {
      for (std::int32_t x = 0; x < 3 * width; ++x) {
        const std::int32_t column = axes.across.from + (mirror ? width - 1 - x / 3 : x / 3);
        const std::int32_t at = ((axes.down.from + y) * axes.across.out + column) * 3 + x % 3;
        const double value = given[static_cast<std::size_t>(y * 3 * width + x)];
        worst = std::max(worst, std::abs(exact[static_cast<std::size_t>(at)] - value));
      }
    }
  }
  return worst;
}

std::string size_text(std::int32_t first, std::int32_t second) {
  return std::to_string(first) + ", " + std::to_string(second);
}

// FNV-1a
std::uint64_t hash(const Pixels& pixels) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const auto pixel : pixels) h = (h ^ pixel) * 0x100000001b3ULL;
  return h;
}

}  // namespace

TEST_CASE("coefficients sum to one exactly, stay near the exact weights, and mirror") {
  std::vector<std::pair<std::int32_t, std::int32_t>> sizes;
  for (std::int32_t in = 1; in <= 40; ++in) {
    for (std::int32_t out = 1; out <= 40; ++out) sizes.emplace_back(in, out);
  }
  for (const auto& size : {std::pair{500, 224}, std::pair{375, 224}, std::pair{224, 500}, std::pair{4000, 3},
                           std::pair{999, 1}, std::pair{4097, 2}, std::pair{1, 300}}) {
    sizes.push_back(size);
  }
  Resampling table;
  for (const auto& size : sizes) {
    const auto in = size.first;
    const auto out = size.second;
    CAPTURES(in, out);
    table.set(in, out);
    const auto exact = exact_weights(in, out);
    const double one = std::ldexp(1.0, table.precision());
    int wrong_sums = 0;
    int out_of_range = 0;
    int not_mirrored = 0;
    double worst = 0;
    for (std::int32_t i = 0; i < out; ++i) {
      const auto* coefficients = table.coefficients(i);
      const auto taps = static_cast<std::int32_t>(table.taps());
      const auto first = table.first(i);
      if (first < 0 || first + taps > in) ++out_of_range;
      std::int64_t sum = 0;
      double exact_sum = 0;
      for (std::int32_t t = 0; t < taps; ++t) {
        sum += coefficients[t];
        if (coefficients[t] < 0) ++out_of_range;
        const double weight =
            exact[static_cast<std::size_t>(i)][static_cast<std::size_t>(first) + static_cast<std::size_t>(t)];
        exact_sum += weight;
        worst = std::max(worst, std::abs(coefficients[t] - weight * one));
        if (coefficients[t] != table.coefficients(out - 1 - i)[taps - 1 - t] && 2 * i + 1 != out) ++not_mirrored;
        if (2 * i + 1 == out && first + taps / 2 == in - first - (taps + 1) / 2) {
          if (coefficients[t] != coefficients[taps - 1 - t]) ++not_mirrored;
        }
      }
      if (sum != std::int64_t{1} << table.precision()) ++wrong_sums;
      if (std::abs(exact_sum - 1) > 1e-9) ++out_of_range;  // a weight outside the window
    }
    CHECK(wrong_sums == 0);
    CHECK(out_of_range == 0);
    CHECK(not_mirrored == 0);
    CHECK(worst < 1 + 1e-6);
  }
}

TEST_CASE("the largest sides keep exact sums") {
  Resampling table;
  for (const auto& [in, out] : {std::pair{Resampling::kMaxSide, 1}, std::pair{Resampling::kMaxSide, 3},
                                std::pair{1, 4096}, std::pair{65500, 224}}) {
    table.set(in, out);
    for (std::int32_t i = 0; i < out; ++i) {
      const auto* coefficients = table.coefficients(i);
      const auto sum = std::accumulate(coefficients, coefficients + table.taps(), std::int64_t{0});
      REQUIRE(sum == std::int64_t{1} << table.precision());
      REQUIRE(*std::min_element(coefficients, coefficients + table.taps()) >= 0);
    }
  }
}

TEST_CASE("equal sizes are the identity") {
  for (const auto& [width, height] : {std::pair{1, 1}, std::pair{2, 3}, std::pair{31, 17}, std::pair{224, 224}}) {
    const auto image = noise(width, height);
    CHECK(resize(image, whole(image), width, height) == image.pixels);
  }
}

TEST_CASE("at most one grey level from exact arithmetic") {
  const auto image = noise(130, 90);
  for (const auto& [width, height] :
       {std::pair{64, 64}, std::pair{224, 200}, std::pair{129, 91}, std::pair{65, 45}, std::pair{1, 1},
        std::pair{7, 300}, std::pair{300, 2}, std::pair{13, 9}, std::pair{130, 30}, std::pair{50, 90}}) {
    const auto text = size_text(width, height);
    const double of_whole = largest_error(image, whole(image), width, height);
    const double of_region = largest_error(image, {17, 5, 111, 80}, width, height);
    CHECK_MESSAGE(of_whole <= 1.01, text);
    CHECK_MESSAGE(of_region <= 1.01, text);
  }
}

TEST_CASE("one by one, one by N and N by one regions, and extreme ratios") {
  const auto image = noise(40, 30);
  CHECK(resize(image, {7, 9, 8, 10}, 2, 2) == [&] {
    Pixels four;
    for (int i = 0; i < 4; ++i) four.insert(four.end(), image.row(9) + 21, image.row(9) + 24);
    return four;
  }());
  CHECK(largest_error(image, {3, 0, 4, 30}, 16, 16) <= 1.01);
  CHECK(largest_error(image, {0, 29, 40, 30}, 16, 16) <= 1.01);
  const auto wide = noise(65500, 1);
  CHECK(largest_error(wide, whole(wide), 8, 8) <= 1.01);
  CHECK(largest_error(wide, whole(wide), 1, 1) <= 1.01);
  const auto tall = noise(1, 65500);
  CHECK(largest_error(tall, whole(tall), 8, 8) <= 1.01);
}

TEST_CASE("the region is resized as if it had been cut out first") {
  auto image = noise(60, 50);
  const Box region{20, 10, 45, 33};
  const auto before = resize(image, region, 31, 12);
  for (std::int32_t y = 0; y < image.height; ++y) {
    for (std::int32_t x = 0; x < image.width; ++x) {
      if (x >= region.left && x < region.right && y >= region.top && y < region.bottom) continue;
      std::fill_n(image.row(y) + std::ptrdiff_t{x} * 3, 3, std::uint8_t{99});
    }
  }
  CHECK(resize(image, region, 31, 12) == before);
}

TEST_CASE("a constant image stays constant") {
  for (const std::uint8_t value : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{127}, std::uint8_t{255}}) {
    Image image;
    image.resize(71, 53);
    std::fill(image.pixels.begin(), image.pixels.end(), value);
    for (const auto& [width, height] : {std::pair{32, 32}, std::pair{224, 224}, std::pair{1, 200}, std::pair{70, 54}}) {
      CHECK(resize(image, whole(image), width, height) ==
            Pixels(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3, value));
    }
  }
}

TEST_CASE("mirroring the output is mirroring the input") {
  for (const auto& [in, out] : {std::pair{50, 21}, std::pair{51, 20}, std::pair{20, 50}, std::pair{33, 33},
                                std::pair{64, 31}, std::pair{9, 1}, std::pair{10, 1}}) {
    const auto image = noise(in, 12);
    auto flipped = image;
    for (std::int32_t y = 0; y < image.height; ++y) {
      for (std::int32_t x = 0; x < in; ++x) {
        std::copy_n(image.row(y) + std::ptrdiff_t{in - 1 - x} * 3, 3, flipped.row(y) + std::ptrdiff_t{x} * 3);
      }
    }
    const bool same = resize(image, whole(image), out, 9, true) == resize(flipped, whole(flipped), out, 9, false);
    const auto text = size_text(in, out);
    CHECK_MESSAGE(same, text);
  }
}

TEST_CASE("a reused resizer gives what a new one gives") {
  Random random = testing::random_from(4);
  Resizer reused;
  const auto image = noise(90, 70);
  for (int round = 0; round < 200; ++round) {
    const auto left = static_cast<std::int32_t>(random.below(89));
    const auto top = static_cast<std::int32_t>(random.below(69));
    const Box region{left, top,
                     left + 1 + static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(90 - left))),
                     top + 1 + static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(70 - top)))};
    const auto width = 1 + static_cast<std::int32_t>(random.below(40));
    const auto height = 1 + static_cast<std::int32_t>(random.below(40));
    const bool mirror = random.below(2) == 1;
    REQUIRE(resize(reused, image, region, width, height, mirror) == resize(image, region, width, height, mirror));
  }
}

TEST_CASE("the same bytes on every machine, with every kind of kernels") {
  const auto image = noise(500, 375);
  for (const auto& kernels : forebay::make::supported_kernels()) {
    Resizer resizer(kernels);
    Pixels all;
    for (const auto& [width, height] : {std::pair{224, 224}, std::pair{700, 500}, std::pair{31, 7}, std::pair{1, 1},
                                        std::pair{224, 400}, std::pair{600, 30}}) {
      const auto pixels = resize(resizer, image, {3, 2, 497, 370}, width, height, false);
      all.insert(all.end(), pixels.begin(), pixels.end());
    }
    // A reference value from when this was checked against the exact filter.
    CHECK_MESSAGE(hash(all) == 2015330080507812931ULL, std::string(kernels.name));
  }
}

TEST_CASE("the middle is cut as torchvision's Resize and CenterCrop cut it") {
  const auto cut = [](const Box& box, std::int32_t width, std::int32_t height, double fraction) {
    const auto [across, down] = forebay::make::central_axes(box, width, height, fraction);
    return std::array{across.out, down.out, across.from, down.from};
  };
  // Sizes after Resize(n), and left and top offsets of CenterCrop, from torchvision 0.14.
  CHECK(cut({0, 0, 500, 375}, 224, 224, 224.0 / 256) == std::array{341, 256, 58, 16});
  CHECK(cut({0, 0, 375, 500}, 224, 224, 224.0 / 232) == std::array{232, 309, 4, 42});
  CHECK(cut({0, 0, 301, 400}, 224, 224, 224.0 / 255) == std::array{255, 338, 16, 57});
  CHECK(cut({0, 0, 33, 32}, 224, 224, 1) == std::array{231, 224, 4, 0});
  CHECK(cut({7, 9, 107, 109}, 90, 50, 0.5) == std::array{180, 180, 45, 65});
  // If that would be too wide, the whole box is resized to the output.
  CHECK(cut({0, 0, 65500, 1}, 224, 224, 0.875) == std::array{224, 224, 0, 0});
}

TEST_CASE("the middle is that of the whole box resized, within the rounding of two steps") {
  Random random = testing::random_from(43);
  const auto below = [&](std::uint64_t end) { return static_cast<std::int32_t>(random.below(end)); };
  double worst = 0;
  for (int round = 0; round < 100; ++round) {
    const Image image = noise(1 + below(below(3) == 0 ? 4 : 70), 1 + below(below(3) == 0 ? 4 : 70));
    const std::int32_t left = below(static_cast<std::uint64_t>(image.width));
    const std::int32_t top = below(static_cast<std::uint64_t>(image.height));
    const Box box{left, top, left + 1 + below(static_cast<std::uint64_t>(image.width - left)),
                  top + 1 + below(static_cast<std::uint64_t>(image.height - top))};
    const std::int32_t width = 1 + below(30);
    const std::int32_t height = 1 + below(30);
    const double fraction = random.uniform(0.3, 1);
    CAPTURE(size_text(box.width(), box.height()) + " to " + size_text(width, height));
    CAPTURE(fraction);
    const double error = largest_error_of_middle(image, box, width, height, fraction);
    CHECK(error < 1.1);
    worst = std::max(worst, error);
  }
  CHECK(worst > 0.5);
}

}  // namespace forebay::test_resize
