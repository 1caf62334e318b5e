// Checks the CUDA backend on a GPU and prints a table. See README.md and docs/gpu.md.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/error.hpp>

#include "checks.hpp"
#include "device/cuda/cuda_error.hpp"
#include "device/device_choice.hpp"

namespace {

using forebay::gpu_check::Check;
using forebay::gpu_check::Setup;

enum ExitCode { kWell = 0, kWrong = 1, kUsage = 2, kNoGpu = 3 };

constexpr std::string_view kHelp =
    "gpu_check --data DIR [--device cuda:N] [--seconds S] [--only NAME]... [--quick]\n"
    "  Checks Forebay's CUDA backend on this machine's GPU and prints a table.\n"
    "  --data DIR      a dataset of forebay make-dataset\n"
    "  --device NAME   cuda (default) or cuda:N\n"
    "  --seconds S     how long the ring soak lasts (default 120)\n"
    "  --minutes M     no check begins later, and the soak ends then\n"
    "  --json FILE     writes the lines there too, with the figures of each round\n"
    "  --only NAME     device, next, copy, render, nvjpeg, kernel, views or soak; may be repeated\n"
    "  --quick         few rounds: for compute-sanitizer; its times mean nothing\n"
    "Exit codes: 0 nothing wrong, 1 something wrong, 2 bad usage, 3 no GPU to check.\n";

struct Arguments {
  Setup setup;
  std::vector<std::string> only;
  bool help = false;
};

bool is_check(std::string_view name) {
  return std::ranges::any_of(forebay::gpu_check::checks(), [&](const Check& check) { return check.name == name; });
}

double number_of(const std::string& option, std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !(number > 0)) {
    throw forebay::ConfigError(option + " " + std::string(text) + ": expected a number above 0");
  }
  return number;
}

Arguments parse(const std::vector<std::string>& words) {
  Arguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto value = [&]() -> const std::string& {
      if (++i == words.size()) throw forebay::ConfigError(word + " needs a value");
      return words[i];
    };
    if (word == "--help" || word == "-h") {
      arguments.help = true;
    } else if (word == "--quick") {
      arguments.setup.quick = true;
    } else if (word == "--data") {
      arguments.setup.data = value();
    } else if (word == "--device") {
      arguments.setup.device = value();
    } else if (word == "--seconds") {
      arguments.setup.soak_s = number_of(word, value());
    } else if (word == "--minutes") {
      arguments.setup.end = std::chrono::steady_clock::now() +
                            std::chrono::seconds(static_cast<std::int64_t>(60 * number_of(word, value())));
    } else if (word == "--json") {
      arguments.setup.json = value();
    } else if (word == "--only") {
      arguments.only.push_back(value());
      if (!is_check(arguments.only.back()))
        throw forebay::ConfigError("--only: there is no check " + arguments.only.back());
    } else {
      throw forebay::ConfigError("unknown option " + word + " (--help lists them)");
    }
  }
  if (!arguments.help && arguments.setup.data.empty())
    throw forebay::ConfigError("--data is missing (--help says more)");
  return arguments;
}

// Why there is nothing to check here; empty when there is.
std::string no_gpu(const Setup& setup) {
  try {
    static_cast<void>(forebay::device::make_device(setup.device));
    return "";
  } catch (const forebay::ConfigError& error) {
    return error.what();
  }
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments = parse(words);
  if (arguments.help) {
    std::fwrite(kHelp.data(), 1, kHelp.size(), stdout);
    std::printf("It needs an NVIDIA driver %s%s.\n", forebay::cuda::needed_driver().c_str(),
                CUDART_VERSION < 13000 ? "" : "; scripts/gpu-bundle --cuda 12 makes a bundle for drivers from 525 on");
    return kWell;
  }
  if (const std::string why = no_gpu(arguments.setup); !why.empty()) {
    std::fprintf(stderr, "gpu_check: there is no GPU to check here: %s\n", why.c_str());
    return kNoGpu;
  }
  return forebay::gpu_check::print_table(arguments.setup, arguments.only) ? kWell : kWrong;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const forebay::ConfigError& error) {
    std::fprintf(stderr, "gpu_check: %s\n", error.what());
    return kUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_check: %s\n", error.what());
    return kWrong;
  }
}
