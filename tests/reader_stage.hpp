#pragma once

#include <forebay/dataset.hpp>

#include "base/wait.hpp"
#include "make/decoder_pool.hpp"
#include "read/byte_budget.hpp"
#include "read/queues.hpp"
#include "read/reader_pool.hpp"
#include "read/store_outage.hpp"
#include "support.hpp"

// The environment of readers and decoders in their tests: a dataset, a sink and a handler that
// count.
namespace forebay::testing {

inline std::size_t size_of(std::uint64_t id) { return 1 + id * 37 % 1000; }
inline std::byte byte_of(std::uint64_t id) { return static_cast<std::byte>(id * 7 + 1); }

// Sample i consists of size_of(i) bytes of byte_of(i). `before` and `after` are called around its
// reserve() and may throw.
class FakeDataset : public Dataset {
 public:
  explicit FakeDataset(std::uint64_t size) : size_(size), reads_(size) {}

  std::function<void(std::uint64_t id, int read)> before = [](std::uint64_t, int) {};
  std::function<void(std::uint64_t id, int read)> after = [](std::uint64_t, int) {};
  std::function<std::size_t(std::uint64_t id)> size_of_sample = size_of;

  [[nodiscard]] int reads(std::uint64_t id) const { return reads_[id].load(); }

  void read(std::uint64_t id, ReadTarget& target) const override {
    const int read = ++reads_[id];
    before(id, read);
    std::ranges::fill(target.reserve(size_of_sample(id)), byte_of(id));
    after(id, read);
  }
  [[nodiscard]] std::string_view format() const noexcept override { return "fake"; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return classes_; }
  [[nodiscard]] Sample sample(std::uint64_t) const override { return {}; }
  [[nodiscard]] std::string name(std::uint64_t id) const override { return std::to_string(id); }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return skipped_; }
  [[nodiscard]] IndexCounts counts() const noexcept override { return {}; }
  [[nodiscard]] std::vector<std::byte> serialize() const override { return {}; }

 private:
  std::uint64_t size_;
  mutable std::vector<std::atomic<int>> reads_;
  std::vector<std::string> classes_;
  std::vector<Skipped> skipped_;
};

// A FakeDataset with a field of at most 16 bytes.
class NotedDataset final : public Dataset {
 public:
  explicit NotedDataset(const FakeDataset& images) : images_(images) {}
  [[nodiscard]] std::string_view format() const noexcept override { return "noted"; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return images_.size(); }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return images_.classes(); }
  [[nodiscard]] Sample sample(std::uint64_t id) const override { return images_.sample(id); }
  [[nodiscard]] std::string name(std::uint64_t id) const override { return images_.name(id); }
  void read(std::uint64_t id, ReadTarget& target) const override { images_.read(id, target); }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  void read_field(std::uint64_t id, std::size_t /*field*/, ReadTarget& target) const override {
    (void)target.reserve(id == 1 ? std::size_t{1} << 30U : 16);
    ++read_fields;
  }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return images_.skipped(); }
  [[nodiscard]] IndexCounts counts() const noexcept override { return {}; }
  [[nodiscard]] std::vector<std::byte> serialize() const override { return {}; }

  mutable std::atomic<int> read_fields{0};

 private:
  const FakeDataset& images_;
  std::vector<Field> fields_{{.name = "note", .kind = FieldKind::bytes, .dtype = DType::uint8, .shape = {16}}};
};

// Records reports. If `queue` is set, replaces a bad sample by an urgent request for the next one.
class Reports final : public read::WorkerErrors {
 public:
  void bad_sample(const read::ReadRequest& request, std::string_view reason) noexcept override {
    {
      const std::lock_guard lock(mutex);
      bad.push_back(request.sample);
      reasons.emplace_back(reason);
    }
    if (queue != nullptr) {
      read::ReadRequest next = request;
      ++next.attempt;
      ++next.sample;
      queue->push_urgent({&next, 1});
    }
    changed.notify_all();
  }
  void will_retry(const read::ReadRequest& request, std::string_view reason) noexcept override {
    const std::lock_guard lock(mutex);
    retried.push_back(request.sample);
    reasons.emplace_back(reason);
  }
  void worker_failed(std::exception_ptr error) noexcept override {
    {
      const std::lock_guard lock(mutex);
      try {
        std::rethrow_exception(error);
      } catch (const std::exception& what) {
        failures.emplace_back(what.what());
      } catch (...) {
        failures.emplace_back("unknown");
      }
    }
    changed.notify_all();
  }
  [[nodiscard]] std::size_t count() {
    const std::lock_guard lock(mutex);
    return bad.size() + failures.size();
  }
  bool wait_for(std::size_t reports) {
    return changed.wait_until(limit(), [&] { return count() >= reports; });
  }

  read::ReadQueue* queue = nullptr;
  std::mutex mutex;
  WaitPoint changed;
  std::vector<std::uint64_t> bad;
  std::vector<std::uint64_t> retried;
  std::vector<std::string> reasons;
  std::vector<std::string> failures;
};

// Counts samples by their order number and checks their bytes.
class Tally final : public read::SampleHandler {
 public:
  explicit Tally(std::size_t requests) : seen(requests) {}

  std::uint32_t handle(const read::EncodedSample& sample, unsigned thread) override {
    const std::uint64_t id = sample.request.sample;
    before(sample, thread);
    if (sample.bytes.size() != size_of(id)) wrong = true;
    for (const std::byte byte : sample.bytes)
      if (byte != byte_of(id)) wrong = true;
    ++seen.at(sample.request.order);
    ++handled;
    changed.notify_all();
    return 1;
  }
  bool wait_for(int samples) {
    return changed.wait_until(limit(), [&] { return handled.load() >= samples; });
  }

  std::function<void(const read::EncodedSample&, unsigned)> before = [](const read::EncodedSample&, unsigned) {};
  std::vector<std::atomic<int>> seen;
  std::atomic<int> handled{0};
  std::atomic<bool> wrong{false};
  WaitPoint changed;
};

// Everything that a reader pool and a decoder pool need.
struct Stage {
  explicit Stage(std::uint64_t samples, std::size_t bytes = 1 << 20) : dataset(samples), budget(bytes) {}

  [[nodiscard]] read::ReaderLinks reader_links() { return reader_links(dataset); }
  [[nodiscard]] read::ReaderLinks reader_links(const Dataset& other) {
    return {.dataset = other,
            .requests = requests,
            .budget = budget,
            .encoded = encoded,
            .sink = reports,
            .totals = totals,
            .outage = &outage};
  }
  [[nodiscard]] make::DecoderLinks decoder_links(read::SampleHandler& handler) {
    return {.encoded = encoded, .buffers = budget, .handler = handler, .sink = reports, .totals = totals};
  }
  void request(std::uint64_t id) {
    const read::ReadRequest request{.order = id, .position = id, .sample = id};
    requests.push({&request, 1});
  }

  Reports reports;
  FakeDataset dataset;
  read::ReadQueue requests;
  read::ByteBudget budget;
  read::EncodedQueue encoded{1};
  read::WorkerTotals totals;
  read::StoreOutage outage{0, nullptr, {}};
};

}  // namespace forebay::testing
