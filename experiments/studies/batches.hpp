#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include <torch/torch.h>
#include <forebay/feeder.hpp>

// What a step is made of, where it is not what a feeder serves.
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

// The steps of a job of several nodes: each takes one batch from the part of the epoch that is each node's, and
// averages over them. A whole epoch is held, in the order in which a single rank is served it: part after part.
class NodeBatches {
 public:
  // `by_class`: parts are not those of the order, but pieces of the epoch sorted by class, as if data that lie class by
  // class were cut into pieces, each shuffled.
  NodeBatches(std::size_t nodes, bool by_class) : nodes_(nodes), by_class_(by_class) {}

  // The nodes' batches one after the other. REQUIRES: the feeder has no end and batches of equal size.
  Batch draw(forebay::Feeder& feeder) {
    if (step_ == steps_) fetch(feeder);
    std::vector<torch::Tensor> images;
    std::vector<torch::Tensor> labels;
    for (std::size_t node = 0; node < nodes_; ++node) {
      const std::size_t batch = node * epoch_.size() / nodes_ + step_;  // a part is one batch longer than another
      images.push_back(epoch_[batch].images);
      labels.push_back(epoch_[batch].labels);
    }
    ++step_;
    return {.images = torch::cat(images), .labels = torch::cat(labels)};
  }

 private:
  void fetch(forebay::Feeder& feeder) {
    epoch_.clear();
    if (!feeder.next_epoch()) throw forebay::Error("the feeder has come to an end");
    while (const auto lease = feeder.next()) {
      const Batch batch = batch_of(*lease);
      epoch_.push_back({.images = batch.images.clone(), .labels = batch.labels.clone()});
    }
    if (by_class_) sort();
    steps_ = epoch_.size() / nodes_;
    step_ = 0;
    if (steps_ == 0) throw forebay::Error("--nodes: an epoch has fewer batches");
  }

  void sort() {
    std::vector<torch::Tensor> images;
    std::vector<torch::Tensor> labels;
    for (const Batch& batch : epoch_) {
      images.push_back(batch.images);
      labels.push_back(batch.labels);
    }
    const torch::Tensor all = torch::cat(labels);
    const torch::Tensor by_class = std::get<1>(torch::sort(all, /*stable=*/true, 0, /*descending=*/false));
    // Each piece in an order of its own: that of the epoch, which is a shuffle.
    const auto piece = [&](std::size_t node) {
      const auto border = [&](std::size_t of) {
        return static_cast<std::int64_t>(of * epoch_.size() / nodes_) * epoch_[0].labels.size(0);
      };
      return std::get<0>(torch::sort(by_class.slice(0, border(node), border(node + 1))));
    };
    std::vector<torch::Tensor> pieces;
    for (std::size_t node = 0; node < nodes_; ++node) pieces.push_back(piece(node));
    const torch::Tensor order = torch::cat(pieces);
    const auto batches = static_cast<std::int64_t>(epoch_.size());
    const auto sorted_images = torch::cat(images).index_select(0, order).chunk(batches);
    const auto sorted_labels = all.index_select(0, order).chunk(batches);
    for (std::size_t i = 0; i < epoch_.size(); ++i) epoch_[i] = {sorted_images[i], sorted_labels[i]};
  }

  std::size_t nodes_;
  bool by_class_;
  std::vector<Batch> epoch_;
  std::size_t step_ = 0;
  std::size_t steps_ = 0;
};

}  // namespace study
