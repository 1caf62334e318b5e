#include "supply.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/random.hpp>

#include "gpu.hpp"

namespace forebay::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;

// All samples have the same bytes.
class ImagesInMemory final : public Dataset {
 public:
  explicit ImagesInMemory(std::int32_t side)
      : side_(side), pixels_(3 * static_cast<std::size_t>(side) * static_cast<std::size_t>(side)) {
    Random random(1);
    for (std::byte& value : pixels_) value = static_cast<std::byte>(random.bits());
  }

  [[nodiscard]] std::string_view format() const noexcept override { return "memory"; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return std::uint64_t{1} << 20; }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return classes_; }
  [[nodiscard]] Sample sample(std::uint64_t /*id*/) const override {
    return {.label = 0, .box = {}, .encoding = Encoding::raw, .width = side_, .height = side_, .channels = 3};
  }
  [[nodiscard]] std::string name(std::uint64_t id) const override { return "memory/" + std::to_string(id); }
  void read(std::uint64_t /*id*/, ReadTarget& target) const override {
    std::memcpy(target.reserve(pixels_.size()).data(), pixels_.data(), pixels_.size());
  }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return skipped_; }
  [[nodiscard]] IndexCounts counts() const noexcept override { return {.images = size()}; }
  [[nodiscard]] std::vector<std::byte> serialize() const override { return std::vector<std::byte>(sizeof(side_)); }

 private:
  std::int32_t side_;
  std::vector<std::byte> pixels_;
  std::vector<Skipped> skipped_;
  std::vector<std::string> classes_{"image"};
};

}  // namespace

std::shared_ptr<const Dataset> images_in_memory(std::int32_t side) { return std::make_shared<ImagesInMemory>(side); }

Options supply_options(const std::string& device, std::int32_t side, std::int64_t batch_size) {
  Options options;
  options.device = device;
  options.dataset.batch_size = batch_size;
  options.transform.crop = Crop::none;
  options.transform.size = {side, side};
  options.transform.mirror = 0;
  // Reading is a copy of a fourth of what decoding writes.
  options.workers.io = std::max(2U, std::thread::hardware_concurrency() / 4);
  options.queue.capacity = 8;
  options.queue.pool = 1;
  options.policy.name = "block";
  options.telemetry.dir = "";
  options.telemetry.interval_s = 0;
  options.telemetry.live = Live::never;
  return options;
}

double supply_rate(Options options, const std::shared_ptr<const Dataset>& dataset, std::int64_t batches) {
  const std::int64_t first = 2 * options.queue.capacity;
  options.run.steps = first + batches;
  std::optional<TrainerStream> stream;
  if (options.device != "host") stream.emplace();
  Feeder feeder(std::move(options), {.dataset = dataset});
  const StreamView view = stream ? stream->view() : StreamView{};
  std::size_t bytes = 0;
  Clock::time_point begin;
  for (std::int64_t step = 0; step < first + batches; ++step) {
    const std::optional<Lease> lease = feeder.next(view);
    if (step + 1 == first) begin = Clock::now();
    if (step >= first) bytes += lease->images().bytes();
  }
  return static_cast<double>(bytes) / std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace forebay::gpu_check
