#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <torch/torch.h>
#include <forebay/feeder.hpp>

namespace study {

struct Batch {
  torch::Tensor images;
  torch::Tensor labels;
};

// Views of the lease's memory, valid while it is held.
inline Batch batch_of(const forebay::Lease& lease) {
  const auto view = lease.images();
  const at::IntArrayRef shape(view.shape.data(), view.shape.size());
  return {.images = torch::from_blob(const_cast<float*>(view.as<float>()), shape, torch::kFloat32),
          .labels = torch::from_blob(const_cast<std::int64_t*>(lease.labels().data()),
                                     {static_cast<std::int64_t>(lease.labels().size())}, torch::kInt64)};
}

// Example-level data echoing (Choi et al., "Faster neural network training with data echoing", 2019), after
// augmentation: each example enters a shuffle buffer `factor` times, and batches are drawn from the full buffer.
class EchoBuffer {
 public:
  EchoBuffer(std::size_t factor, std::size_t size, std::uint64_t seed) : factor_(factor), size_(size), random_(seed) {}

  // A batch of as many examples as a batch of the feeder has. REQUIRES: the feeder has no end.
  Batch draw(forebay::Feeder& feeder) {
    const auto batch_size = static_cast<std::size_t>(feeder.options().dataset.batch_size);
    std::vector<torch::Tensor> images;
    std::vector<std::int64_t> labels;
    for (std::size_t i = 0; i < batch_size; ++i) {
      while (examples_.size() < size_) examples_.push_back(next_echo(feeder));
      // Fewer than 2^32 examples: the bias of the remainder is below 1e-9, and it is the same with every library.
      std::swap(examples_[random_() % examples_.size()], examples_.back());
      images.push_back(examples_.back().image);
      labels.push_back(examples_.back().label);
      examples_.pop_back();
    }
    return {.images = torch::stack(images), .labels = torch::tensor(labels, torch::kInt64)};
  }

 private:
  struct Example {
    torch::Tensor image;
    std::int64_t label = 0;
  };

  Example next_echo(forebay::Feeder& feeder) {
    if (echoes_left_ == 0) {
      if (upstream_.empty()) fetch(feeder);
      current_ = upstream_.back();
      upstream_.pop_back();
      echoes_left_ = factor_;
    }
    --echoes_left_;
    return current_;
  }

  void fetch(forebay::Feeder& feeder) {
    const auto lease = feeder.next();
    const Batch batch = batch_of(*lease);
    const torch::Tensor images = batch.images.clone();
    for (std::int64_t i = 0; i < images.size(0); ++i) {
      upstream_.push_back({.image = images[i], .label = batch.labels[i].item<std::int64_t>()});
    }
  }

  std::size_t factor_;
  std::size_t size_;
  std::mt19937_64 random_;
  std::vector<Example> examples_;  // in the buffer
  std::vector<Example> upstream_;  // of the latest fresh batch, not yet in it
  Example current_;
  std::size_t echoes_left_ = 0;
};

}  // namespace study
