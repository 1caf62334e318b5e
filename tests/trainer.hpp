#pragma once

#include <forebay/feeder.hpp>

#include "support.hpp"

// Shared by tests that train: generated data, a model small enough for a test, and gradients
// averaged over the ranks of MPI_COMM_WORLD.
namespace forebay::testing {

// A dataset that `forebay make-dataset` makes on rank 0, for all ranks. The constructor is
// collective.
class GeneratedData {
 public:
  // `arguments`: those after the folder, such as "--task", "segmentation".
  explicit GeneratedData(const std::vector<std::string>& arguments);

  // The options in the generated feed.toml, for a trainer whose batches depend only on the seed:
  // every batch is fresh, and pixels are NHWC.
  [[nodiscard]] Options options() const;

 private:
  std::optional<TemporaryDirectory> folder_;  // on rank 0
  std::string path_;
};

// Options for the held-out part in order, each sample once, in central views.
[[nodiscard]] Options held_out(Options options);
// Options for the held-out part in views as random as in training, which exposes targets that do
// not follow the views.
[[nodiscard]] Options held_out_in_random_views(Options options);

// Collective: the sums over all ranks, on all ranks.
void sum_over_ranks(std::span<double> values);

// A network with one hidden tanh layer and linear outputs. All ranks start with the same weights,
// and step() keeps them equal.
class Network {
 public:
  struct Sizes {
    std::size_t inputs = 0;
    std::size_t hidden = 0;
    std::size_t outputs = 0;
  };
  Network(const Sizes& sizes, std::uint64_t seed);

  // The outputs, valid until the next call. REQUIRES: inputs.size() is sizes.inputs.
  [[nodiscard]] std::span<const double> forward(std::span<const double> inputs);
  // Backpropagates the gradient of a loss with respect to the outputs of the last forward(), adds
  // the weights' gradient, and counts one example.
  void backward(std::span<const double> of_outputs);
  // Collective. One step of Adam (Kingma and Ba, 2015) down the mean gradient of all examples of all ranks.
  void step(double rate);

  // All weights.
  [[nodiscard]] const std::vector<double>& weights() const noexcept { return weights_; }
  // Collective.
  [[nodiscard]] bool is_equal_on_all_ranks() const;

 private:
  [[nodiscard]] std::size_t second_layer() const noexcept { return (sizes_.inputs + 1) * sizes_.hidden; }

  Sizes sizes_;
  std::vector<double> weights_;   // for each unit its weights and then its bias; the hidden units first
  std::vector<double> gradient_;  // gradient of the weights, then the number of examples
  std::vector<double> mean_;      // mean of gradients
  std::vector<double> square_;    // mean of squared gradients
  double steps_ = 0;
  std::vector<double> inputs_;
  std::vector<double> hidden_;
  std::vector<double> outputs_;
  std::vector<double> of_hidden_;
};

// The probabilities of classes with these scores.
[[nodiscard]] std::vector<double> softmax(std::span<const double> scores);

}  // namespace forebay::testing
