#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <torch/torch.h>
#include <forebay/config.hpp>
#include <forebay/feeder.hpp>

#include "echo.hpp"

namespace study {

// The weights of a net at one moment.
class Weights {
 public:
  explicit Weights(torch::nn::Sequential& net) {
    for (const auto& weight : net->parameters()) kept_.push_back(weight.detach().clone());
  }
  void put_into(torch::nn::Sequential& net) const {
    const torch::NoGradGuard no_grad;
    const auto weights = net->parameters();
    for (std::size_t i = 0; i < kept_.size(); ++i) weights[i].copy_(kept_[i]);
  }

 private:
  std::vector<torch::Tensor> kept_;
};

// The held-out samples: decoded once, centre-cropped, in memory.
class HeldOut {
 public:
  // `options`: of training, with what is different for these data already in it.
  explicit HeldOut(forebay::Options options) {
    options.run = {.epochs = 1, .steps = 0, .eval = true};
    options.dataset.batch_size = 250;
    options.transform.crop = forebay::Crop::center;
    options.transform.center_fraction = 1;
    options.transform.mirror = 0;
    options.transform.when = forebay::When::enqueue;
    options.policy = {};
    options.storage = {};
    options.telemetry.dir.clear();
    forebay::Feeder feeder(std::move(options));
    while (auto lease = feeder.next()) {
      const Batch batch = batch_of(*lease);
      batches_.push_back({.images = batch.images.clone(), .labels = batch.labels.clone()});
      samples_ += lease->size();
    }
  }

  [[nodiscard]] std::int64_t samples() const noexcept { return samples_; }

  // How many of them the net gets right.
  [[nodiscard]] std::int64_t right(torch::nn::Sequential& net) const {
    const torch::NoGradGuard no_grad;
    std::int64_t right = 0;
    for (const Batch& batch : batches_) {
      right += net->forward(batch.images).argmax(1).eq(batch.labels).sum().item<std::int64_t>();
    }
    return right;
  }

 private:
  std::vector<Batch> batches_;
  std::int64_t samples_ = 0;
};

}  // namespace study
