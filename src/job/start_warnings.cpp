#include "start_warnings.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace forebay {
namespace {

// Above these a thread more cannot help: a decoder is busy, a reader mostly waits for the store.
constexpr std::int64_t kDecodersPerCore = 2;
constexpr std::int64_t kReadersPerCore = 64;
constexpr std::int64_t kReadersAnywhere = 512;

bool all_up_to_one(const std::array<double, 3>& values) noexcept {
  return std::ranges::all_of(values, [](double value) { return value >= 0 && value <= 1; });
}

// A mean of 0 and a std of 1 leave the pixels as they are, which is meant.
bool is_scaled_for_unit_pixels(const TransformOptions& transform) noexcept {
  if (transform.dtype == DType::uint8) return false;
  const bool is_identity =
      transform.mean == std::array<double, 3>{0, 0, 0} && transform.std == std::array<double, 3>{1, 1, 1};
  return !is_identity && all_up_to_one(transform.mean) && all_up_to_one(transform.std);
}

std::string too_many(const char* key, std::int64_t threads, unsigned cores) {
  return std::string(key) + " = " + std::to_string(threads) + ", and this rank has " + std::to_string(cores) +
         (cores == 1 ? " core" : " cores") + R"(: so many threads only take turns; "auto" finds the number that helps)";
}

}  // namespace

std::vector<std::string> start_warnings(const Options& options, const WorkerPlan& plan) {
  std::vector<std::string> warnings;
  if (is_scaled_for_unit_pixels(options.transform)) {
    warnings.emplace_back(
        "transform.mean and transform.std look as if pixels were 0 to 1, but they are 0 to 255: multiply both by 255, "
        "or "
        "set std = [255, 255, 255] for values from 0 to 1");
  }
  const auto cores = static_cast<std::int64_t>(plan.cores);
  if (options.workers.decode > kDecodersPerCore * cores) {
    warnings.push_back(too_many("workers.decode", options.workers.decode, plan.cores));
  }
  if (options.workers.io > std::max(kReadersAnywhere, kReadersPerCore * cores)) {
    warnings.push_back(too_many("workers.io", options.workers.io, plan.cores));
  }
  return warnings;
}

}  // namespace forebay
