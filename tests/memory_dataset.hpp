#pragma once

#include <forebay/dataset.hpp>
#include <forebay/feeder.hpp>
#include <forebay/given_order.hpp>

#include "base/wait.hpp"
#include "support.hpp"

namespace forebay::testing {

// A dataset that forwards to another one; subclasses override what differs.
class LikeDataset : public Dataset {
 public:
  explicit LikeDataset(std::shared_ptr<const Dataset> base) : base_(std::move(base)) {}

  [[nodiscard]] std::string_view format() const noexcept override { return base_->format(); }
  [[nodiscard]] std::uint64_t size() const noexcept override { return base_->size(); }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return base_->classes(); }
  [[nodiscard]] Sample sample(std::uint64_t id) const override { return base_->sample(id); }
  [[nodiscard]] std::uint64_t source(std::uint64_t id) const override { return base_->source(id); }
  [[nodiscard]] std::string name(std::uint64_t id) const override { return base_->name(id); }
  void read(std::uint64_t id, ReadTarget& target) const override { base_->read(id, target); }
  [[nodiscard]] std::span<const std::byte> tables(std::uint32_t key) const override { return base_->tables(key); }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return base_->fields(); }
  [[nodiscard]] std::string field_name(std::uint64_t id, std::size_t field) const override {
    return base_->field_name(id, field);
  }
  void read_field(std::uint64_t id, std::size_t field, ReadTarget& target) const override {
    base_->read_field(id, field, target);
  }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return base_->skipped(); }
  [[nodiscard]] IndexCounts counts() const noexcept override { return base_->counts(); }
  [[nodiscard]] std::vector<std::byte> serialize() const override { return base_->serialize(); }

 private:
  std::shared_ptr<const Dataset> base_;
};

// Samples of 4 x 4 grey pixels that identify their id: pixel i of sample s is (s * 7 + i) mod 256.
// `before_read` is called first, on the reader's thread, and may throw or wait.
class MemoryDataset final : public Dataset, public InGivenOrder {
 public:
  static constexpr std::int32_t kSide = 4;
  using Hook = std::function<void(std::uint64_t id)>;

  explicit MemoryDataset(std::uint64_t size = 1, Hook before_read = {})
      : size_(size), before_read_(std::move(before_read)) {}

  [[nodiscard]] static std::uint8_t pixel(std::uint64_t id, std::size_t i) {
    return static_cast<std::uint8_t>((id * 7 + i) & 0xff);
  }

  [[nodiscard]] std::string_view format() const noexcept override { return "memory"; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return classes_; }
  [[nodiscard]] Sample sample(std::uint64_t id) const override {
    Sample sample;
    sample.label = label_(id);
    sample.encoding = Encoding::raw;
    sample.width = sample.height = kSide;
    sample.channels = 1;
    return sample;
  }
  [[nodiscard]] std::string name(std::uint64_t id) const override { return "memory/" + std::to_string(id); }
  void read(std::uint64_t id, ReadTarget& target) const override {
    if (before_read_) before_read_(id);
    const auto bytes = target.reserve(kSide * kSide);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(pixel(id, i));
  }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return skipped_; }
  [[nodiscard]] IndexCounts counts() const noexcept override { return {.images = size_}; }
  [[nodiscard]] std::vector<std::byte> serialize() const override {
    std::vector<std::byte> bytes(sizeof(size_));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>((size_ >> (8 * i)) & 0xff);
    return bytes;
  }

  [[nodiscard]] std::shared_ptr<const GivenOrder> given_order() const noexcept override { return order_; }

  std::shared_ptr<GivenOrder> order_;
  std::vector<Skipped> skipped_;
  std::function<std::int64_t(std::uint64_t id)> label_ = [](std::uint64_t id) {
    return static_cast<std::int64_t>(id % 10);
  };

 private:
  std::uint64_t size_;
  Hook before_read_;
  std::vector<std::string> classes_{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
};

// Options for batches of that dataset with unchanged bytes: no files, no randomness in the pixels,
// few threads.
inline Options memory_options(std::int64_t batch_size) {
  Options options;
  options.max_bad = 1.0;    // any number
  options.device = "host";  // tests read the bytes, even if there is a GPU
  options.dataset.batch_size = batch_size;
  options.dataset.drop_last = false;
  options.transform.crop = Crop::none;
  options.transform.size = {MemoryDataset::kSide, MemoryDataset::kSide};
  options.transform.mirror = 0;
  options.transform.dtype = DType::uint8;
  options.transform.layout = Layout::nhwc;
  options.workers.io = 2;
  options.workers.decode = 2;
  options.workers.hedge = Hedge::off;  // tests count reads
  options.queue.capacity = 4;
  options.policy.name = "block";
  options.policy.watchdog_s = 30;
  options.telemetry.dir = "";
  options.telemetry.interval_s = 0;
  options.telemetry.live = Live::never;
  return options;
}

// A gate at which readers wait until it is opened, for good or for a number of reads: those of the
// first batches if there is one reader (workers.io = 1). Waits are bounded, so that a failing test
// ends.
class Gate {
 public:
  // Called on the reader's thread.
  void pass() {
    point_.wait_until(WaitPoint::Clock::now() + std::chrono::seconds(60), [this] {
      std::int64_t left = permits_.load();
      while (left > 0) {
        if (permits_.compare_exchange_weak(left, left - 1)) return true;
      }
      return false;
    });
  }
  void open(std::int64_t reads = INT64_MAX / 2) {
    permits_.fetch_add(reads);
    point_.notify_all();
  }

 private:
  std::atomic<std::int64_t> permits_{0};
  WaitPoint point_;
};

// A feeder's parts with a MemoryDataset of so many samples; all others have defaults.
inline Parts parts(std::uint64_t samples, MemoryDataset::Hook before_read = {}) {
  return {.dataset = std::make_shared<MemoryDataset>(samples, std::move(before_read))};
}

// The bytes of batches as first served, by epoch and number.
using Batches = std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<std::byte>>;

// Adds the batches of all remaining steps, or of at most this many.
inline void add_batches(Feeder& feeder, Batches& batches, std::size_t most = SIZE_MAX) {
  for (std::size_t i = 0; i < most; ++i) {
    const auto batch = feeder.next(feeder.stream());
    if (!batch) return;
    std::vector<std::byte> bytes(batch->images().bytes());
    batch->copy_to_host(bytes);
    batches.emplace(std::pair(batch->epoch(), batch->batch()), std::move(bytes));
  }
}

inline Batches batches_of(const Options& options, Parts parts, std::uint64_t* bad = nullptr) {
  Feeder feeder(options, std::move(parts));
  Batches batches;
  add_batches(feeder, batches);
  if (bad != nullptr) *bad = feeder.summary().bad_samples;
  return batches;
}

// A MemoryDataset whose samples are JPEG files.
class JpegDataset final : public LikeDataset {
 public:
  explicit JpegDataset(std::vector<std::vector<std::byte>> files, std::optional<Box> box = std::nullopt)
      : LikeDataset(std::make_shared<MemoryDataset>()), files_(std::move(files)), box_(box) {}

  [[nodiscard]] std::uint64_t size() const noexcept override { return files_.size(); }
  [[nodiscard]] Sample sample(std::uint64_t /*id*/) const override {
    Sample sample;
    sample.label = 0;
    sample.box = box_;
    return sample;
  }
  void read(std::uint64_t id, ReadTarget& target) const override {
    std::ranges::copy(files_[id], target.reserve(files_[id].size()).begin());
  }
  [[nodiscard]] IndexCounts counts() const noexcept override { return {.images = files_.size()}; }

 private:
  std::vector<std::vector<std::byte>> files_;
  std::optional<Box> box_;
};

}  // namespace forebay::testing
