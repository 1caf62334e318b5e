#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <forebay/communicator.hpp>
#include <forebay/dataset.hpp>
#include <forebay/field.hpp>
#include <forebay/options.hpp>

#include "make/operation_chain.hpp"
#include "order/ledger.hpp"
#include "produce/tuner.hpp"

// Checks before a run starts: whether it fits into memory (a process killed for lack of memory cannot explain itself),
// and whether its options look intended.
namespace forebay::job {

// A memory cgroup with a limit that applies to this process.
struct MemoryGroup {
  std::string folder;
  std::string id;          // the kernel's: containers give theirs the same folder
  std::uint64_t room = 0;  // limit - used + page cache
  unsigned ranks = 1;      // of the node in it
  bool is_certain = true;  // it is known which are
};

// Bytes that this process may still allocate without swapping. Page cache counts as free, because the kernel reclaims
// it.
struct AvailableMemory {
  std::optional<std::uint64_t> node = std::nullopt;  // MemAvailable of /proc/meminfo
  unsigned ranks = 1;                                // of the node
  std::vector<MemoryGroup> groups = {};
};

// Looks into `root` + "/proc" and "/sys/fs/cgroup" (versions 1 and 2, every level). Unreadable values are left empty.
[[nodiscard]] AvailableMemory available_memory(const std::string& root = "");

// The ids of its groups as one line, to be sent to the other ranks of the node.
[[nodiscard]] std::string ids_of_groups(const AvailableMemory& room);
// Counts the ranks of the node, and those in each group. `all`: ids_of_groups() of all ranks, including this one; if
// ranks do not know of each other, this rank's repeated, with is_certain = false.
void count_ranks(AvailableMemory& room, const std::vector<std::string>& all, bool is_certain);

// The ring of one rank, for messages.
struct RingNeed {
  std::uint64_t slots = 0;
  std::uint64_t bytes = 0;  // of all slots
  bool on_host = true;      // false: slots are on a GPU, and these are the batches being assembled for it
  bool are_clips = false;
  bool are_views = false;  // several of each sample
};

// Throws ConfigError, naming the keys to lower, if the rings of all ranks in a group, or on the node, do not fit into
// its memory; ranks are assumed to be alike. Returns a warning if it is not certain that they share the group; else an
// empty string.
[[nodiscard]] std::string require_memory(const RingNeed& need, const AvailableMemory& room);

// This rank's equal share of it. Unlimited if nothing is known.
[[nodiscard]] std::uint64_t room_of_rank(const AvailableMemory& room) noexcept;

// Resident memory of this process that is not shared with files; 0 = unknown.
[[nodiscard]] std::uint64_t resident_bytes();

// A warning if run.steps omits a part of an evaluation, or if in training some ranks have no batch of their own, and so
// would repeat one for ever; else empty.
[[nodiscard]] std::string batches_warning(const RunOptions& run, const order::Partition& partition);

// Makes folders absolute: files in them are opened later too, when the program may work in another folder.
void resolve_folders(Options& options);

// Why ranks with different telemetry.dir may not be what the user meant; usually empty. Collective.
[[nodiscard]] std::string folders_notice(const Options& options, Communicator& communicator);

// What a split of files below `folder` depends on; empty if that is.
[[nodiscard]] std::string split_notice(const std::string& folder);

// Warnings about options that are permitted but hardly ever intended, with advice: normalising 8-bit pixels as if they
// were 0 to 1, far more threads than this rank has cores for (WorkerPlan::cores), and virtual shards that give some of
// so many ranks much more than others, where nothing is handed over, and sections of operations and of mixing that
// change nothing.
[[nodiscard]] std::vector<std::string> start_warnings(const Options& options, const produce::WorkerPlan& plan,
                                                      std::uint32_t ranks);

// The index's notes at the start of a run (Skipped::told): the first few, and how many more there are.
[[nodiscard]] std::vector<std::string> index_warnings(std::span<const Skipped> skipped);

// Throws ConfigError if an operation may move pixels and a field would have to follow.
void refuse_moved_fields(std::span<const Field> fields, const make::OperationChain& operations);

}  // namespace forebay::job
