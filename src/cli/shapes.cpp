#include "scene.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace forebay {
namespace {

struct Point {
  double x;
  double y;
};

// Even-odd rule: counts the edges to the right of the point.
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

// Along a diagonal, so that stretching it to its box leaves a stripe.
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

}  // namespace

std::span<const DrawnShape> shapes() noexcept { return kShapes; }

}  // namespace forebay
