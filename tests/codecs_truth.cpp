#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/error.hpp>

#include "make/image_decoder.hpp"
#include "sha256.hpp"
#include "support.hpp"

// Every PNG, WebP and TIFF file of the real data against what Pillow makes of it (truth/images.tsv).
namespace {

namespace fs = std::filesystem;
using forebay::testing::sha256;

// A line of the table.
struct Truth {
  std::string path;
  std::string magic;   // "png"
  std::string result;  // Pillow's: ok, err, skipped-bomb
  std::string mode;
  std::string sha256;  // of the pixels after convert("RGB")
};

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find('\t', begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

std::vector<Truth> read_truth(const fs::path& table) {
  constexpr std::size_t kFields = 25;
  std::vector<Truth> all;
  std::ifstream file(table);
  for (std::string line; std::getline(file, line);) {
    const auto fields = fields_of(line);
    if (fields.size() != kFields) continue;
    const auto& magic = fields[3];
    if (magic != "png" && magic != "webp" && magic != "tiff") continue;
    all.push_back({fields[0], magic, fields[20], fields[21], fields[24].empty() ? fields[23] : fields[24]});
  }
  return all;
}

bool can_decode(const std::string& magic) {
  const std::string_view title = magic == "png" ? "PNG" : magic == "webp" ? "WebP" : "TIFF";
  return std::ranges::any_of(forebay::kCodecs, [&](const forebay::NamedCodec& codec) {
    return codec.title == title && codec.kind->make != nullptr;
  });
}

struct Decoded {
  std::string sha256;
  std::optional<std::string> refusal;
};

Decoded decode(const fs::path& path, forebay::ImageDecoder& decoder) {
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  forebay::Image image;
  try {
    const auto size = decoder.open(std::as_bytes(std::span(content)), {.exif = false});
    decoder.decode({0, 0, size.width, size.height}, 1, image);
  } catch (const forebay::SampleError& error) {
    return {"", error.what()};
  }
  const auto bytes = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height) * 3;
  return {sha256({reinterpret_cast<const char*>(image.pixels.data()), bytes}), std::nullopt};
}

// Files whose pixels differ from Pillow's, or that one of both refuses, each for a reason that docs/data.md states.
bool is_known(const Truth& truth, const Decoded& decoded) {
  // 16-bit grey: Pillow clips at 255 what we divide by 256.
  if (truth.mode == "I" && !decoded.refusal) return true;
  // Damaged, or cut off, outside of the pixels.
  static constexpr std::array<std::string_view, 11> kRead{"ztxt_bomb.png",
                                                          "chunk_no_fctl.png",
                                                          "unknown_compression_method.png",
                                                          "2d6d6bcc2d03afc5e08e8ec203d7bb54656e21e3-5",
                                                          "bbdc16a15585c266443a3aa4a0dfe66ae42de588-5",
                                                          "d61111036fdc816412a907a21e5a958ebdf2cfa2-6",
                                                          "ff64c465b906b75c6b939bdc5eba0dc24f3ca9e4-4",
                                                          "0b7d50ac449fd59eb3de00647636d0c9.png",
                                                          "c-9032e447e32e09aef5b7de2fab42494d.png",
                                                          "c-m1-a4842373fc20cc42b8e023a329761915.png",
                                                          "m1-1fc0c0de88608a9445d6f98a544b5abc.png"};
  // Damaged in the palette or the pixels, which Pillow makes up then, or does not check.
  static constexpr std::array<std::string_view, 6> kRefused{"invalid-palette.png",
                                                            "4930d001f211f78029c9deace8bb8671e27a5397-4",
                                                            "df6c8819922811197eb8b17369e379060099fce8-1",
                                                            "c-m1-49e39033e275de9786d8c41f834c710b.png",
                                                            "c-m1-6bfb149151f58d124d6fa76eaad75520.png",
                                                            "f427b6bee1acd1fea3ec953bc556a18a.png"};
  const std::string name = fs::path(truth.path).filename().string();
  if (truth.result == "ok") return decoded.refusal && std::ranges::find(kRefused, name) != kRefused.end();
  return !decoded.refusal && std::ranges::find(kRead, name) != kRead.end();
}

}  // namespace

TEST_CASE("every image that Pillow reads has the same pixels") {
  const auto data = forebay::testing::real_data();
  if (!data) {
    MESSAGE("skipped: no real data (FOREBAY_DATA)");
    return;
  }
  const std::vector<Truth> all = read_truth(*data / "truth/images.tsv");
  REQUIRE_FALSE(all.empty());
  forebay::ImageDecoder decoder;
  std::size_t equal = 0;
  std::size_t refused_by_both = 0;
  std::string known;
  for (const Truth& truth : all) {
    const fs::path path = *data / truth.path;
    if (!fs::exists(path) || !can_decode(truth.magic)) continue;
    CAPTURE(truth.path);
    const Decoded decoded = decode(path, decoder);
    const std::string ours = decoded.refusal.value_or("decoded");
    CAPTURE(ours);
    if (truth.result == "ok" && decoded.sha256 == truth.sha256) {
      ++equal;
    } else if (truth.result != "ok" && decoded.refusal) {
      ++refused_by_both;
    } else {
      known += "\n  " + truth.path + ": Pillow " + truth.result + " " + truth.mode + " " + truth.sha256.substr(0, 60) +
               ", ours: " + ours;
      CHECK(is_known(truth, decoded));
    }
  }
  MESSAGE(equal << " equal, " << refused_by_both << " refused by both; known differences:" << known);
  CHECK(equal > 0);
}
