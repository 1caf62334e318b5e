#pragma once

#include <cstdint>

#include <torch/torch.h>

namespace train_cnn {

// Three convolution blocks, an average over what is left of the image, one linear layer: any image size from 8 x 8.
// Group normalisation, because running statistics of a batch would differ between ranks.
struct CnnImpl : torch::nn::Module {
  explicit CnnImpl(std::int64_t classes) {
    layers = torch::nn::Sequential();
    std::int64_t channels = 3;
    for (const std::int64_t width : {16, 32, 64}) {
      layers->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, width, 3).padding(1).bias(false)));
      layers->push_back(torch::nn::GroupNorm(torch::nn::GroupNormOptions(4, width)));
      layers->push_back(torch::nn::ReLU());
      layers->push_back(torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2)));
      channels = width;
    }
    layers->push_back(torch::nn::AdaptiveAvgPool2d(torch::nn::AdaptiveAvgPool2dOptions({2, 2})));
    layers->push_back(torch::nn::Flatten());
    layers->push_back(torch::nn::Linear(channels * 4, classes));
    register_module("layers", layers);
  }

  torch::Tensor forward(const torch::Tensor& images) { return layers->forward(images); }

  torch::nn::Sequential layers{nullptr};
};
TORCH_MODULE(Cnn);

}  // namespace train_cnn
