#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/random.hpp>

#include "checks.hpp"
#include "gpu.hpp"

using namespace forebay::device;

namespace forebay::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWantedShare = 0.9;

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

double supply_rate(Options options, const std::shared_ptr<const Dataset>& dataset, std::int64_t batches,
                   const std::function<void()>& take) {
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
    take();
    if (step + 1 == first) begin = Clock::now();
    if (step >= first) bytes += lease->images().bytes();
  }
  return static_cast<double>(bytes) / std::chrono::duration<double>(Clock::now() - begin).count();
}

namespace {

// Copies of batches from pinned memory as a program without Forebay makes them: one after the other on a stream, from
// as many buffers as the feeder has.
class PlainCopies {
 public:
  PlainCopies(std::size_t bytes, std::size_t buffers)
      : bytes_(bytes),
        buffers_(buffers),
        copied_(buffers),
        to_(gpu_memory(bytes * buffers)),
        from_(pinned_memory(bytes * buffers)) {
    for (cudaEvent_t& event : copied_) {
      require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
              "cudaEventCreateWithFlags");
    }
  }
  ~PlainCopies() {
    for (cudaEvent_t event : copied_) static_cast<void>(cudaEventDestroy(event));
  }
  PlainCopies(const PlainCopies&) = delete;
  PlainCopies& operator=(const PlainCopies&) = delete;

  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_.get(); }
  // Puts the next one on the stream.
  void enqueue() {
    const std::size_t at = next_++ % buffers_ * bytes_;
    require(cudaMemcpyAsync(to_.get() + at, from_.get() + at, bytes_, cudaMemcpyHostToDevice, stream_.get()),
            "cudaMemcpyAsync");
  }
  // Waits until its buffer is free, and puts the next one on the stream.
  void take_turn() {
    cudaEvent_t const copied = copied_[next_ % buffers_];
    require(cudaEventSynchronize(copied), "cudaEventSynchronize");
    enqueue();
    require(cudaEventRecord(copied, stream_.get()), "cudaEventRecord");
  }
  // Bytes per second of so many.
  [[nodiscard]] double rate(std::int64_t batches) {
    for (std::size_t i = 0; i < buffers_; ++i) enqueue();
    stream_.synchronize();
    const Clock::time_point begin = Clock::now();
    for (std::int64_t i = 0; i < batches; ++i) enqueue();
    stream_.synchronize();
    return static_cast<double>(bytes_) * static_cast<double>(batches) /
           std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  std::size_t bytes_;
  std::size_t buffers_;
  std::size_t next_ = 0;
  std::vector<cudaEvent_t> copied_;  // by buffer
  GpuMemory to_;
  PinnedMemory from_;
  TrainerStream stream_;
};

// What the device's own copies reach of plain ones.
double share_of_copies_alone(Device& device, PlainCopies& plain, std::size_t bytes, const Rounds& rounds) {
  const auto arena = device.allocate(bytes);
  const auto staging = device.allocate_staging(bytes);
  const StreamView stream = device.make_stream();
  const std::vector<bench::Figure> ms = gpu_times_ms(
      {{.stream = plain.stream(), .enqueue = [&] { plain.enqueue(); }},
       {.stream = static_cast<cudaStream_t>(stream.handle),
        .enqueue = [&] { device.copy_in(arena->bytes().data(), staging->bytes().data(), bytes, stream); }}},
      rounds);
  return ms[0].median() / ms[1].median();
}

}  // namespace

Row copy_row(const Setup& setup) {
  const std::int32_t side = setup.quick ? 16 : 224;
  const std::int64_t batch_size = setup.quick ? 4 : 64;
  const std::int64_t batches = setup.quick ? 20 : 200;
  const int rounds = setup.quick ? 1 : 5;
  const std::unique_ptr<Device> device = open_device(setup);
  const std::shared_ptr<const Dataset> images = images_in_memory(side);
  const Options options = supply_options(setup.device, side, batch_size);
  const Options on_host = supply_options("host", side, batch_size);
  const auto bytes = 3 * sizeof(float) * static_cast<std::size_t>(side) * static_cast<std::size_t>(side * batch_size);
  PlainCopies plain(bytes, static_cast<std::size_t>(options.queue.capacity));

  // A GPU's copies and what fills host memory share its bandwidth, so the copies to compare with have producers too.
  bench::Figure copies;
  bench::Figure beside;
  bench::Figure producers;
  bench::Figure feeder;
  for (int round = 0; round < rounds; ++round) {
    copies.rounds.push_back(plain.rate(batches) / 1e9);
    feeder.rounds.push_back(supply_rate(options, images, batches) / 1e9);
    beside.rounds.push_back(supply_rate(on_host, images, batches, [&] { plain.take_turn(); }) / 1e9);
    producers.rounds.push_back(supply_rate(on_host, images, batches) / 1e9);
  }
  const double alone = share_of_copies_alone(*device, plain, bytes, {.timed = setup.quick ? 3 : 40, .repeats = 1});

  const double share = feeder.median() / beside.median();
  // Slower than the bus: both were held up by them.
  const bool are_slow = producers.median() < copies.median();
  char text[400];
  std::snprintf(
      text, sizeof(text),
      "through a feeder %.1f GB/s, %.0f %% of the %.1f GB/s of plain cudaMemcpyAsync beside the same producers "
      "(judged); plain copies alone %.1f GB/s, the feeder's alone %.0f %% of them; batches of %zu KiB, median "
      "of %d",
      feeder.median(), 100 * share, beside.median(), copies.median(), 100 * alone, bytes >> 10, rounds);
  return {.subject = "host to device",
          .found = text,
          .wanted = ">= 90 %",
          .verdict = are_slow                ? Verdict::unknown
                     : share >= kWantedShare ? Verdict::fine
                                             : Verdict::missed,
          .rounds = {{"plain, GB/s", copies.rounds},
                     {"plain beside producers, GB/s", beside.rounds},
                     {"producers, GB/s", producers.rounds},
                     {"feeder, GB/s", feeder.rounds}}};
}

}  // namespace forebay::gpu_check
