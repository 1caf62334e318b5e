#pragma once

#include "jpeg/decode_index.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "jpeg_parts.hpp"
#include "jpeg_support.hpp"
#include "make/jpeg_decoder.hpp"
#include "test.hpp"

// JPEG files, a decode index of them, and decoding with it.
namespace forebay::testing {

using Bytes = std::vector<std::byte>;

inline Bytes points_of(const Bytes& file) {
  make::JpegDecoder decoder(twin_kernels());
  (void)decoder.open(file, {});
  return decoder.locate();
}

// A decoder with a decode index of the files, and libjpeg-turbo's for comparison.
class Indexed {
 public:
  // `others`: further entries, added after those of the files.
  explicit Indexed(const std::vector<Bytes>& files, const std::vector<std::pair<jpeg::JpegKey, Bytes>>& others = {})
      : path_((dir_ / "x.points").string()) {
    jpeg::DecodeIndexWriter writer;
    for (const Bytes& file : files) {
      Bytes points = points_of(file);
      if (!points.empty()) writer.add(jpeg::key_of(file), std::move(points));
    }
    for (const auto& [key, points] : others) writer.add(key, points);
    writer.save(path_);
    open();
  }

  void open() {
    decoder_ = make::JpegDecoder();
    index_.emplace(path_);
    decoder_ = make::JpegDecoder(twin_kernels(), &*index_);
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::uint64_t files() const noexcept { return index_->files(); }

  // Decodes a region with the index and with libjpeg-turbo, and compares. Returns whether the index
  // was used.
  bool compare(const Bytes& file, const Box& region, bool grey = false) {
    const auto given = [&](make::ImageSize) { return region; };
    const make::ImageOptions options{.exif = true, .max_pixels = 10'000'000, .grey = grey};
    const auto expected = decode(turbo_, file, options, given, expected_);
    const auto found = decode(decoder_, file, options, given, found_);
    CHECK(found.refusal == expected.refusal);
    if (!expected.refusal.empty() || !found.refusal.empty()) return false;
    CHECK(same_region(found_, expected_, region));
    return decoder_.was_indexed();
  }

 private:
  TemporaryDirectory dir_;
  std::string path_;
  std::optional<jpeg::DecodeIndex> index_;
  make::JpegDecoder decoder_;
  make::JpegDecoder turbo_;
  make::Image found_;
  make::Image expected_;
};

inline Recipe recipe_of(int width, int height, std::pair<int, int> luma, int restart_interval) {
  constexpr std::pair<int, int> kOne{1, 1};
  Recipe recipe;
  recipe.width = width;
  recipe.height = height;
  recipe.sampling = {luma, kOne, kOne};
  recipe.restart_interval = restart_interval;
  if (luma.first == 0) {
    recipe.sampling = {kOne};
    recipe.input = recipe.stored = JCS_GRAYSCALE;
    recipe.components = 1;
  }
  return recipe;
}

// The file with a comment at its start: the same pixels, another key.
inline Bytes with_comment(const Bytes& file, std::uint32_t number) {
  Bytes with(file.begin(), file.begin() + 2);
  for (const int byte : {0xff, 0xfe, 0, 6}) with.push_back(static_cast<std::byte>(byte));
  const auto bytes = std::as_bytes(std::span(&number, 1));
  with.insert(with.end(), bytes.begin(), bytes.end());
  with.insert(with.end(), file.begin() + 2, file.end());
  return with;
}

}  // namespace forebay::testing
