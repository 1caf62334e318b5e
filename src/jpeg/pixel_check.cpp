// Decides at the start of a run whether Forebay's own JPEG decoder may be used. The linked
// libjpeg-turbo encodes and decodes a few images of noise. The pixel stage computes pixels from the
// same coefficients with each set of kernels. The first set whose pixels are equal, byte for byte,
// is trusted. This takes a few milliseconds, on the thread that starts the run. It is needed
// because libjpeg-turbo's pixels are the contract, and distributions build it with different
// options and patches.

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "libjpeg_images.hpp"
#include "pixel_stage.hpp"

namespace forebay::jpeg {
namespace {

// Sampling factors for which libjpeg upsamples differently; wide enough that vector code sees more
// than an edge.
constexpr std::array<NoiseImage, 7> kTrials{{{.width = 83, .height = 19, .grey = true},
                                             {.width = 83, .height = 19},
                                             {.width = 91, .height = 35, .h = 2, .quality = 40},
                                             {.width = 91, .height = 35, .h = 2, .v = 2},
                                             {.width = 83, .height = 35, .v = 2, .quality = 95},
                                             {.width = 70, .height = 21, .h = 4},
                                             {.width = 83, .height = 19, .quality = 100}}};

class PackedRows final : public RgbRows {
 public:
  PackedRows(std::int32_t width, std::int32_t height)
      : row_size_(static_cast<std::size_t>(width) * 3), pixels_(row_size_ * static_cast<std::size_t>(height)) {}
  std::uint8_t* row(std::int32_t y) override { return pixels_.data() + row_size_ * static_cast<std::size_t>(y); }
  [[nodiscard]] const std::vector<std::uint8_t>& pixels() const noexcept { return pixels_; }

 private:
  std::size_t row_size_;
  std::vector<std::uint8_t> pixels_;
};

struct Trial {
  LibjpegCoefficients coefficients;
  std::vector<std::uint8_t> pixels;
};

// Empty if libjpeg-turbo itself fails: without a reference nothing is trusted.
std::vector<Trial> make_trials() {
  std::vector<Trial> trials(kTrials.size());
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const auto file = encoded_noise(kTrials[i]);
    trials[i].pixels = decoded_by_libjpeg(file, false);
    if (trials[i].pixels.empty() || !trials[i].coefficients.open(file)) return {};
  }
  return trials;
}

bool agrees(PixelStage& stage, Trial& trial) {
  const JpegFrame& frame = trial.coefficients.frame();
  PackedRows rows(frame.width, frame.height);
  return PixelStage::serves(frame, PixelStage::Colours::all) &&
         stage.decode(frame, {0, 0, frame.width, frame.height}, PixelStage::Colours::all, trial.coefficients, rows) &&
         rows.pixels() == trial.pixels;
}

}  // namespace

const PixelKernels* trusted_pixel_kernels() { return trusted_pixel_kernels(supported_pixel_kernels()); }

const PixelKernels* trusted_pixel_kernels(std::span<const PixelKernels> candidates) {
  auto trials = make_trials();
  if (trials.empty()) return nullptr;
  for (const PixelKernels& kernels : candidates) {
    PixelStage stage(kernels);
    if (std::ranges::all_of(trials, [&](Trial& trial) { return agrees(stage, trial); })) return &kernels;
  }
  return nullptr;
}

PixelKernelChoice choose_pixel_kernels() { return choose_pixel_kernels(supported_pixel_kernels()); }

// The plain loops give the right pixels but are slower than libjpeg-turbo's vector code, so they
// are not used. Whether they are trusted decides which reason is given.
PixelKernelChoice choose_pixel_kernels(std::span<const PixelKernels> candidates) {
  const PixelKernels* const trusted = trusted_pixel_kernels(candidates);
  if (trusted == nullptr)
    return {.kernels = nullptr, .reason = "the one that is installed gives other pixels than Forebay's own decoder"};
  const auto is_plain = [](const PixelKernels& kernels) {
    return kernels.transform == scalar_pixel_kernels().transform;
  };
  if (is_plain(*trusted)) {
    return {.kernels = nullptr,
            .reason = std::ranges::all_of(candidates, is_plain)
                          ? "Forebay's own decoder has no vector code for this processor and would be slower"
                          : "Forebay's own decoder gives other pixels with vector code than without it on this "
                            "processor, and without it would be slower"};
  }
  return {.kernels = trusted, .reason = {}};
}

}  // namespace forebay::jpeg
