// mixup (Zhang et al. 2018) and CutMix (Yun et al. 2019), with the pairing of timm's batch mode,
// x.flip(0). Both rows of a pair are mixed in place in one pass, so no second buffer is needed.
// Runs on the thread that completes a batch, before the batch is published.
//
// Results are the same on all machines. The random draws use only additions, multiplications,
// divisions and square roots, which IEEE 754 rounds correctly. mixup's share is rounded to a
// multiple of 1/256, which changes no 8-bit pixel by more than half a unit. All shares are
// multiples of 2^-24, so the label weights of a row sum to exactly 1.

#include "batch_mixer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

namespace forebay::make {
namespace {

// Keeps the random numbers of batches distinct from those of samples.
constexpr std::uint64_t kMixing = 0x6d6978696e67;

bool is_planar(const TransformOptions& transform) noexcept { return transform.layout == Layout::nchw; }

// base^exponent without the C library's pow(), whose last bits differ between machines. The integer
// part of the exponent is computed by repeated squaring, the fraction by one square root per binary
// digit; a fraction has fewer than 64 digits. REQUIRES: 0 <= base <= 1, 0.001 <= exponent <= 100.
double power(double base, double exponent) noexcept {
  double result = 1;
  double square = base;
  for (auto whole = static_cast<std::uint64_t>(exponent); whole > 0; whole >>= 1U, square *= square) {
    if ((whole & 1U) != 0) result *= square;
  }
  double root = base;
  double rest = exponent - std::floor(exponent);
  while (rest > 0) {
    root = std::sqrt(root);
    rest *= 2;
    if (rest < 1) continue;
    result *= root;
    rest -= 1;
  }
  return result;
}

// A draw from Beta(alpha, alpha). It equals (1 + T / sqrt(2 alpha + T^2)) / 2, where T has
// Student's t-distribution with 2 alpha degrees of freedom. T is drawn by Bailey's polar method
// ("Polar generation of random variates with the t-distribution", 1994):
//   T^2 = 2 alpha (radius^(-1 / alpha) - 1) x^2 / radius
// The fraction is multiplied out so that nothing overflows for a small alpha.
double draw_beta(double alpha, Random& random) noexcept {
  double x = 0;
  double radius = 0;
  while (x == 0 || radius > 1) {
    x = random.uniform(-1, 1);
    const double y = random.uniform(-1, 1);
    radius = x * x + y * y;
  }
  const double spread = power(radius, 1 / alpha);
  const double reach = (1 - spread) * (x * x / radius);
  return (1 + std::copysign(std::sqrt(reach / (spread + reach)), x)) / 2;
}

// A bfloat16 is the upper half of a float. bfloat_of() rounds to nearest, ties to even.
float bfloat_to_float(std::uint16_t bits) noexcept { return std::bit_cast<float>(std::uint32_t{bits} << 16U); }

std::uint16_t bfloat_of(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
}

// A plain loop, which the compiler vectorises. REQUIRES: the rows do not overlap.
template <typename Element, typename Mixed>
void mix_both(std::byte* one, std::byte* other, std::size_t bytes, const Mixed& mixed) noexcept {
  auto* const first = reinterpret_cast<Element*>(one);
  auto* const second = reinterpret_cast<Element*>(other);
  for (std::size_t i = 0; i < bytes / sizeof(Element); ++i) {
    const Element a = first[i];
    const Element b = second[i];
    first[i] = mixed(a, b);
    second[i] = mixed(b, a);
  }
}

}  // namespace

bool is_mixed(const Options& options) noexcept {
  const TransformOptions& transform = options.transform;
  return !options.run.eval && transform.mixup.probability + transform.cutmix.probability > 0;
}

// Only the program knows whether another field is a target. A field that is left unmixed would be
// wrong for half of what a row shows, and nobody would notice; so fields are refused.
Field label_weights(const Dataset& dataset) {
  const std::string or_off = ", or set mixup.probability and cutmix.probability to 0";
  if (!dataset.fields().empty()) {
    throw ConfigError(
        "field \"" + dataset.fields().front().name +
        "\": mixup and CutMix mix images and labels, and this would stay that of one sample: leave it out" + or_off);
  }
  if (dataset.classes().empty()) {
    throw ConfigError(
        "dataset.classes: mixup and CutMix weigh the labels, and this dataset has none or does not say how "
        "many classes they are of: name the classes" +
        or_off);
  }
  return {.name = "label_weights", .shape = {static_cast<std::int64_t>(dataset.classes().size())}};
}

BatchMixer::BatchMixer(const Options& options, const FieldLayout& layout, std::uint32_t views)
    : mixup_(options.transform.mixup),
      cutmix_(options.transform.cutmix),
      seed_(options.seed),
      layout_(&layout),
      views_(views),
      blend_halves_(best_kernels().blend_halves),
      dtype_(options.transform.dtype),
      planes_(static_cast<std::size_t>(std::max<std::int64_t>(options.dataset.clip.frames, 1) *
                                       (is_planar(options.transform) ? options.transform.channels : 1))),
      pixel_bytes_(static_cast<std::size_t>(is_planar(options.transform) ? 1 : options.transform.channels) *
                   size_of(dtype_)) {}

// The order of the draws is part of what a seed means, so it must not change. CutMix: the rectangle
// has the image's aspect ratio and is centred on a random pixel. It is clipped to the image, and
// the share is the area that remains.
BatchMixer::Mixture BatchMixer::draw(const BatchRef& batch) const noexcept {
  Random random(key64(seed_, kMixing, batch.epoch, batch.batch));
  const double kind = random.uniform();
  if (kind < mixup_.probability) return {.share = std::floor(256 * draw_beta(mixup_.alpha, random) + 0.5) / 256};
  if (kind >= mixup_.probability + cutmix_.probability) return {};
  const double side = std::sqrt(draw_beta(cutmix_.alpha, random));
  const auto cut = [&](std::int64_t whole) {
    const auto reach = static_cast<std::int32_t>(static_cast<double>(whole) * side) / 2;
    const auto middle = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(whole)));
    return std::pair(std::max(middle - reach, 0), std::min(middle + reach, static_cast<std::int32_t>(whole)));
  };
  const auto [top, bottom] = cut(layout_->height);
  const auto [left, right] = cut(layout_->width);
  const Box swapped{.left = left, .top = top, .right = right, .bottom = bottom};
  const double area = static_cast<double>(swapped.width()) * swapped.height();
  const double share = area / static_cast<double>(layout_->height * layout_->width);
  return {.share = std::floor(std::ldexp(share, 24) + 0.5) / (1 << 24), .swapped = swapped};
}

// CutMix only swaps bytes, whatever the element type. mixup may blend normalised pixels: because
// the two shares sum to exactly 1, that equals normalising the blend.
void BatchMixer::mix_rows(const Mixture& mixture, std::byte* one, std::byte* other) const noexcept {
  const auto& [share, swapped] = mixture;
  const auto line = static_cast<std::size_t>(layout_->width) * pixel_bytes_;
  const std::size_t plane = static_cast<std::size_t>(layout_->height) * line;
  if (swapped.width() > 0) {
    const std::size_t first = static_cast<std::size_t>(swapped.left) * pixel_bytes_;
    const std::size_t bytes = static_cast<std::size_t>(swapped.width()) * pixel_bytes_;
    for (std::size_t at = 0; at < planes_ * plane; at += plane) {
      for (std::int32_t y = swapped.top; y < swapped.bottom; ++y) {
        const std::size_t begin = at + static_cast<std::size_t>(y) * line + first;
        std::swap_ranges(one + begin, one + begin + bytes, other + begin);
      }
    }
    return;
  }
  const auto added = static_cast<float>(share);
  const float kept = 1 - added;
  const auto mixed = [kept, added](float a, float b) { return kept * a + added * b; };
  switch (dtype_) {
    case DType::uint8: {
      const auto of_256 = static_cast<std::uint32_t>(256 * added);
      return mix_both<std::uint8_t>(one, other, planes_ * plane, [of_256](std::uint32_t a, std::uint32_t b) {
        return static_cast<std::uint8_t>(((256 - of_256) * a + of_256 * b + 128) >> 8U);
      });
    }
    case DType::float16:
      return blend_halves_(reinterpret_cast<std::uint16_t*>(one), reinterpret_cast<std::uint16_t*>(other),
                           planes_ * plane / sizeof(std::uint16_t), added);
    case DType::bfloat16:
      return mix_both<std::uint16_t>(one, other, planes_ * plane, [&](std::uint16_t a, std::uint16_t b) {
        return bfloat_of(mixed(bfloat_to_float(a), bfloat_to_float(b)));
      });
    default: return mix_both<float>(one, other, planes_ * plane, mixed);
  }
}

// A label is -1 or a class: indexes and GuardedDataset see to that.
void BatchMixer::add_weight(std::int64_t label, double weight, std::byte* slot, std::uint32_t row) const {
  const FieldLayout::Entry& entry = layout_->entries.front();
  if (label == -1) return;
  reinterpret_cast<float*>(FieldLayout::values(entry, slot, row).data())[label] += static_cast<float>(weight);
}

// The loop comes to each pair of rows twice and mixes it the first time.
void BatchMixer::mix(const BatchRef& batch, std::span<const std::int64_t> labels, std::byte* slot) const {
  const FieldLayout::Entry& entry = layout_->entries.front();
  const Mixture mixture = draw(batch);
  const std::uint32_t rows = batch.size * views_;
  const std::size_t row_bytes = planes_ * pixel_bytes_ * static_cast<std::size_t>(layout_->height * layout_->width);
  std::fill_n(slot + entry.at, rows * entry.sample_bytes, std::byte{0});
  for (std::uint32_t row = 0; row < rows; ++row) {
    const std::uint32_t other = rows - views_ - row / views_ * views_ + row % views_;
    add_weight(labels[row], 1 - mixture.share, slot, row);
    add_weight(labels[other], mixture.share, slot, row);
    if (mixture.share > 0 && row < other) mix_rows(mixture, slot + row * row_bytes, slot + other * row_bytes);
  }
}

}  // namespace forebay::make
