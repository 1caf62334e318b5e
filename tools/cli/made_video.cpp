// Makes videos without a video encoder: one large picture is painted, and a window moves across it;
// each frame is what the window shows. The frames are JPEG files in an AVI file, which every player
// and libavcodec can read.

#include "made_video.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include <forebay/random.hpp>

namespace forebay::cli {
namespace {

struct Motion {
  std::string_view name;
  int across;  // direction in which the picture moves, -1, 0 or 1
  int down;
};
constexpr std::array<Motion, kMotions> kMoves{{{"right", 1, 0},
                                               {"left", -1, 0},
                                               {"down", 0, 1},
                                               {"up", 0, -1},
                                               {"down_right", 1, 1},
                                               {"up_left", -1, -1},
                                               {"down_left", -1, 1},
                                               {"up_right", 1, -1}}};

RgbImage part_of(const RgbImage& whole, int left, int top, int width, int height) {
  RgbImage part{width, height, {}};
  part.bytes.reserve(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  for (int y = top; y < top + height; ++y) {
    const auto at = 3 * (static_cast<std::ptrdiff_t>(y) * whole.width + left);
    part.bytes.insert(part.bytes.end(), whole.bytes.begin() + at, whole.bytes.begin() + at + 3 * std::ptrdiff_t{width});
  }
  return part;
}

// An integer in little endian.
std::string number(std::size_t value, std::size_t bytes = 4) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

std::string chunk(std::string_view name, const std::string& bytes) {
  return std::string(name) + number(bytes.size()) + bytes + std::string(bytes.size() % 2, '\0');
}

std::string list(const std::string& bytes) { return chunk("LIST", bytes); }

// The file: headers, frames, and an index of their offsets, which count from the name of the list
// "movi".
std::string avi_of(std::span<const std::string> pictures, const ScenePlan& plan) {
  constexpr std::size_t kRate = 25;
  constexpr std::size_t kKeyFrame = 0x10;
  const auto width = static_cast<std::size_t>(plan.width);
  const auto height = static_cast<std::size_t>(plan.height);
  std::string movie = "movi";
  std::string index;
  for (const std::string& picture : pictures) {
    index += "00dc" + number(kKeyFrame) + number(movie.size()) + number(picture.size());
    movie += chunk("00dc", picture);
  }
  const std::string nothing(16, '\0');
  const std::string main = number(1'000'000 / kRate) + number(0) + number(0) + number(kKeyFrame) +  // AVIF_HASINDEX
                           number(pictures.size()) + number(0) + number(1) + number(0) + number(width) +
                           number(height) + nothing;
  const std::string stream = "vidsMJPG" + nothing.substr(4) + number(1) + number(kRate) + number(0) +
                             number(pictures.size()) + number(0) + number(SIZE_MAX) + number(0) + number(0, 2) +
                             number(0, 2) + number(width, 2) + number(height, 2);
  const std::string picture = number(40) + number(width) + number(height) + number(1, 2) + number(24, 2) + "MJPG" +
                              number(3 * width * height) + nothing;
  const std::string head = "hdrl" + chunk("avih", main) + list("strl" + chunk("strh", stream) + chunk("strf", picture));
  return chunk("RIFF", "AVI " + list(head) + list(movie) + chunk("idx1", index));
}

}  // namespace

std::string_view motion_name(std::size_t motion) noexcept { return kMoves[motion].name; }

std::string made_video(const ScenePlan& plan, std::size_t motion, int frames, int quality, std::uint64_t key) {
  Random random(key);
  const double speed = random.uniform(1, 2.5);  // pixels a frame
  const int way = static_cast<int>(std::ceil(speed * (frames - 1)));
  ScenePlan larger = plan;
  larger.width += way;
  larger.height += way;
  std::vector<std::size_t> chosen(std::min<std::size_t>(6, most_objects(larger.width, larger.height)));
  for (std::size_t& shape : chosen) shape = random.below(shapes().size());
  const RgbImage whole = paint_scene(larger, chosen, random.bits()).image;
  std::vector<std::string> pictures;
  for (int frame = 0; frame < frames; ++frame) {
    const int gone = static_cast<int>(std::lround(speed * frame));
    // The picture moves in the direction opposite to the window.
    const auto place = [&](int direction) { return direction == 0 ? way / 2 : direction > 0 ? way - gone : gone; };
    const RgbImage part =
        part_of(whole, place(kMoves[motion].across), place(kMoves[motion].down), plan.width, plan.height);
    const std::vector<std::byte> jpeg = encode_jpeg(part, quality);
    pictures.emplace_back(reinterpret_cast<const char*>(jpeg.data()), jpeg.size());
  }
  return avi_of(pictures, plan);
}

}  // namespace forebay::cli
