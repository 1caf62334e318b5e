// Looks at a run before it takes memory or time: whether the ring fits into the node's memory and
// into each memory cgroup with the ranks that share it, and whether options look like mistakes (a
// mean of 0.485 for pixels of 0 to 255, far more threads than cores, shards that do not divide). A
// process that exceeds its cgroup is killed without a word, so what is certain is refused here and
// what is likely becomes a warning.

#include "start_checks.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include <forebay/error.hpp>

#include "base/cores.hpp"
#include "base/text.hpp"

namespace forebay::job {
namespace {

// Where a version of cgroups keeps what is asked for here.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* active;  // keys of memory.stat
  const char* inactive;
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_active_file",
                               "total_inactive_file"};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "active_file", "inactive_file"};
// Version 1 says "no limit" with the largest multiple of the page size that fits into 63 bits.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

// Nothing when there is no such file or it does not begin with a number ("max").
std::optional<std::uint64_t> number_in(const std::string& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  if (in >> number) return number;
  return std::nullopt;
}

// The number after a word at the beginning of a line; 0 when there is none.
std::uint64_t number_after(const std::string& file, std::string_view word) {
  std::ifstream in(file);
  std::string key;
  std::uint64_t number = 0;
  for (std::string rest; in >> key >> number; std::getline(in, rest)) {
    if (key == word) return number;
  }
  return 0;
}

std::optional<std::uint64_t> room_of_group(const GroupFolder& group) {
  const GroupFiles& files = group.version == 1 ? kVersion1 : kVersion2;
  const auto limit = number_in(group.path + "/" + files.limit);
  const auto used = number_in(group.path + "/" + files.used);
  if (!limit || !used || *limit >= kNoLimit) return std::nullopt;
  const std::string stat = group.path + "/memory.stat";
  const std::uint64_t cache = number_after(stat, files.active) + number_after(stat, files.inactive);
  const std::uint64_t taken = *used - std::min(*used, cache);
  return *limit - std::min(*limit, taken);
}

// " 12:345", or nothing where the folder is not to be seen.
std::string id_of_group(const std::string& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return {};
  return " " + std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
}

std::string for_each_of(unsigned ranks, const char* where) {
  return ranks > 1 ? " for each of the " + std::to_string(ranks) + " ranks " + where : "";
}

}  // namespace

AvailableMemory available_memory(const std::string& root) {
  AvailableMemory room;
  if (const std::uint64_t kib = number_after(root + "/proc/meminfo", "MemAvailable:"); kib > 0) room.node = kib * 1024;
  for (const GroupFolder& group : groups_of_process("memory", root)) {
    const std::optional<std::uint64_t> here = room_of_group(group);
    if (here) room.groups.push_back({.folder = group.path, .id = id_of_group(group.path), .room = *here});
  }
  return room;
}

std::string ids_of_groups(const AvailableMemory& room) {
  std::string ids;
  for (const MemoryGroup& group : room.groups) ids += group.id;
  return ids + " ";
}

void count_ranks(AvailableMemory& room, const std::vector<std::string>& all, bool is_certain) {
  room.ranks = static_cast<unsigned>(all.size());
  for (MemoryGroup& group : room.groups) {
    const auto is_in_it = [id = group.id + " "](const std::string& ids) { return ids.find(id) != std::string::npos; };
    group.ranks = static_cast<unsigned>(std::ranges::count_if(all, is_in_it));
    group.is_certain = is_certain;
  }
}

std::string require_memory(const RingNeed& need, const AvailableMemory& room) {
  const std::string ring = need.on_host
                               ? "the ring needs " + mebibytes(need.bytes) + " (" + std::to_string(need.slots) +
                                     " slots: queue.capacity + queue.pool + queue.max_leases - 1)"
                               : "assembling batches for the GPU needs " + mebibytes(need.bytes) + " of host memory (" +
                                     std::to_string(need.slots) + " batches: queue.capacity)";
  const std::string advice = std::string("; lower queue.capacity, queue.pool, dataset.batch_size") +
                             (need.are_clips ? ", clip.frames" : "") + (need.are_views ? ", transform.views" : "") +
                             " or transform.size, or choose a smaller transform.dtype";
  if (room.node && need.bytes > *room.node / room.ranks) {
    throw ConfigError(ring + for_each_of(room.ranks, "on this node") + ", and there is room for " +
                      mebibytes(*room.node) + " (MemAvailable)" + advice);
  }
  const auto sure = [](const MemoryGroup& group) { return group.is_certain ? group.ranks : 1; };
  const auto has = [](const MemoryGroup& group) {
    return ", and the memory cgroup " + group.folder + " has room for " + mebibytes(group.room);
  };
  const auto small = std::ranges::find_if(
      room.groups, [&](const MemoryGroup& group) { return need.bytes > group.room / sure(group); });
  if (small != room.groups.end()) {
    throw ConfigError(ring + for_each_of(sure(*small), "in it") + has(*small) + advice);
  }
  const auto shared = std::ranges::find_if(
      room.groups, [&](const MemoryGroup& group) { return need.bytes > group.room / group.ranks; });
  if (shared == room.groups.end()) return "";
  return ring + has(*shared) + ": if the " + std::to_string(shared->ranks) +
         " ranks on this node share it, they will be killed" + advice;
}

std::uint64_t room_of_rank(const AvailableMemory& room) noexcept {
  std::uint64_t part = room.node.value_or(UINT64_MAX) / room.ranks;
  for (const MemoryGroup& group : room.groups) part = std::min(part, group.room / group.ranks);
  return part;
}

std::uint64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");  // in pages: size, resident, of it shared
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  std::uint64_t shared = 0;
  if (!(in >> size >> resident >> shared) || resident < shared) return 0;
  return (resident - shared) * static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PAGESIZE)));
}

namespace {

// Above these a thread more cannot help: a decoder is busy, a reader mostly waits for the store.
// Chosen.
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
  return std::string(key) + " = " + std::to_string(threads) + ", and this rank has " + counted(cores, "core") +
         R"(: so many threads only take turns; "auto" finds the number that helps)";
}

// In lockstep an epoch is as long as the rank with the most shards needs, and the others are padded.
std::string uneven_shards(const MpiOptions& mpi, std::uint32_t ranks) {
  const auto shards = static_cast<std::uint64_t>(mpi.virtual_shards);
  const std::uint64_t most = (shards + ranks - 1) / ranks;
  if (mpi.mode != MpiMode::lockstep || 10 * most * ranks <= 11 * shards) return {};
  return "mpi.virtual_shards = " + std::to_string(shards) + " gives some of the " + std::to_string(ranks) + " ranks " +
         std::to_string(most) + " shards and others " + std::to_string(shards / ranks) + ", so an epoch takes " +
         std::to_string(100 * most * ranks / shards - 100) +
         " % more steps than it has to: set it to a multiple of the number of ranks";
}

// Whether a section has another value than by default. All are of numbers of 8 bytes.
template <typename Section>
bool is_set(const TransformOptions& transform, Section TransformOptions::*section) {
  using Bytes = std::array<std::byte, sizeof(Section)>;
  return std::bit_cast<Bytes>(transform.*section) != std::bit_cast<Bytes>(TransformOptions{}.*section);
}

// Keys of the emulated store that change nothing without another one.
void add_idle_storage(const StorageOptions& storage, std::vector<std::string>& warnings) {
  const auto needs = [&](const std::string& key, double value, const std::string& other, double others) {
    if (value > 0 && others == 0)
      warnings.push_back("storage." + key + " changes nothing, because storage." + other + " = 0: set both or neither");
  };
  needs("jitter", storage.jitter, "latency_ms", storage.latency_ms);
  needs("slow_rate", storage.slow_rate, "slow_ms", storage.slow_ms);
  needs("slow_ms", storage.slow_ms, "slow_rate", storage.slow_rate);
  needs("burst_mb", storage.burst_mb, "bandwidth_mb_s", storage.bandwidth_mb_s);
  needs("outage_every_s", storage.outage_every_s, "outage_s", storage.outage_s);
  needs("outage_s", storage.outage_s, "outage_every_s", storage.outage_every_s);
}

// Sections that are set and change nothing.
void add_idle_sections(const Options& options, std::vector<std::string>& warnings) {
  const TransformOptions& transform = options.transform;
  const auto of_operation = [&](const std::string& name, auto section) {
    const bool is_named = std::ranges::find(transform.operations, name) != transform.operations.end();
    if (is_named || !is_set(transform, section)) return;
    warnings.push_back("[" + name + "] is set and not applied, because transform.operations does not name it: add \"" +
                       name + "\" there, or leave the section out");
  };
  of_operation("colour", &TransformOptions::colour);
  of_operation("blur", &TransformOptions::blur);
  of_operation("solarise", &TransformOptions::solarise);
  of_operation("erase", &TransformOptions::erase);
  const auto of_mixing = [&](const std::string& name, MixOptions TransformOptions::*section) {
    const double probability = (transform.*section).probability;
    if (probability == 0 && is_set(transform, section)) {
      warnings.push_back("[" + name + "] is set and mixes nothing, because " + name +
                         ".probability = 0: set it, 1 mixes every batch, or leave the section out");
    } else if (probability > 0 && options.dataset.batch_size == 1) {
      warnings.push_back(name +
                         ".probability: mixes nothing, because that is done within a batch and "
                         "dataset.batch_size = 1");
    }
  };
  of_mixing("mixup", &TransformOptions::mixup);
  of_mixing("cutmix", &TransformOptions::cutmix);
}

}  // namespace

void resolve_folders(Options& options) {
  const auto resolve = [](const char* key, std::string& path) {
    std::error_code error;
    const auto whole = std::filesystem::absolute(path, error);
    if (error) {
      throw ConfigError(std::string(key) + " = \"" + printable(path) + "\": the working folder cannot be found (" +
                        error.message() + "); give the path from the root on");
    }
    path = whole.string();
  };
  TelemetryOptions& telemetry = options.telemetry;
  if (!telemetry.dir.empty()) resolve("telemetry.dir", telemetry.dir);
  if (!options.cache.dir.empty()) resolve("cache.dir", options.cache.dir);
  if (telemetry.prometheus.ends_with(".prom")) resolve("telemetry.prometheus", telemetry.prometheus);  // else a port
}

std::string split_notice(const std::string& folder) {
  if (folder.empty()) return "";
  return "dataset.split and fraction go by the files' paths below " + folder +
         ", which all share; with a file elsewhere, or a part of them only, other files are in each part";
}

std::string folders_notice(const Options& options, Communicator& communicator) {
  if (communicator.size() == 1) return "";
  const std::vector<std::string> dirs = communicator.all_gather(options.telemetry.dir);
  const auto other = std::ranges::find_if(dirs, [&](const std::string& dir) { return !dir.empty() && dir != dirs[0]; });
  if (dirs[0].empty() || other == dirs.end()) return "";
  const std::string rank = "rank " + std::to_string(other - dirs.begin());
  return "telemetry.dir is \"" + printable(dirs[0]) + "\" on rank 0 and \"" + printable(*other) + "\" on " + rank +
         ": these processes are the ranks of one job, and each serves its part of the data. Start runs of their own "
         "without the launcher, or with srun --mpi=none";
}

std::vector<std::string> start_warnings(const Options& options, const produce::WorkerPlan& plan, std::uint32_t ranks) {
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
  add_idle_storage(options.storage, warnings);
  if (!options.run.eval) add_idle_sections(options, warnings);
  if (std::string uneven = uneven_shards(options.mpi, ranks); !uneven.empty()) warnings.push_back(std::move(uneven));
  return warnings;
}

std::string batches_warning(const RunOptions& run, const order::Partition& partition) {
  if (run.eval) {
    const auto steps = static_cast<std::uint64_t>(run.steps);
    const std::uint64_t batches = order::most_batches(partition);
    if (steps == 0 || steps >= batches) return {};
    return "run.steps = " + std::to_string(steps) + " ends the evaluation after " + std::to_string(steps) + " of the " +
           std::to_string(batches) +
           " batches of a rank: the samples of the others are not evaluated. run.steps = 0 evaluates all";
  }
  std::uint64_t without = 0;
  for (std::uint32_t rank = 0; rank < partition.ranks; ++rank) {
    if (order::batches_of(partition, rank) == 0) ++without;
  }
  if (without == 0) return {};
  return std::to_string(without) + " of " + std::to_string(partition.ranks) +
         " ranks have no batch of their own, because an epoch has " + std::to_string(partition.batches) +
         " batches: they serve the same one at every step; lower dataset.batch_size or start fewer ranks";
}

std::vector<std::string> index_warnings(std::span<const Skipped> skipped) {
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> warnings;
  std::size_t more = 0;
  for (const Skipped& entry : skipped) {
    if (entry.bad || !entry.told) continue;
    if (warnings.size() < kNamed) {
      warnings.push_back(entry.path + ": " + entry.reason);
    } else {
      ++more;
    }
  }
  if (more > 0)
    warnings.push_back("and " + std::to_string(more) + " more warnings of the index: forebay index has all");
  return warnings;
}

void refuse_moved_fields(std::span<const Field> fields, const make::OperationChain& operations) {
  const std::string* const mover = operations.first_mover();
  const auto field = std::ranges::find_if(fields, [](const Field& each) { return follows_view(each.kind); });
  if (mover == nullptr || field == fields.end()) return;
  throw ConfigError("transform.operations: \"" + *mover + "\" may move pixels, which the field \"" + field->name +
                    "\" cannot follow; leave one of them out, or have Operation::keeps_places() say that it does not");
}

}  // namespace forebay::job
