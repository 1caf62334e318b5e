// `forebay index --fill-cache`: reads what a run on this node will read, so that its first epoch
// finds it in the cache. The samples are those that the options select; with dataset.order =
// "local" and --node, those of one part. Readers take them in the order of the index, because
// neighbours lie in the same file. Nothing is decoded. A bad sample is only counted, since a run
// will report it. If the store fails for a minute the command ends; what is in the cache stays.

#include "fill_cache.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include <forebay/error.hpp>

#include "base/retry.hpp"
#include "base/text.hpp"
#include "data/memory_target.hpp"
#include "data/parallel.hpp"
#include "data/saved_index.hpp"
#include "data/source_files.hpp"
#include "order/local_shuffle.hpp"
#include "order/selection.hpp"
#include "output.hpp"
#include "store/objects.hpp"

namespace forebay::cli {
namespace {

// Chosen: with a remote store a reader waits most of the time.
constexpr unsigned kReaders = 16;

// The samples to read, ascending. Without `node` these are all selected samples, because with any
// order but "local" a node reads different samples in each epoch. Samples that weights leave out
// are left out here too. With `node` they are the homes of that part: all samples that it serves
// without exchange, including those that an epoch drops. They depend neither on the epoch nor on
// `exchange`.
std::vector<std::uint64_t> samples_of_node(const Options& options, const Dataset& dataset,
                                           std::optional<std::int64_t> node) {
  const auto selection = Selection::make(dataset, options.dataset, options.seed, options.run.eval);
  std::vector<std::uint64_t> ids(selection ? selection->samples() : dataset.size());
  for (std::uint64_t i = 0; i < ids.size(); ++i) ids[i] = selection ? selection->id(i) : i;
  if (!node) return ids;
  const Order order({.samples = ids.size(),
                     .batch_size = static_cast<std::uint32_t>(options.dataset.batch_size),
                     .seed = options.seed,
                     .drop_last = options.dataset.drop_last,
                     .parts = static_cast<std::uint32_t>(options.dataset.nodes),
                     .shards = static_cast<std::uint32_t>(options.mpi.virtual_shards)});
  const order::LocalShuffle shuffle(order.options(), order.batches());
  const PositionRange homes = shuffle.homes(static_cast<std::uint64_t>(*node));
  std::vector<std::uint64_t> own;
  for (std::uint64_t home = homes.begin; home < homes.end; ++home) own.push_back(ids[shuffle.place(home)]);
  std::ranges::sort(own);
  return own;
}

// Reads the image and its fields with the functions that a run uses, so that all of it is cached
// under the names that the run looks up.
void read_all(const Dataset& dataset, std::uint64_t id) {
  data::MemoryTarget target;
  const auto patiently = [&](const auto& read) { read_patiently([&] { return dataset.name(id); }, read); };
  patiently([&] { dataset.read(id, target); });
  for (std::size_t field = 0; field < dataset.fields().size(); ++field) {
    patiently([&] { dataset.read_field(id, field, target); });
  }
}

}  // namespace

void add_fill_options(CLI::App& command, FillArguments& arguments) {
  command.add_flag("--fill-cache", arguments.is_wanted,
                   "read all samples, so that cache.dir has them before a run; called again, it goes on");
  command
      .add_option("--node", arguments.node,
                  "with --fill-cache and dataset.order = \"local\": only those of this node, 0 to dataset.nodes - 1")
      ->check(CLI::Range(0, 1 << 20).description(""));
}

// Called before the index is built, which may take minutes.
void require_fillable(const FillArguments& arguments, const std::string& path, const Options& options) {
  const DatasetOptions& dataset = options.dataset;
  const auto& node = arguments.node;
  if (node && !arguments.is_wanted) throw ConfigError("--node goes with --fill-cache");
  if (!arguments.is_wanted) return;
  if (options.cache.dir.empty()) {
    throw ConfigError(
        "--fill-cache: there is no cache: add --set cache.dir=FOLDER, or name a configuration that has one");
  }
  if (data::is_saved_index(path)) {
    throw ConfigError("--fill-cache: a run looks for its data in the cache by dataset.path, and " + printable(path) +
                      " is an index: name the data or the configuration, and the index with --set dataset.index=FILE");
  }
  if (!node) return;
  if (dataset.order != SampleOrder::local || dataset.nodes == 0) {
    throw ConfigError(R"(--node: only dataset.order = "local" has samples of a node, and says of how many with )"
                      "dataset.nodes: set both, or leave --node out to read all samples");
  }
  if (*node < dataset.nodes) return;
  throw ConfigError("--node " + std::to_string(*node) + ": dataset.nodes = " + std::to_string(dataset.nodes) +
                    ", counted from 0");
}

std::optional<CacheFill> fill_cache(const FillArguments& arguments, const Options& options, const Dataset& dataset) {
  if (!arguments.is_wanted) return std::nullopt;
  ProgressBar bar("filling the cache");
  const auto cache = data::open_cache(options, dataset, [](const std::string& line) { throw ConfigError(line); });
  const std::vector<std::uint64_t> ids = samples_of_node(options, dataset, arguments.node);
  std::atomic<std::uint64_t> read{0};
  std::atomic<std::uint64_t> unreadable{0};
  std::atomic<std::uint64_t> from_store{0};
  std::atomic<bool> is_full{false};
  // take_traffic() tells the thread that made a read where its bytes came from. Once the cache is
  // full, nothing more is read, because it would not be kept.
  const auto read_one = [&](std::size_t i) {
    if (is_full.load()) return;
    try {
      read_all(dataset, ids[i]);
    } catch (const SampleError& error) {
      if (error.is_transient()) {
        throw Error(dataset.name(ids[i]) + ": " + error.what() + "; what the cache has stays, run the command again");
      }
      ++unreadable;
    }
    const store::Traffic traffic = store::take_traffic();
    from_store += traffic.from_store;
    if (traffic.from_store > 0 && !cache->may_write()) {
      is_full = true;
    } else {
      ++read;
    }
  };
  const unsigned readers =
      options.workers.io > 0 ? static_cast<unsigned>(options.workers.io) : std::max(kReaders, data::index_threads());
  data::run_parallel({ids.size(), readers, bar.progress()}, read_one);
  return CacheFill{
      .samples = ids.size(), .read = read, .unreadable = unreadable, .from_store = from_store, .held = cache->held()};
}

std::string to_text(const CacheFill& fill) {
  std::string text = grouped(fill.read) + " of " + grouped(fill.samples) + " samples, " + size_text(fill.from_store) +
                     " of them from the store; the cache holds " + size_text(fill.held);
  if (fill.unreadable > 0) text += "; " + grouped(fill.unreadable) + " could not be read";
  if (fill.read < fill.samples)
    text += " and takes no more: it is full, or its disk failed; what else it has is of earlier runs";
  return text;
}

nlohmann::ordered_json to_json(const CacheFill& fill) {
  return {{"samples", fill.samples},
          {"read", fill.read},
          {"unreadable", fill.unreadable},
          {"from_store", fill.from_store},
          {"held", fill.held}};
}

}  // namespace forebay::cli
