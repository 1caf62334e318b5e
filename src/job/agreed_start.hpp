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

// What the ranks settle among themselves before the first batch. All collective; the thread that calls next().
namespace forebay::job {

// Memory that the ranks of a node share; where they cannot, each rank has its own, and `notice` says so. Collective.
[[nodiscard]] std::unique_ptr<SharedMemory> share_or_own(Communicator& communicator, std::size_t bytes,
                                                         std::string& notice);

// Rank 0 loads or builds the index; the others never walk the directories. A rank that finds rank 0's index under
// options.index maps that file, so that all ranks of a node share its pages. Where one does not, rank 0 sends the
// index, and the ranks of a node keep one copy in memory that they share. Throws rank 0's error on all ranks.
// `progress` is rank 0's, and may end the build by throwing. Rank 0 compares a saved index with its data, and sets
// `remark` to what there is to say of that.
[[nodiscard]] std::shared_ptr<Dataset> share_dataset(const DatasetOptions& options, Communicator& communicator,
                                                     const IndexProgress& progress = {},
                                                     data::IndexRemark* remark = nullptr);

// Throws Error on all ranks when a rank runs with other options or another dataset: the sections that only concern
// one rank (telemetry, workers, storage, trainer) may differ.
void require_same_run(const Options& options, const Dataset& dataset, Communicator& communicator);

// The order that the program gives with the dataset `given`, else what dataset.split, fraction and weights leave of it;
// null when every sample is served once. `dataset` is the same, guarded. Throws ConfigError on all ranks when one
// cannot select, or when ranks have different files of weights.
[[nodiscard]] std::shared_ptr<const Selection> share_selection(const Options& options, const Dataset& dataset,
                                                               const Dataset& given, Communicator& communicator);

// dataset.nodes of these options, settled: as it is, or the `saved` job's. Where both are 0 and the order is "local",
// as many as there are nodes, or ranks where nodes do not have equally many ranks, one after the other. `notice`: why a
// node does not read the same samples in every epoch; mostly empty. Collective, also where the ranks' options differ.
[[nodiscard]] std::int64_t share_parts(const Options& options, std::int64_t saved, Communicator& communicator,
                                       std::string& notice);

// The order of a run with these options, once share_parts() has settled them. `samples`: of an epoch.
[[nodiscard]] OrderOptions order_options(const Options& options, std::uint64_t samples,
                                         std::shared_ptr<const Selection> selection);

// This rank among those that share its node.
struct NodeShare {
  device::NodePlace place = {};
  Cores cores = {};      // of this process
  CoreShare share = {};  // of them
  AvailableMemory room = {};
  std::string notice = {};  // the launcher's variables contradict each other or the communicator; mostly empty
};
// `counter` and `first` lie in memory that the ranks of the node share and are 0 at first: so the node is MPI's, or
// that of whatever communicator it is. A rank whose communicator knows of no other asks `launcher`. All have looked at
// their memory before one goes on, and takes of it.
[[nodiscard]] NodeShare share_of_node(std::int64_t& counter, std::int64_t& first, Communicator& communicator,
                                      const Cores& cores, const LauncherPlace& launcher);

}  // namespace forebay::job
