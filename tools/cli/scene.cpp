// Paints generated pictures: a background, then shapes of given classes in separate regions, then
// grain. Records where each shape is (box and mask).
//
// paint_scene() depends only on its arguments and is called by many threads. No sine or power may
// decide a pixel, because the results of C libraries differ in the last bit, and the files must
// not. The order of random numbers is part of the format: changing it changes all generated
// datasets.
//
// A shape is a function that tells whether a point of the square from -1 to 1, y downwards, is
// inside. Placement maps pixels into that square.

#include "scene.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include <forebay/random.hpp>

#include "drawing.hpp"

namespace forebay::cli {
namespace {

struct Point {
  double x;
  double y;
};

// Even-odd rule: counts the edges to the right of the point. Edges are half-open in y, so that a
// corner counts once.
template <std::size_t N>
bool is_inside(const std::array<Point, N>& polygon, double x, double y) {
  bool inside = false;
  for (std::size_t i = 0; i < N; ++i) {
    const Point& a = polygon[i];
    const Point& b = polygon[(i + 1) % N];
    if ((a.y > y) == (b.y > y)) continue;
    if (x < a.x + (b.x - a.x) * (y - a.y) / (b.y - a.y)) inside = !inside;
  }
  return inside;
}

bool is_in_disc(double x, double y, double radius) { return x * x + y * y <= radius * radius; }
bool is_in_square(double x, double y, double half) { return std::max(std::abs(x), std::abs(y)) <= half; }

bool circle(double x, double y) { return is_in_disc(x, y, 1); }
bool square(double x, double y) { return is_in_square(x, y, 1); }
bool ring(double x, double y) { return circle(x, y) && !is_in_disc(x, y, 0.58); }
bool frame(double x, double y) { return square(x, y) && !is_in_square(x, y, 0.58); }
bool crescent(double x, double y) { return circle(x, y) && !is_in_disc(x - 0.5, y, 0.8); }
bool diamond(double x, double y) { return std::abs(x) / 0.8 + std::abs(y) <= 1; }
bool elbow(double x, double y) { return square(x, y) && (x <= -0.3 || y >= 0.3); }
bool tee(double x, double y) { return square(x, y) && (y <= -0.4 || std::abs(x) <= 0.3); }

bool cross(double x, double y) {
  constexpr double kArm = 0.34;
  return square(x, y) && (std::abs(x) <= kArm || std::abs(y) <= kArm);
}

bool triangle(double x, double y) {
  constexpr std::array<Point, 3> kCorners{{{0, -1}, {1, 0.85}, {-1, 0.85}}};
  return is_inside(kCorners, x, y);
}

bool star(double x, double y) {
  // Multiples of 36 degrees; the inner corners at 0.42 of the radius.
  constexpr double kSin36 = 0.5877852522924731;
  constexpr double kCos36 = 0.8090169943749475;
  constexpr double kSin72 = 0.9510565162951535;
  constexpr double kCos72 = 0.3090169943749474;
  constexpr double kInner = 0.42;
  constexpr std::array<Point, 10> kCorners{{{0, -1},
                                            {kInner * kSin36, -kInner * kCos36},
                                            {kSin72, -kCos72},
                                            {kInner * kSin72, kInner * kCos72},
                                            {kSin36, kCos36},
                                            {0, kInner},
                                            {-kSin36, kCos36},
                                            {-kInner * kSin72, kInner * kCos72},
                                            {-kSin72, -kCos72},
                                            {-kInner * kSin36, -kInner * kCos36}}};
  return is_inside(kCorners, x, y);
}

bool arrow(double x, double y) {
  constexpr std::array<Point, 7> kCorners{
      {{0, -1}, {0.85, 0.05}, {0.3, 0.05}, {0.3, 1}, {-0.3, 1}, {-0.3, 0.05}, {-0.85, 0.05}}};
  return is_inside(kCorners, x, y);
}

// (x^2 + y^2 - 1)^3 <= x^2 y^3, the sextic heart, y upwards; scaled into the square.
bool heart(double x, double y) {
  const double u = 1.15 * x;
  const double v = 0.1 - 1.12 * y;
  const double w = u * u + v * v - 1;
  return w * w * w <= u * u * v * v * v;
}

bool hourglass(double x, double y) {
  constexpr double kWaist = 0.1;
  return square(x, y) && std::abs(x) <= std::max(std::abs(y), kWaist);
}

// Along a diagonal, so that it is still a stripe when stretched to its bounding box.
bool bar(double x, double y) {
  constexpr double kHalfWidth = 0.36;
  return square(x, y) && std::abs(x - y) <= kHalfWidth;
}

bool hexagon(double x, double y) {
  constexpr double kSin60 = 0.8660254037844386;
  return std::abs(x) <= kSin60 && kSin60 * std::abs(y) + 0.5 * std::abs(x) <= kSin60;
}

constexpr std::array<DrawnShape, 16> kShapes{{{"circle", circle},
                                              {"square", square},
                                              {"triangle", triangle},
                                              {"cross", cross},
                                              {"ring", ring},
                                              {"star", star},
                                              {"diamond", diamond},
                                              {"bar", bar},
                                              {"arrow", arrow},
                                              {"crescent", crescent},
                                              {"heart", heart},
                                              {"hourglass", hourglass},
                                              {"frame", frame},
                                              {"elbow", elbow},
                                              {"tee", tee},
                                              {"hexagon", hexagon}}};

// Position of a shape in the picture; maps a pixel into the shape's square.
struct Placement {
  double centre_x;
  double centre_y;
  double half_width;  // of the shape before its rotation
  double half_height;
  double cosine;
  double sine;

  [[nodiscard]] bool covers(const DrawnShape& shape, double x, double y) const {
    const double dx = x - centre_x;
    const double dy = y - centre_y;
    return shape.contains((dx * cosine + dy * sine) / half_width, (dy * cosine - dx * sine) / half_height);
  }
};

// Cuts the picture into one region per object, always dividing the largest region across its longer
// side. The regions are shuffled, so that the first object is not always in the largest one.
std::vector<Box> cut(int width, int height, std::size_t count, Random& random) {
  std::vector<Box> regions{{0, 0, width, height}};
  const auto area = [](const Box& box) { return std::int64_t{box.width()} * box.height(); };
  while (regions.size() < count) {
    const auto largest = std::ranges::max_element(regions, {}, area);
    Box rest = *largest;
    const double share = random.uniform(0.44, 0.56);
    if (rest.width() >= rest.height()) {
      rest.left = largest->right = rest.left + static_cast<int>(rest.width() * share);
    } else {
      rest.top = largest->bottom = rest.top + static_cast<int>(rest.height() * share);
    }
    regions.push_back(rest);
  }
  for (std::size_t i = regions.size(); i > 1; --i) std::swap(regions[i - 1], regions[random.below(i)]);
  return regions;
}

Placement place(const Box& region, double least, double most, Random& random) {
  // t is the tangent of half the angle: cosine and sine follow from it without a library's sine.
  constexpr double kMostTangent = 0.15;  // about 17 degrees
  const double t = random.uniform(-kMostTangent, kMostTangent);
  Placement placement{};
  placement.cosine = (1 - t * t) / (1 + t * t);
  placement.sine = 2 * t / (1 + t * t);

  const double half = 0.5 * std::min(region.width(), region.height()) * random.uniform(least, most);
  const double stretch = random.uniform(0.8, 1.0);
  const bool is_narrow = random.below(2) == 0;
  // The bounding box of the rotated square is larger than the square by this factor.
  const double spread = placement.cosine + std::abs(placement.sine);
  placement.half_width = half / spread * (is_narrow ? stretch : 1);
  placement.half_height = half / spread * (is_narrow ? 1 : stretch);
  placement.centre_x = random.uniform(region.left + half, region.right - half);
  placement.centre_y = random.uniform(region.top + half, region.bottom - half);
  return placement;
}

// How much of each pixel in a region the shape covers, from 0 to 1.
struct Coverage {
  Box box;
  std::vector<float> share;  // rows of box
};
constexpr float kMostly = 0.5F;

// Samples 4 x 4 points per pixel, for smooth edges.
Coverage cover(const DrawnShape& shape, const Placement& placement, const Box& region) {
  constexpr int kPoints = 4;
  Coverage coverage{region, {}};
  coverage.share.reserve(static_cast<std::size_t>(region.width()) * static_cast<std::size_t>(region.height()));
  for (int y = region.top; y < region.bottom; ++y) {
    for (int x = region.left; x < region.right; ++x) {
      int covered = 0;
      for (int point = 0; point < kPoints * kPoints; ++point) {
        const double dx = (point % kPoints + 0.5) / kPoints;
        const double dy = (point / kPoints + 0.5) / kPoints;  // NOLINT(bugprone-integer-division): a row of points
        covered += placement.covers(shape, x + dx, y + dy) ? 1 : 0;
      }
      coverage.share.push_back(static_cast<float>(covered) / (kPoints * kPoints));
    }
  }
  return coverage;
}

// Calls visit(x, y, share) for every pixel that is at least partly covered.
template <typename Visit>
void for_covered(const Coverage& coverage, Visit visit) {
  std::size_t i = 0;
  for (int y = coverage.box.top; y < coverage.box.bottom; ++y) {
    for (int x = coverage.box.left; x < coverage.box.right; ++x, ++i) {
      if (coverage.share[i] > 0) visit(x, y, coverage.share[i]);
    }
  }
}

// The bounding box of pixels that are at least half covered, as in the mask; otherwise a shape's
// faint edge would enlarge its box.
Box bounds(const Coverage& coverage) {
  constexpr int kFar = std::numeric_limits<int>::max();
  Box box{kFar, kFar, 0, 0};
  for_covered(coverage, [&](int x, int y, float share) {
    if (share < kMostly) return;
    box = {std::min(box.left, x), std::min(box.top, y), std::max(box.right, x + 1), std::max(box.bottom, y + 1)};
  });
  return box;
}

// Writes the number of the shape, from 1, into a mask of that width.
void mark(std::vector<std::uint8_t>& plane, int width, const Coverage& coverage, std::size_t shape) {
  for_covered(coverage, [&](int x, int y, float share) {
    if (share < kMostly) return;
    plane[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)] =
        static_cast<std::uint8_t>(shape + 1);
  });
}

float distance(const Colour& a, const Colour& b) {
  // Luminance counts most: it survives chroma subsampling.
  const float red = a[0] - b[0];
  const float green = a[1] - b[1];
  const float blue = a[2] - b[2];
  const float luminance = 0.299F * red + 0.587F * green + 0.114F * blue;
  return std::abs(luminance) + 0.15F * (std::abs(red) + std::abs(green) + std::abs(blue));
}

Colour mean_below(Drawing& drawing, const Coverage& coverage) {
  Colour sum{};
  float weight = 0;
  for_covered(coverage, [&](int x, int y, float share) {
    for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += drawing.at(x, y)[c] * share;
    weight += share;
  });
  for (float& channel : sum) channel /= std::max(weight, 1.0F);
  return sum;
}

// A random colour that contrasts with what is below, or the best of 24 tries. The number of tries
// and the contrast are chosen.
Colour contrasting(const Colour& below, Random& random) {
  constexpr float kEnough = 75;
  Colour best{};
  float most = -1;
  for (int tries = 0; tries < 24 && most < kEnough; ++tries) {
    Colour colour{};
    for (float& channel : colour) channel = static_cast<float>(random.uniform(5, 250));
    const float found = distance(colour, below);
    if (found > most) {
      best = colour;
      most = found;
    }
  }
  return best;
}

Colour close_to(Colour colour, Random& random) {
  constexpr double kMostOff = 20;
  for (float& channel : colour) channel += static_cast<float>(random.uniform(-kMostOff, kMostOff));
  return colour;
}

// Fills the covered pixels with one colour, lit from one side and slightly textured.
void fill(Drawing& drawing, const Coverage& coverage, const Colour& colour, Random& random) {
  constexpr int kGrainCell = 6;
  std::vector<float> texture(coverage.share.size());
  add_noise(texture, coverage.box.width(), coverage.box.height(), kGrainCell, static_cast<float>(random.uniform(2, 10)),
            random);
  const auto light_x = static_cast<float>(random.uniform(-30, 30)) / static_cast<float>(coverage.box.width());
  const auto light_y = static_cast<float>(random.uniform(-30, 30)) / static_cast<float>(coverage.box.height());
  const float middle_x = 0.5F * static_cast<float>(coverage.box.left + coverage.box.right);
  const float middle_y = 0.5F * static_cast<float>(coverage.box.top + coverage.box.bottom);
  for_covered(coverage, [&](int x, int y, float share) {
    const auto place = static_cast<std::size_t>((y - coverage.box.top) * coverage.box.width() + x - coverage.box.left);
    const float light =
        texture[place] + light_x * (static_cast<float>(x) - middle_x) + light_y * (static_cast<float>(y) - middle_y);
    Colour lit = colour;
    for (float& channel : lit) channel += light;
    drawing.blend(x, y, lit, share);
  });
}

// Rounds to bytes only at the end, so that layers do not accumulate rounding errors.
RgbImage quantised(Drawing& drawing) {
  RgbImage image{drawing.width(), drawing.height(), {}};
  image.bytes.reserve(drawing.pixels().size() * 3);
  for (const Colour& pixel : drawing.pixels()) {
    for (const float channel : pixel) {
      image.bytes.push_back(static_cast<std::uint8_t>(std::lround(std::clamp(channel, 0.0F, 255.0F))));
    }
  }
  return image;
}

}  // namespace

std::span<const DrawnShape> shapes() noexcept { return kShapes; }

std::size_t most_objects(int width, int height) noexcept {
  if (std::min(width, height) < kSmallestSide) return 0;
  // Because regions are halved repeatedly, the smallest has about half of the mean area.
  constexpr std::int64_t kArea = std::int64_t{2} * kSmallestSide * kSmallestSide;
  return static_cast<std::size_t>(std::max<std::int64_t>(1, std::int64_t{width} * height / kArea));
}

Colour colour_of(std::size_t shape) noexcept {
  // Successive hues are a golden section of the circle apart, so that the first few differ most.
  constexpr double kGoldenSection = 0.6180339887498949;
  constexpr float kDarkest = 30;
  constexpr float kRange = 200;
  const double turns = static_cast<double>(shape) * kGoldenSection;
  const double hue = 6 * (turns - std::floor(turns));
  const auto channel = [&](double peak) {
    const double off = std::abs(hue - peak);
    const double near = std::clamp(2 - std::min(off, 6 - off), 0.0, 1.0);
    return kDarkest + kRange * static_cast<float>(near);
  };
  return {channel(0), channel(2), channel(4)};
}

Scene paint_scene(const ScenePlan& plan, std::span<const std::size_t> chosen, std::uint64_t key) {
  Random random(key);
  Drawing drawing(plan.width, plan.height);
  paint_background(drawing, random);
  const std::vector<Box> regions = cut(plan.width, plan.height, chosen.size(), random);
  const double least = plan.close_up ? 0.75 : 0.55;
  const double most = chosen.size() > 1 || plan.close_up ? 0.96 : 0.75;
  Scene scene;
  scene.mask.resize(drawing.pixels().size());
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const DrawnShape& shape = shapes()[chosen[i]];
    const Coverage coverage = cover(shape, place(regions[i], least, most, random), regions[i]);
    const Colour colour = plan.colours == Colours::any ? contrasting(mean_below(drawing, coverage), random)
                                                       : close_to(colour_of(chosen[i]), random);
    fill(drawing, coverage, colour, random);
    mark(scene.mask, plan.width, coverage, chosen[i]);
    scene.objects.push_back({chosen[i], bounds(coverage)});
  }
  add_grain(drawing, random);
  scene.image = quantised(drawing);
  return scene;
}

}  // namespace forebay::cli
