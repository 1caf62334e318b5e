// A trainer on two ranks learns which classes an image shows, from the labels of a table.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <forebay/feeder.hpp>

#include "mpi_world.hpp"
#include "trainer.hpp"

namespace forebay {
namespace {

using testing::GeneratedData;
using testing::Network;
using testing::world;

constexpr std::size_t kLabels = 4;
constexpr std::size_t kSteps = 4;  // of each channel of a histogram

// How much of a sample has which colour: the square roots of the shares of kSteps^3 colours. Pixels are 0 to 1.
std::vector<double> histogram(const Lease& batch, std::size_t sample) {
  const TensorView images = batch.images();
  const auto pixels = static_cast<std::size_t>(images.shape[1] * images.shape[2]);
  const float* colour = images.as<float>() + sample * pixels * 3;
  std::vector<double> shares(kSteps * kSteps * kSteps);
  for (std::size_t i = 0; i < pixels; ++i) {
    std::size_t bin = 0;
    for (std::size_t c = 0; c < 3; ++c, ++colour) {
      const auto step = static_cast<std::size_t>(std::max(*colour, 0.0F) * static_cast<float>(kSteps));
      bin = bin * kSteps + std::min(step, kSteps - 1);
    }
    shares[bin] += 1 / static_cast<double>(pixels);
  }
  for (double& share : shares) share = std::sqrt(share);
  return shares;
}

Network train(const Options& options) {
  Network network({.inputs = kSteps * kSteps * kSteps, .hidden = 12, .outputs = kLabels}, 1);
  Feeder feeder(options, world());
  const std::size_t labels = feeder.field_number("labels");
  while (auto batch = feeder.next()) {
    const auto* truth = batch->field(labels).as<float>();
    for (std::size_t i = 0; i < batch->size(); ++i, truth += kLabels) {
      const auto scores = network.forward(histogram(*batch, i));
      std::array<double, kLabels> off{};
      for (std::size_t k = 0; k < kLabels; ++k) off[k] = 1 / (1 + std::exp(-scores[k])) - truth[k];
      network.backward(off);
    }
    network.step(0.03);
  }
  feeder.close();
  return network;
}

// Of one label.
struct Judged {
  double right = 0;  // found where it applies
  double found = 0;
  double applies = 0;
  double samples = 0;

  [[nodiscard]] double f1() const { return 2 * right / std::max(found + applies, 1.0); }
  // Of a model that finds it everywhere, which is the best without looking.
  [[nodiscard]] double trivial_f1() const { return 2 * applies / (samples + applies); }
};

std::array<Judged, kLabels> judge(Network& network, const Options& options) {
  std::array<Judged, kLabels> judged;
  Feeder feeder(options, world());
  const std::size_t labels = feeder.field_number("labels");
  while (auto batch = feeder.next()) {
    const auto* truth = batch->field(labels).as<float>();
    for (std::size_t i = 0; i < batch->size(); ++i, truth += kLabels) {
      const auto scores = network.forward(histogram(*batch, i));
      for (std::size_t k = 0; k < kLabels; ++k) {
        const bool is_found = scores[k] > 0;
        judged[k].found += is_found ? 1 : 0;
        judged[k].applies += truth[k];
        judged[k].right += is_found ? truth[k] : 0;
        judged[k].samples += 1;
      }
    }
  }
  feeder.close();
  for (Judged& label : judged) {
    std::array<double, 4> sums{label.right, label.found, label.applies, label.samples};
    testing::sum_over_ranks(sums);
    label = {.right = sums[0], .found = sums[1], .applies = sums[2], .samples = sums[3]};
  }
  return judged;
}

}  // namespace

TEST_CASE("a tagger of two ranks learns each label") {
  const GeneratedData data({"--task", "multilabel", "--images", "320", "--classes", "4", "--objects", "3", "--size",
                            "72x54", "--seed", "6"});
  Options options = data.options();
  options.run.epochs = 8;
  options.transform.size = {27, 36};
  options.transform.scale = {0.8, 1.0};  // what is cut off must not be what the label is about
  options.transform.mean = {0, 0, 0};
  options.transform.std = {255, 255, 255};
  Network network = train(options);
  CHECK(network.is_equal_on_all_ranks());
  std::string figures;
  for (const Judged& label : judge(network, testing::held_out(options))) {
    figures += " " + std::to_string(label.f1()) + " (" + std::to_string(label.trivial_f1()) + ")";
    CHECK(label.samples > 40);
    CHECK(label.f1() > 0.85);
    CHECK(label.f1() > label.trivial_f1() + 0.15);
  }
  MESSAGE("F1 of each label, and of saying yes always:", figures);
}

}  // namespace forebay
