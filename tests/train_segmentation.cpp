// A trainer on two ranks learns the class of each pixel from masks that follow their images' crops and mirrors.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
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

constexpr std::size_t kClasses = 4;  // background, circle, square, triangle

// How often a pixel of one class was taken for another.
class Confusion {
 public:
  void add(std::size_t truth, std::size_t guess) { counts_[truth * kClasses + guess] += 1; }
  void sum_over_ranks() { testing::sum_over_ranks(counts_); }

  [[nodiscard]] double accuracy() const {
    double right = 0;
    for (std::size_t i = 0; i < kClasses; ++i) right += counts_[i * kClasses + i];
    return right / all();
  }
  // Of the background, the largest class: what a model is right in that has learned nothing.
  [[nodiscard]] double share_of_background() const { return of_truth(0) / all(); }
  // The mean over the classes of what is right of all that is the class or was taken for it.
  [[nodiscard]] double mean_iou() const {
    double sum = 0;
    for (std::size_t i = 0; i < kClasses; ++i) {
      double guessed = 0;
      for (std::size_t truth = 0; truth < kClasses; ++truth) guessed += counts_[truth * kClasses + i];
      const double right = counts_[i * kClasses + i];
      sum += right / std::max(of_truth(i) + guessed - right, 1.0);
    }
    return sum / kClasses;
  }

 private:
  [[nodiscard]] double of_truth(std::size_t truth) const {
    double sum = 0;
    for (std::size_t i = 0; i < kClasses; ++i) sum += counts_[truth * kClasses + i];
    return sum;
  }
  [[nodiscard]] double all() const {
    double sum = 0;
    for (const double count : counts_) sum += count;
    return sum;
  }

  std::array<double, kClasses * kClasses> counts_{};
};

// Calls visit(sample, colour, class) for each pixel of a batch.
template <typename Visit>
void for_pixels(const Lease& batch, std::size_t mask, Visit visit) {
  const TensorView classes = batch.field(mask);
  const auto pixels = static_cast<std::size_t>(classes.shape[1] * classes.shape[2]);
  const auto* colour = batch.images().as<float>();
  const auto* truth = classes.as<std::uint8_t>();
  for (std::size_t i = 0; i < batch.size() * pixels; ++i, colour += 3, ++truth) {
    visit(i / pixels, std::array<double, 3>{colour[0], colour[1], colour[2]}, std::size_t{*truth});
  }
}

Network train(const Options& options) {
  Network network({.inputs = 3, .hidden = 12, .outputs = kClasses}, 1);
  Feeder feeder(options, world());
  const std::size_t mask = feeder.field_number("mask");
  while (auto batch = feeder.next()) {
    for_pixels(*batch, mask, [&](std::size_t, const auto& colour, std::size_t truth) {
      std::vector<double> off = testing::softmax(network.forward(colour));
      off[truth] -= 1;
      network.backward(off);
    });
    network.step(0.03);
  }
  feeder.close();
  return network;
}

// Of mirrored views, and of all others.
std::array<Confusion, 2> judge(Network& network, const Options& options) {
  std::array<Confusion, 2> found;
  Feeder feeder(options, world());
  const std::size_t mask = feeder.field_number("mask");
  while (auto batch = feeder.next()) {
    const std::vector<SampleView> views = batch->views();
    for_pixels(*batch, mask, [&](std::size_t sample, const auto& colour, std::size_t truth) {
      const auto scores = network.forward(colour);
      const auto guess = static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
      found[views[sample].mirror ? 0 : 1].add(truth, guess);
    });
  }
  feeder.close();
  for (Confusion& each : found) each.sum_over_ranks();
  return found;
}

std::string figures(const Confusion& found) {
  return "pixel accuracy " + std::to_string(found.accuracy()) + " (background is " +
         std::to_string(found.share_of_background()) + "), mean IoU " + std::to_string(found.mean_iou());
}

void check_learned(const Confusion& found) {
  CAPTURE(figures(found));
  // All background would be right in about 0.74 of the pixels, with a mean IoU of 0.19.
  CHECK(found.accuracy() > 0.92);
  CHECK(found.accuracy() > found.share_of_background() + 0.1);
  CHECK(found.mean_iou() > 0.77);
}

Options training() {
  static const GeneratedData data({"--task", "segmentation", "--images", "200", "--classes", "3", "--objects", "3",
                                   "--size", "72x54", "--seed", "5"});
  Options options = data.options();
  options.transform.size = {27, 36};
  return options;
}

}  // namespace

TEST_CASE("a segmenter of two ranks learns, and is right in views of every kind") {
  Options options = training();
  options.run.epochs = 5;
  Network network = train(options);
  CHECK(network.is_equal_on_all_ranks());
  const Confusion central = judge(network, testing::held_out(options))[1];
  check_learned(central);
  const auto random = judge(network, testing::held_out_in_random_views(options));
  for (const Confusion& each : random) check_learned(each);
  MESSAGE("held out: ", figures(central), "; mirrored: ", figures(random[0]), "; not: ", figures(random[1]));
}

TEST_CASE("a trainer ends with the same weights whatever the number of threads") {
  Options options = training();
  options.workers.io = options.workers.decode = 1;
  const Network alone = train(options);
  options.workers.io = options.workers.decode = 3;
  CHECK(train(options).weights() == alone.weights());
}

}  // namespace forebay
