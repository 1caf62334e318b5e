#include "once_identity.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"

namespace forebay::testing {
namespace {

constexpr std::uint64_t kSamples = 1001;
constexpr std::uint32_t kBatchSize = 4;
// Batches served fresh after which the job is stopped; with four ranks each has 187 or more over three epochs.
constexpr std::array<std::uint64_t, 3> kStops{7, 61, 130};

std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

// Colour images of several sizes whose every pixel differs from its neighbours, so that any other crop or mirroring
// gives other bytes.
class NoiseDataset final : public Dataset {
 public:
  [[nodiscard]] std::string_view format() const noexcept override { return "noise"; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return kSamples; }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return classes_; }
  [[nodiscard]] Sample sample(std::uint64_t id) const override {
    Sample sample;
    sample.label = static_cast<std::int64_t>(id % 3);
    sample.encoding = Encoding::raw;
    sample.width = static_cast<std::int32_t>(20 + id % 13);
    sample.height = static_cast<std::int32_t>(18 + id % 17);
    sample.channels = 3;
    return sample;
  }
  [[nodiscard]] std::string name(std::uint64_t id) const override { return "noise/" + std::to_string(id); }
  void read(std::uint64_t id, ReadTarget& target) const override {
    const Sample is = sample(id);
    const auto bytes =
        target.reserve(std::size_t{3} * static_cast<std::size_t>(is.width) * static_cast<std::size_t>(is.height));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(mixed((id << 20U) + i) & 0xffU);
  }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return skipped_; }
  [[nodiscard]] IndexCounts counts() const noexcept override { return {.images = kSamples}; }
  [[nodiscard]] std::vector<std::byte> serialize() const override { return {std::byte{1}}; }

 private:
  std::vector<std::string> classes_{"a", "b", "c"};
  std::vector<Skipped> skipped_;
};

std::uint64_t hash_of(std::uint64_t seed, const void* data, std::size_t bytes) {
  const auto* const at = static_cast<const unsigned char*>(data);
  std::uint64_t hash = seed ^ 0xcbf29ce484222325U;
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 0x100000001b3U;  // FNV-1a
  return hash;
}

// A fresh batch: what it is, and what is in it.
struct Hashed {
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;
  std::uint64_t hash = 0;

  friend bool operator==(const Hashed&, const Hashed&) = default;
};

Hashed hashed(const Lease& lease) {
  std::uint64_t hash = hash_of(0, lease.images().data, lease.images().bytes());
  hash = hash_of(hash, lease.labels().data(), lease.labels().size_bytes());
  hash = hash_of(hash, lease.ids().data(), lease.ids().size_bytes());
  return {lease.epoch(), lease.batch(), hash};
}

struct Run {
  std::vector<Hashed> fresh;
  std::string state;
};

constexpr std::uint64_t kToTheEnd = UINT64_MAX;

// At most so many fresh batches; the state after them.
Run run(const Options& options, const Communicator& ranks, const std::optional<std::string>& from,
        std::uint64_t fresh) {
  Parts parts;
  parts.dataset = std::make_shared<NoiseDataset>();
  Feeder feeder(options, ranks, std::move(parts));
  if (from) feeder.restore_state(*from);
  Run made;
  // No rank is fresh at a step at which another is not, so all stop at the same step.
  while (made.fresh.size() < fresh) {
    const auto batch = feeder.next();
    if (!batch) break;
    if (batch->is_fresh()) made.fresh.push_back(hashed(*batch));
  }
  made.state = feeder.state();
  feeder.close();
  return made;
}

Options identity_options(MpiMode mode, std::int64_t threads) {
  Options options = memory_options(kBatchSize);
  options.run.epochs = 3;
  options.transform.crop = Crop::random_resized;
  options.transform.size = {16, 12};
  options.transform.mirror = 0.5;
  options.transform.dtype = DType::float32;
  options.transform.layout = Layout::nchw;
  options.workers.io = threads;
  options.workers.decode = threads;
  options.mpi.mode = mode;
  // "block" keeps the ranks at one pace, so there is nothing to hand over.
  options.policy.name = mode == MpiMode::local ? "block" : "adaptive";
  return options;
}

// One rank's counts of a row, to be added up.
struct Counts {
  std::uint64_t compared = 0;
  std::uint64_t mismatches = 0;
  std::uint64_t handed_over = 0;
  std::uint64_t too_few = 0;
};

void compare(std::span<const Hashed> expected, std::span<const Hashed> served, Counts& counts) {
  for (std::size_t i = 0; i < served.size(); ++i) {
    ++counts.compared;
    if (i >= expected.size() || expected[i] != served[i]) ++counts.mismatches;
  }
}

Counts check_row(const Options& options, const Communicator& ranks, const std::vector<Hashed>& uninterrupted) {
  Counts counts;
  for (const std::uint64_t stop : kStops) {
    const Run before = run(options, ranks, std::nullopt, stop);
    const Run after = run(options, ranks, before.state, kComparedBatches);
    Counts prefix;
    compare(uninterrupted, before.fresh, prefix);
    counts.mismatches += prefix.mismatches;
    compare(std::span(uninterrupted).subspan(before.fresh.size()), after.fresh, counts);
    if (after.fresh.size() < kComparedBatches) ++counts.too_few;
    for (const auto* served : {&before.fresh, &after.fresh}) {
      for (const Hashed& batch : *served) {
        const auto shards = static_cast<std::uint64_t>(options.mpi.virtual_shards);
        if (batch.batch % shards % ranks.size() != ranks.rank()) ++counts.handed_over;
      }
    }
  }
  return counts;
}

std::string bytes_of(const Counts& counts) { return {reinterpret_cast<const char*>(&counts), sizeof(counts)}; }

}  // namespace

std::vector<IdentityRow> check_identity(std::uint32_t ranks, Stage& stage) {
  std::vector<IdentityRow> rows;
  MPI_Comm comm = stage.split(0, ranks);
  for (const MpiMode mode : {MpiMode::local, MpiMode::lockstep}) {
    std::vector<Hashed> uninterrupted;  // by one thread of each kind
    for (const std::int64_t threads : {1, 3}) {
      Counts mine;
      std::string error;
      if (comm != MPI_COMM_NULL) {
        try {
          const auto communicator = make_communicator(comm);
          const Options options = identity_options(mode, threads);
          const Run whole = run(options, *communicator, std::nullopt, kToTheEnd);
          if (uninterrupted.empty()) uninterrupted = whole.fresh;
          mine = check_row(options, *communicator, uninterrupted);
          if (whole.fresh != uninterrupted) ++mine.mismatches;
          communicator->close(10);
        } catch (const std::exception& caught) {
          error = caught.what();
        }
      }
      IdentityRow row{.ranks = ranks,
                      .mode = mode == MpiMode::local ? "local" : "lockstep",
                      .threads = threads,
                      .stops = kStops.size(),
                      .violations = {}};
      std::uint64_t too_few = 0;
      for (const std::string& theirs : stage.gather(bytes_of(mine))) {
        Counts counts;
        std::memcpy(&counts, theirs.data(), sizeof(counts));
        row.compared += counts.compared;
        row.mismatches += counts.mismatches;
        row.handed_over += counts.handed_over;
        too_few += counts.too_few;
      }
      for (const std::string& theirs : stage.gather(error)) {
        if (!theirs.empty()) row.violations.push_back("exception: " + theirs);
      }
      if (row.mismatches > 0) row.violations.push_back(std::to_string(row.mismatches) + " batches differ");
      if (row.handed_over > 0) row.violations.push_back(std::to_string(row.handed_over) + " batches were handed over");
      if (too_few > 0) row.violations.emplace_back("fewer than 50 fresh batches after a stop");
      rows.push_back(std::move(row));
    }
  }
  if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
  return rows;
}

}  // namespace forebay::testing
