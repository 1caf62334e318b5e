// A segmentation loop: each batch has images and their masks, cropped and mirrored alike. The model is the smallest
// possible: it counts how often pixels of a colour belong to a class.
//
//   forebay make-dataset shapes --task segmentation --classes 3 --size 96x72
//   segmentation shapes/feed.toml [section.key=value ...]

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <forebay/feeder.hpp>

namespace {

using Counts = std::array<std::uint64_t, 256>;  // of each class

// Calls visit(colour, class) for each pixel; there are 4096 colours.
template <typename Visit>
void for_pixels(const forebay::Lease& batch, std::size_t mask, Visit visit) {
  const forebay::TensorView classes = batch.field(mask);  // [N, H, W], where the images are
  const auto* pixel = batch.images().as<std::uint8_t>();  // [N, H, W, 3]
  const auto* const truth = classes.as<std::uint8_t>();
  for (std::size_t i = 0; i < classes.elements(); ++i, pixel += 3) {
    visit(std::size_t{pixel[0]} / 16 * 256 + pixel[1] / 16 * 16 + pixel[2] / 16, truth[i]);
  }
}

std::size_t most_frequent(const Counts& counts) {
  return static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin());
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> settings(argv + std::min(argc, 2), argv + argc);
  forebay::Options options = forebay::load_options(argc > 1 ? argv[1] : "feed.toml", settings);
  options.device = "host";
  options.transform.layout = forebay::Layout::nhwc;
  options.transform.dtype = forebay::DType::uint8;

  std::vector<Counts> model(4096);
  Counts all{};
  forebay::Feeder feeder(options);
  const std::size_t mask = feeder.field_number("mask");  // looked up once, outside the loop
  while (auto batch = feeder.next()) {
    for_pixels(*batch, mask, [&](std::size_t colour, std::uint8_t truth) {
      ++model[colour][truth];
      ++all[truth];
    });
  }

  options.run = {.epochs = 1, .steps = 0, .eval = true};
  options.dataset.part = 1;  // of dataset.split
  options.transform.crop = forebay::Crop::center;
  forebay::Feeder held_out(options, {.dataset = feeder.shared_dataset()});
  double pixels = 0;
  double right = 0;
  double unseen = 0;  // accuracy of a guess without looking
  const std::size_t usual = most_frequent(all);
  while (auto batch = held_out.next()) {
    for_pixels(*batch, mask, [&](std::size_t colour, std::uint8_t truth) {
      pixels += 1;
      right += most_frequent(model[colour]) == truth ? 1 : 0;
      unseen += usual == truth ? 1 : 0;
    });
  }
  std::printf("held out: %.1f %% of the pixels right; %.1f %% are of the most frequent class\n", 100 * right / pixels,
              100 * unseen / pixels);
  return right > unseen ? 0 : 1;
} catch (const forebay::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
