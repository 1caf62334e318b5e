#include "kernel_cases.hpp"

#include <array>
#include <numeric>
#include <span>

using namespace forebay::make;

namespace forebay::gpu_check {
namespace {

using Size = std::array<std::int64_t, 2>;

constexpr std::array kDTypes{DType::float32, DType::float16, DType::uint8, DType::bfloat16};
constexpr std::array kLayouts{Layout::nchw, Layout::nhwc};

TransformOptions options_of(const Size& size, const Size& canvas, Crop crop) {
  TransformOptions options;
  options.size = size;
  options.canvas = canvas;
  options.crop = crop;
  options.when = When::dequeue;
  return options;
}

std::vector<std::uint32_t> first(std::uint32_t count) {
  std::vector<std::uint32_t> samples(count);
  std::iota(samples.begin(), samples.end(), 0U);
  return samples;
}

// In every type and layout.
void add(const TransformOptions& options, std::uint32_t batch_size, std::uint32_t size,
         std::vector<KernelCase>& cases) {
  for (const DType dtype : kDTypes) {
    for (const Layout layout : kLayouts) {
      KernelCase one{.options = options, .batch_size = batch_size, .size = size, .compared = first(size)};
      one.options.dtype = dtype;
      one.options.layout = layout;
      cases.push_back(one);
      if (options.crop != Crop::random_resized) continue;
      one.options.operations = {"colour", "erase"};
      cases.push_back(std::move(one));
    }
  }
}

// Places of canvases as they are by default, 8 times as large as the result, smaller, nearly 3 times as large, and
// smaller one way and larger the other.
std::array<Size, 6> canvases_of(const Size& size) {
  const Size smaller{size[0] / 2 + 1, size[1] / 2 + 1};
  const Size larger{3 * size[0] - 1, 3 * size[1] - 1};
  return {{{0, 0}, {8 * size[0], 8 * size[1]}, smaller, larger, {larger[0], smaller[1]}, {smaller[0], larger[1]}}};
}

}  // namespace

std::vector<KernelCase> kernel_cases(bool quick) {
  constexpr std::array<Size, 5> kSizes{{{7, 13}, {1, 1}, {33, 64}, {96, 160}, {224, 224}}};
  std::vector<KernelCase> cases;
  for (const Size& size : std::span(kSizes).first(quick ? 3 : kSizes.size())) {
    const std::array<Size, 6> canvases = canvases_of(size);
    const std::uint32_t batch_size = quick ? 3 : size[0] > 40 ? 4 : 9;
    for (const Size& canvas : std::span(canvases).first(quick ? 3 : canvases.size())) {
      for (const Crop crop : {Crop::random_resized, Crop::center, Crop::none}) {
        if (canvas[0] != 0 && (crop == Crop::center || (quick && crop == Crop::none))) continue;
        add(options_of(size, canvas, crop), batch_size, batch_size, cases);
      }
    }
  }
  const Size common = quick ? kSizes[2] : kSizes[4];
  add(options_of(common, {0, 0}, Crop::random_resized), 9, 5, cases);  // a short batch
  KernelCase large{.options = options_of(common, {0, 0}, Crop::random_resized),
                   .batch_size = 256,
                   .size = 256,
                   .servings = 1,
                   .compared = {0, 1, 85, 170, 254, 255}};
  cases.push_back(large);
  large.options.layout = Layout::nhwc;
  large.options.dtype = DType::float16;
  cases.push_back(large);
  return cases;
}

std::string kernel_of(const RenderPlan& plan) {
  const bool few = 10 * plan.canvas.width <= 13 * std::int64_t{plan.view.width} &&
                   10 * plan.canvas.height <= 13 * std::int64_t{plan.view.height};
  return std::string(to_string(plan.dtype)) + (plan.layout == Layout::nchw ? " planes" : " pixels") +
         (few ? ", few coefficients" : ", any number of coefficients") + (plan.pixels.any() ? ", operations" : "");
}

}  // namespace forebay::gpu_check
