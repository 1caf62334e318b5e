#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include <torch/torch.h>

namespace study {

// LeNet-5 (LeCun et al., 1998) for 28 x 28 pixels, with ReLU and maxima as it is usually built today.
inline torch::nn::Sequential make_lenet(std::int64_t classes) {
  using torch::nn::Conv2dOptions;
  torch::nn::Sequential net;
  std::int64_t channels = 3;
  for (const std::int64_t width : {6, 16}) {
    net->push_back(torch::nn::Conv2d(Conv2dOptions(channels, width, 5).padding(width == 6 ? 2 : 0)));
    net->push_back(torch::nn::ReLU());
    net->push_back(torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2)));
    channels = width;
  }
  net->push_back(torch::nn::Flatten());
  std::int64_t inputs = channels * 5 * 5;
  for (const std::int64_t width : {120, 84}) {
    net->push_back(torch::nn::Linear(inputs, width));
    net->push_back(torch::nn::ReLU());
    inputs = width;
  }
  net->push_back(torch::nn::Linear(inputs, classes));
  return net;
}

// Small enough for a study on processors. Without batch statistics, which reused batches would bias in a way of their
// own, but for "norm": "small" with them.
inline torch::nn::Sequential make_net(const std::string& name, std::int64_t classes) {
  if (name == "lenet") return make_lenet(classes);
  using torch::nn::Conv2dOptions;
  torch::nn::Sequential net;
  std::int64_t channels = 3;
  const bool is_small = name == "small" || name == "norm";
  if (is_small) {  // about 0.2 million multiplications for 28 x 28 pixels
    for (const std::int64_t width : {8, 16}) {
      net->push_back(torch::nn::Conv2d(Conv2dOptions(channels, width, 3).stride(2).padding(1)));
      if (name == "norm") net->push_back(torch::nn::BatchNorm2d(width));
      net->push_back(torch::nn::ReLU());
      channels = width;
    }
  } else if (name == "cnn") {  // that of examples/train_cnn
    for (const std::int64_t width : {16, 32, 64}) {
      net->push_back(torch::nn::Conv2d(Conv2dOptions(channels, width, 3).padding(1).bias(false)));
      net->push_back(torch::nn::GroupNorm(torch::nn::GroupNormOptions(4, width)));
      net->push_back(torch::nn::ReLU());
      net->push_back(torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2)));
      channels = width;
    }
  } else {
    throw std::invalid_argument("--net " + name + ": there are \"small\", \"norm\", \"cnn\" and \"lenet\"");
  }
  const std::int64_t side = is_small ? 7 : 2;
  net->push_back(torch::nn::AdaptiveAvgPool2d(torch::nn::AdaptiveAvgPool2dOptions({side, side})));
  net->push_back(torch::nn::Flatten());
  std::int64_t inputs = channels * side * side;
  if (is_small) {
    constexpr std::int64_t kHidden = 64;
    net->push_back(torch::nn::Linear(inputs, kHidden));
    net->push_back(torch::nn::ReLU());
    inputs = kHidden;
  }
  net->push_back(torch::nn::Linear(inputs, classes));
  return net;
}

}  // namespace study
