#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <forebay/communicator.hpp>
#include <forebay/dataset.hpp>
#include <forebay/options.hpp>
#include <forebay/order.hpp>

#include "base/cores.hpp"
#include "base/launch.hpp"
#include "data/saved_index.hpp"
#include "device/device_choice.hpp"
#include "order/selection.hpp"
#include "start_checks.hpp"

// Agreements between the ranks before the first batch. All functions are collective and run on the thread that calls
// next().
namespace forebay::job {

// Memory shared by the ranks of a node; if sharing is impossible, each rank has its own, and `notice` says so.
// Collective.
[[nodiscard]] std::unique_ptr<SharedMemory> share_or_own(Communicator& communicator, std::size_t bytes,
                                                         std::string& notice);

// Rank 0 loads or builds the index; the others never walk the directories. A rank that finds rank 0's index at
// options.index opens that file, whose pages in the page cache are shared by all ranks of a node. If a rank does not
// find it, rank 0 sends the index, and the ranks of a node keep one copy in shared memory. Throws rank 0's error on all
// ranks. `progress` is rank 0's, and may end the build by throwing. Rank 0 compares a saved index with its data, and
// sets `remark` to the result.
[[nodiscard]] std::shared_ptr<Dataset> share_dataset(const DatasetOptions& options, Communicator& communicator,
                                                     const IndexProgress& progress = {},
                                                     data::IndexRemark* remark = nullptr);

// Throws Error on all ranks if a rank runs with other options or another dataset. The sections that concern only one
// rank (telemetry, workers, storage, trainer) may differ.
void require_same_run(const Options& options, const Dataset& dataset, Communicator& communicator);

// The order that the program gives with the dataset `given`, or else the selection by dataset.split, fraction and
// weights; null if every sample is served once. `dataset` is the same dataset, guarded. Throws ConfigError on all ranks
// if one cannot select, or if ranks have different weight files.
[[nodiscard]] std::shared_ptr<const Selection> share_selection(const Options& options, const Dataset& dataset,
                                                               const Dataset& given, Communicator& communicator);

// The effective dataset.nodes: the option's value, or the `saved` job's. If both are 0 and the order is "local", it is
// the number of nodes, or the number of ranks unless nodes have equal numbers of consecutive ranks. `notice`: why a
// node does not read the same samples in every epoch; usually empty. Collective, even if the ranks' options differ.
[[nodiscard]] std::int64_t share_parts(const Options& options, std::int64_t saved, Communicator& communicator,
                                       std::string& notice);

// The order of a run with these options, once share_parts() has settled them. `samples`: samples per epoch.
[[nodiscard]] OrderOptions order_options(const Options& options, std::uint64_t samples,
                                         std::shared_ptr<const Selection> selection);

// This rank among those that share its node.
struct NodeShare {
  device::NodePlace place = {};
  Cores cores = {};      // of this process
  CoreShare share = {};  // of them
  AvailableMemory room = {};
  std::string notice = {};  // the launcher's variables contradict each other or the communicator; usually empty
};
// `counter` and `first` are in memory shared by the ranks of the node, initially 0, so a node is what the communicator
// regards as one. A rank whose communicator has no other ranks uses `launcher`. All ranks have checked the available
// memory before any of them continues and allocates.
[[nodiscard]] NodeShare share_of_node(std::int64_t& counter, std::int64_t& first, Communicator& communicator,
                                      const Cores& cores, const LauncherPlace& launcher);

}  // namespace forebay::job
