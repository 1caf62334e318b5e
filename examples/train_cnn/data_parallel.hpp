#pragma once

#include <chrono>
#include <vector>

#include <torch/torch.h>
#include <forebay/mpi.hpp>

namespace train_cnn {

// Keeps the replicas of a model equal on all ranks: the same weights at the start, the mean gradient at every step.
class DataParallel {
 public:
  // Collective: every rank gets rank 0's weights.
  DataParallel(const torch::nn::Module& model, MPI_Comm comm) : comm_(comm) {
    MPI_Comm_size(comm_, &ranks_);
    const torch::NoGradGuard no_grad;
    std::int64_t elements = 0;
    for (const auto& weight : model.parameters()) {
      MPI_Bcast(weight.data_ptr<float>(), static_cast<int>(weight.numel()), MPI_FLOAT, 0, comm_);
      elements += weight.numel();
    }
    // All gradients are views of one buffer, so that backward() fills what a single all-reduce averages.
    gradients_ = torch::zeros({elements});
    std::int64_t offset = 0;
    for (auto& weight : model.parameters()) {
      weight.mutable_grad() = gradients_.narrow(0, offset, weight.numel()).view_as(weight);
      offset += weight.numel();
    }
  }

  void zero_gradients() { gradients_.zero_(); }

  // Collective. Gradients become their mean over the ranks.
  void average_gradients() {
    if (ranks_ == 1) return;
    const auto start = std::chrono::steady_clock::now();
    MPI_Allreduce(MPI_IN_PLACE, gradients_.data_ptr<float>(), static_cast<int>(gradients_.numel()), MPI_FLOAT, MPI_SUM,
                  comm_);
    allreduce_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    gradients_.div_(ranks_);
  }

  // Collective: rank 0's value, on every rank.
  [[nodiscard]] double of_first_rank(double value) const {
    MPI_Bcast(&value, 1, MPI_DOUBLE, 0, comm_);
    return value;
  }

  // Time spent in the all-reduces, waiting for slower ranks included.
  [[nodiscard]] double allreduce_s() const noexcept { return allreduce_s_; }

 private:
  MPI_Comm comm_;
  int ranks_ = 1;
  torch::Tensor gradients_;
  double allreduce_s_ = 0;
};

}  // namespace train_cnn
