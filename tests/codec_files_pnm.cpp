#include <cmath>
#include <string>

#include "codec_files.hpp"

namespace forebay::testing {
namespace {

constexpr int kWidth = 31;
constexpr int kHeight = 17;

CodecFile pnm_file(int kind, unsigned most, bool has_comments) {
  const bool is_bits = kind == 1 || kind == 4;
  const bool is_text = kind <= 3;
  const int channels = kind == 3 || kind == 6 ? 3 : 1;
  const std::string note = has_comments ? "# by hand\n" : "";
  std::string content = "P" + std::to_string(kind) + "\n" + note + std::to_string(kWidth) +
                        (has_comments ? "#w\n" : " ") + std::to_string(kHeight) + "\n";
  if (!is_bits) content += note + std::to_string(most) + "\n";
  CodecFile file{
      .what = "PPM, P" + std::to_string(kind) + ", up to " + std::to_string(most) + (has_comments ? ", comments" : ""),
      .bytes = {},
      .width = kWidth,
      .height = kHeight,
      .orientation = 1,
      .rgb = {},
      .values = {}};
  std::vector<std::uint8_t> values;
  for (int y = 0; y < kHeight; ++y) {
    unsigned byte = 0;
    for (int x = 0; x < kWidth; ++x) {
      for (int channel = 0; channel < channels; ++channel) {
        const unsigned value = pattern(x, y, channel, most);
        const unsigned stored = is_bits ? 1 - value : value;
        if (is_text) {
          content += std::to_string(stored) + (is_bits ? "" : x % 8 == 7 ? "\n" : " ");
        } else if (is_bits) {
          byte |= stored << (7U - static_cast<unsigned>(x) % 8);
          if (x % 8 != 7 && x != kWidth - 1) continue;
          content += static_cast<char>(byte);
          byte = 0;
        } else {
          if (most > 255) content += static_cast<char>(value >> 8U);
          content += static_cast<char>(value & 0xffU);
        }
      }
      for (int channel = 0; channel < 3; ++channel) {
        const double value = pattern(x, y, channels == 1 ? 0 : channel, most);
        file.rgb.push_back(static_cast<std::uint8_t>(std::nearbyint(value / most * 255)));
        if (most > 255 && channel < channels) file.wide.push_back(static_cast<float>(value));
      }
      values.push_back(static_cast<std::uint8_t>(pattern(x, y, 0, most)));
    }
  }
  if (channels == 1 && most <= 255) file.values = std::move(values);
  for (const char c : content) file.bytes.push_back(static_cast<std::byte>(c));
  return file;
}

}  // namespace

std::vector<CodecFile> pnm_files() {
  std::vector<CodecFile> files;
  for (int kind = 1; kind <= 6; ++kind) {
    if (kind == 1 || kind == 4) {
      files.push_back(pnm_file(kind, 1, false));
      files.push_back(pnm_file(kind, 1, true));
      continue;
    }
    for (const unsigned most : {1U, 20U, 255U, 1000U, 65535U}) files.push_back(pnm_file(kind, most, most == 255));
    files.push_back(pnm_file(kind, 255, false));
  }
  return files;
}

}  // namespace forebay::testing
