#include "training.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <span>
#include <utility>

#include <forebay/error.hpp>

#include "data/parallel.hpp"
#include "make/signature.hpp"
#include "pack/pack_tables.hpp"
#include "sample_bytes.hpp"
#include "shared_file.hpp"

namespace forebay::archive {
namespace {

namespace fs = std::filesystem;

// Chosen, like the next.
constexpr std::uint64_t kTrainedOn = 256;                          // images, spread over the dataset
constexpr std::size_t kLargestTrainedOn = std::size_t{16} << 20U;  // bytes of one

std::vector<std::byte> read_tables(const fs::path& file) {
  try {
    std::vector<std::byte> bytes = load_file(file.string(), data::kLargestPackTables);
    if (!bytes.empty()) (void)pack::PackTables::from_bytes(bytes);
    return bytes;
  } catch (const Error& error) {
    throw ConfigError(file.string() + ": " + error.what() + "; remove the folder, or name another");
  }
}

// An image file that may be packed; nothing for others. Throws SampleError, and Error if the store fails again and
// again.
std::optional<std::vector<std::byte>> jpeg_file(const Dataset& dataset, std::uint64_t id,
                                                const StorePatience& patience) {
  if (dataset.sample(id).encoding != Encoding::image) return std::nullopt;
  std::vector<std::byte> bytes;
  try {
    bytes = bytes_by(patience, dataset, id, [&](ReadTarget& target) { dataset.read(id, target); });
  } catch (const SampleError& error) {
    if (error.is_transient()) end_for_store(dataset.name(id), error);
    throw;
  }
  if (make::starts_as_jpeg(bytes) && bytes.size() <= kLargestTrainedOn) return bytes;
  return std::nullopt;
}

// Tables are for good, so they are not made where more images cannot be read now than may be bad,
// or none can. Spread evenly over the dataset, which may be sorted by class; the result depends on
// the dataset alone, not on threads.
std::vector<std::byte> trained(const Dataset& dataset, const PackSettings& settings) {
  const std::uint64_t count = std::min(kTrainedOn, dataset.size());
  std::vector<std::optional<std::vector<std::byte>>> files(count);
  std::atomic<std::uint64_t> bad{0};
  data::ParallelTask task;
  task.count = task.total = count;
  task.body = [&](std::size_t i) {
    const std::uint64_t id = dataset.size() * i / count;
    try {
      files[i] = jpeg_file(dataset, id, settings.patience);
    } catch (const SampleError& error) {
      const std::uint64_t so_far = ++bad;
      const Skipped last{.path = dataset.name(id), .reason = error.what(), .bad = true};
      require_few_bad(settings, so_far, dataset.size(), last);
      if (so_far == count) {
        throw Error(last.path + ": " + last.reason + "; none of " + std::to_string(count) + " images can be read");
      }
    }
  };
  data::run_parallel(task, settings.threads, {});
  pack::PackTraining training;
  for (auto& file : files) {
    if (file) (void)training.add(*file);
    file.reset();
  }
  if (training.files() == 0) return {};
  const pack::PackTables tables = training.finish();
  const auto bytes = tables.to_bytes();
  return {bytes.begin(), bytes.end()};
}

}  // namespace

// All shards of a set must have the same tables, so they are made once and kept in a file beside
// the shards.
std::vector<std::byte> tables_for_pack(const Dataset& dataset, const PackSettings& settings) {
  if (!settings.coefficients || settings.pixels > 0) return {};
  const fs::path path = settings.out / kPackTables;
  make_shared_file(path, [&] { return trained(dataset, settings); });
  return read_tables(path);
}

}  // namespace forebay::archive
