#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <forebay/feeder.hpp>
#include <forebay/mpi.hpp>

#include "batch.hpp"
#include "cnn.hpp"

namespace train_cnn {

// The weights of a model at one moment.
class Weights {
 public:
  explicit Weights(const Cnn& model) {
    for (const auto& weight : model->parameters()) kept_.push_back(weight.detach().clone());
  }

  void put_into(Cnn& model) const {
    const torch::NoGradGuard no_grad;
    const auto weights = model->parameters();
    for (std::size_t i = 0; i < kept_.size(); ++i) weights[i].copy_(kept_[i]);
  }

 private:
  std::vector<torch::Tensor> kept_;
};

// Held-out accuracy through a second feeder: the validation set, in order, each sample once, never reused.
class Evaluation {
 public:
  // `training`: whose pixels and classes the held-out samples must match.
  Evaluation(const forebay::Feeder& training, const std::string& path) : options_(training.options()) {
    options_.run = {.epochs = 1, .steps = 0, .eval = true};
    options_.dataset.path = path;
    options_.dataset.labels.clear();
    options_.dataset.index.clear();
    options_.dataset.classes = training.dataset().classes();  // the same numbers for the same names
    options_.transform.crop = forebay::Crop::center;
    options_.transform.mirror = 0;
    options_.queue.capacity = 4;
    options_.storage = {};  // the emulated slow store stands before the training data only
    options_.telemetry.dir.clear();
    options_.telemetry.interval_s = 0;
    options_.telemetry.live = forebay::Live::never;
  }

  // Collective: the share of held-out samples that `model` gets right, over all ranks.
  double accuracy(Cnn& model, const forebay::MpiSession& mpi) {
    const auto start = std::chrono::steady_clock::now();
    const torch::NoGradGuard no_grad;
    model->eval();
    std::array<std::int64_t, 2> counts{};  // right, all
    forebay::Feeder feeder(options_, mpi.world(), {.dataset = dataset_});
    dataset_ = feeder.shared_dataset();  // indexed once, kept for the next evaluation
    while (auto batch = feeder.next()) {
      if (batch->size() == 0) continue;  // this rank has none left, others have
      const auto guess = model->forward(images_of(*batch)).argmax(1);
      counts[0] += guess.eq(labels_of(*batch)).sum().item<std::int64_t>();
      counts[1] += batch->size();
    }
    model->train();
    MPI_Allreduce(MPI_IN_PLACE, counts.data(), 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    samples_ = counts[1];
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return static_cast<double>(counts[0]) / static_cast<double>(counts[1]);
  }

  // Samples that the last accuracy() is of.
  [[nodiscard]] std::int64_t samples() const noexcept { return samples_; }
  // Time spent in accuracy() so far.
  [[nodiscard]] double seconds() const noexcept { return seconds_; }

 private:
  forebay::Options options_;
  std::shared_ptr<const forebay::Dataset> dataset_;
  std::int64_t samples_ = 0;
  double seconds_ = 0;
};

}  // namespace train_cnn
