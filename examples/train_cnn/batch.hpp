#pragma once

#include <cstdint>

#include <torch/torch.h>
#include <forebay/lease.hpp>

namespace train_cnn {

// The tensors are views of the lease's memory: nothing is copied, they are valid while the lease is held, and they
// must not be written to, since a reuse serves the same bytes.
inline torch::Tensor images_of(const forebay::Lease& batch) {
  const auto view = batch.images();
  const at::IntArrayRef shape(view.shape.data(), view.shape.size());
  return torch::from_blob(const_cast<float*>(view.as<float>()), shape, torch::kFloat32);
}

inline torch::Tensor labels_of(const forebay::Lease& batch) {
  const auto labels = batch.labels();
  return torch::from_blob(const_cast<std::int64_t*>(labels.data()), {static_cast<std::int64_t>(labels.size())},
                          torch::kInt64);
}

}  // namespace train_cnn
