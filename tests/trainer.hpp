#pragma once

#include <forebay/feeder.hpp>

#include "support.hpp"

// What the trainers among the tests share: generated data, a model small enough for a test, and gradients averaged over
// the ranks of MPI_COMM_WORLD.
namespace forebay::testing {

// What `forebay make-dataset` has made on rank 0, for all ranks. The constructor is collective.
class GeneratedData {
 public:
  // Arguments behind the folder: "--task", "segmentation", ...
  explicit GeneratedData(const std::vector<std::string>& arguments);

  // Of the feed.toml that lies beside the data, for a trainer whose batches depend on the seed alone: every batch is
  // fresh. Pixels come as NHWC.
  [[nodiscard]] Options options() const;

 private:
  std::optional<TemporaryDirectory> folder_;  // on rank 0
  std::string path_;
};

// The held-out part in order, each sample once, in central views.
[[nodiscard]] Options held_out(Options options);
// The held-out part in views as random as those of training: targets that do not follow them give it away.
[[nodiscard]] Options held_out_in_random_views(Options options);

// Collective: the sums over all ranks, on all ranks.
void sum_over_ranks(std::span<double> values);

// A layer of tanh between inputs and linear outputs. Every rank has the same numbers at the start, and by step() keeps
// them.
class Network {
 public:
  struct Sizes {
    std::size_t inputs = 0;
    std::size_t hidden = 0;
    std::size_t outputs = 0;
  };
  Network(const Sizes& sizes, std::uint64_t seed);

  // The outputs, valid until the next call. REQUIRES: as many inputs as there are.
  [[nodiscard]] std::span<const double> forward(std::span<const double> inputs);
  // Adds the gradient of a loss, given by that of the outputs of the last forward(), and counts one example.
  void backward(std::span<const double> of_outputs);
  // Collective. One step of Adam (Kingma and Ba, 2015) down the mean gradient of all examples of all ranks.
  void step(double rate);

  // Every number that is learned.
  [[nodiscard]] const std::vector<double>& weights() const noexcept { return weights_; }
  // Collective.
  [[nodiscard]] bool is_equal_on_all_ranks() const;

 private:
  [[nodiscard]] std::size_t second_layer() const noexcept { return (sizes_.inputs + 1) * sizes_.hidden; }

  Sizes sizes_;
  std::vector<double> weights_;   // rows of a unit's weights, its bias last; the hidden units first
  std::vector<double> gradient_;  // of the weights, then the number of examples
  std::vector<double> mean_;      // of gradients
  std::vector<double> square_;    // of gradients, elementwise
  double steps_ = 0;
  std::vector<double> inputs_;
  std::vector<double> hidden_;
  std::vector<double> outputs_;
  std::vector<double> of_hidden_;
};

// The probabilities of classes whose scores these are.
[[nodiscard]] std::vector<double> softmax(std::span<const double> scores);

}  // namespace forebay::testing
