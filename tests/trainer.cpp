#include <forebay/mpi.hpp>

#include "mpi_world.hpp"
#include "process.hpp"
#include "test.hpp"
#include "trainer.hpp"

namespace forebay::testing {

GeneratedData::GeneratedData(const std::vector<std::string>& arguments) {
  if (world().rank() == 0) {
    folder_.emplace();
    path_ = (*folder_ / "data").string();
    std::vector<std::string> command{"make-dataset", path_};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const Ended made = run_command(command);
    CHECK_MESSAGE(made.code == 0, made.output);
  }
  const auto communicator = world().duplicate();
  path_ = communicator->all_gather(path_).front();
}

Options GeneratedData::options() const {
  Options options = load_options(path_ + "/feed.toml", world());
  options.device = "host";
  options.dataset.batch_size = 8;
  options.transform.layout = Layout::nhwc;
  options.policy.name = "block";
  options.telemetry.interval_s = 0;
  return options;
}

Options held_out(Options options) {
  options.dataset.part = 1;
  options.run = {.eval = true};
  options.transform.crop = Crop::center;
  return options;
}

Options held_out_in_random_views(Options options) {
  options.dataset.part = 1;
  options.run.epochs = 2;
  ++options.seed;
  return options;
}

void sum_over_ranks(std::span<double> values) {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

Network::Network(const Sizes& sizes, std::uint64_t seed)
    : sizes_(sizes), hidden_(sizes.hidden), outputs_(sizes.outputs), of_hidden_(sizes.hidden) {
  weights_.resize(second_layer() + (sizes.hidden + 1) * sizes.outputs);
  gradient_.resize(weights_.size() + 1);
  mean_.resize(weights_.size());
  square_.resize(weights_.size());
  Random random(seed);
  const double first = 1 / std::sqrt(static_cast<double>(sizes.inputs));
  const double second = 1 / std::sqrt(static_cast<double>(sizes.hidden));
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const double scale = i < second_layer() ? first : second;
    weights_[i] = random.uniform(-scale, scale);
  }
}

std::span<const double> Network::forward(std::span<const double> inputs) {
  inputs_.assign(inputs.begin(), inputs.end());
  const double* weight = weights_.data();
  for (double& unit : hidden_) {
    unit = std::inner_product(inputs.begin(), inputs.end(), weight, weight[sizes_.inputs]);
    unit = std::tanh(unit);
    weight += sizes_.inputs + 1;
  }
  for (double& output : outputs_) {
    output = std::inner_product(hidden_.begin(), hidden_.end(), weight, weight[sizes_.hidden]);
    weight += sizes_.hidden + 1;
  }
  return outputs_;
}

void Network::backward(std::span<const double> of_outputs) {
  const double* weight = weights_.data() + second_layer();
  double* gradient = gradient_.data() + second_layer();
  std::ranges::fill(of_hidden_, 0.0);
  for (const double of_output : of_outputs) {
    for (std::size_t i = 0; i < sizes_.hidden; ++i) {
      gradient[i] += of_output * hidden_[i];
      of_hidden_[i] += of_output * weight[i];
    }
    gradient[sizes_.hidden] += of_output;
    weight += sizes_.hidden + 1;
    gradient += sizes_.hidden + 1;
  }
  gradient = gradient_.data();
  for (std::size_t i = 0; i < sizes_.hidden; ++i) {
    const double of_sum = of_hidden_[i] * (1 - hidden_[i] * hidden_[i]);
    for (std::size_t j = 0; j < sizes_.inputs; ++j) gradient[j] += of_sum * inputs_[j];
    gradient[sizes_.inputs] += of_sum;
    gradient += sizes_.inputs + 1;
  }
  gradient_.back() += 1;
}

void Network::step(double rate) {
  constexpr double kMeanDecay = 0.9;
  constexpr double kSquareDecay = 0.99;
  constexpr double kTiny = 1e-8;
  sum_over_ranks(gradient_);
  steps_ += 1;
  const double examples = std::max(gradient_.back(), 1.0);
  const double corrected = rate * std::sqrt(1 - std::pow(kSquareDecay, steps_)) / (1 - std::pow(kMeanDecay, steps_));
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const double gradient = gradient_[i] / examples;
    mean_[i] += (1 - kMeanDecay) * (gradient - mean_[i]);
    square_[i] += (1 - kSquareDecay) * (gradient * gradient - square_[i]);
    weights_[i] -= corrected * mean_[i] / (std::sqrt(square_[i]) + kTiny);
  }
  std::ranges::fill(gradient_, 0.0);
}

bool Network::is_equal_on_all_ranks() const {
  std::vector<double> of_first = weights_;
  MPI_Bcast(of_first.data(), static_cast<int>(of_first.size()), MPI_DOUBLE, 0, MPI_COMM_WORLD);
  int is_equal = of_first == weights_ ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &is_equal, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return is_equal == 1;
}

std::vector<double> softmax(std::span<const double> scores) {
  const double most = *std::ranges::max_element(scores);
  std::vector<double> shares;
  double sum = 0;
  for (const double score : scores) sum += shares.emplace_back(std::exp(score - most));
  for (double& share : shares) share /= sum;
  return shares;
}

}  // namespace forebay::testing
