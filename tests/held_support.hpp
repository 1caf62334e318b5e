#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <forebay/random.hpp>

#include "canvas_support.hpp"
#include "jpeg/libjpeg_images.hpp"
#include "jpeg_plain_files.hpp"
#include "jpeg_support.hpp"
#include "make/canvas_math.hpp"
#include "make/sample_maker.hpp"

// Slots in which JPEG files are held as coefficients.
namespace forebay::testing {

// Grey and colours, common samplings, every orientation, few and many coefficients.
inline std::vector<std::vector<std::byte>> files_to_hold() {
  auto files = plain_files({{1, 1}, {17, 9}, {33, 70}, {150, 70}});
  for (int orientation = 1; orientation <= 8; ++orientation) {
    files.push_back(make_jpeg({.width = 90, .height = 50, .app1 = exif_segment(orientation)}));
  }
  files.push_back(encoded_noise({.width = 70, .height = 40, .h = 2, .v = 2, .quality = 1}));
  files.push_back(encoded_noise({.width = 70, .height = 40, .h = 2, .v = 2, .quality = 100}));
  files.push_back(make_jpeg({.width = 70, .height = 30, .stored = JCS_RGB, .subsampled = false}));
  return files;
}

inline TransformOptions holding_options(std::int64_t height, std::int64_t width, std::int64_t canvas) {
  TransformOptions options;
  options.when = When::dequeue;
  options.hold = Hold::coefficients;
  options.size = {height, width};
  options.canvas = {canvas, canvas};
  return options;
}

// A slot that a SampleMaker fills. It ends where its memory does.
class HeldSlot {
 public:
  HeldSlot(const TransformOptions& options, std::uint32_t batch_size, const PixelKernels* kernels)
      : format_(canvas_format(options, batch_size)), maker_(options, 0, false), memory_(format_.batch_bytes()) {
    workspace_.decoder = ImageDecoder(kernels);
  }

  // Gives back what the place has now.
  CanvasForm put(std::uint32_t index, const std::vector<std::byte>& file, const std::optional<Box>& box = {}) {
    Sample sample;
    sample.box = box;
    maker_.make(file, sample, 0, 0, format_.place(memory_.bytes(), index), workspace_);
    return info_of(format_, memory_.bytes().data(), index).form;
  }
  // Samples that were held as coefficients.
  [[nodiscard]] std::uint64_t held() const noexcept { return workspace_.held_coefficients; }
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return memory_.bytes(); }
  [[nodiscard]] RenderBatch batch(std::uint64_t epoch, std::uint64_t first_position, std::uint64_t use_index) noexcept {
    return {.canvases = memory_.bytes().data(),
            .size = format_.batch_size,
            .epoch = epoch,
            .first_position = first_position,
            .use_index = use_index};
  }

 private:
  CanvasFormat format_;
  SampleMaker maker_;
  SampleMaker::Workspace workspace_;
  AlignedBytes memory_;
};

}  // namespace forebay::testing
