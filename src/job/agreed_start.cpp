// What all ranks must have alike before the first batch: the configuration, the dataset, the
// selection; and what a rank finds out about its node. All of it collective, on the trainer's
// thread, at the start.
//
// Rank 0 opens or builds the index and announces which one it is. A rank that finds the same file
// uses it; otherwise rank 0 sends the index in chunks, into memory that the ranks of a node share.
// Everything else is compared rather than sent: each rank makes a text of what must be equal, and
// only the first difference travels.

#include "agreed_start.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/config.hpp>
#include <forebay/error.hpp>

#include "base/text.hpp"
#include "data/index_image.hpp"
#include "ranks/agreed_error.hpp"
#include "ranks/early_end.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay::job {
namespace {

// No index has more bytes, and no sum with this one overflows.
constexpr std::uint64_t kMostIndexBytes = std::uint64_t{1} << 50U;

// What rank 0 says of the index before anybody gets it: how opening it went, and which index it is or what was wrong.
struct Announcement {
  enum class Kind : std::uint8_t { index, config_error, error };

  Kind kind = Kind::index;
  std::uint64_t identity = 0;
  std::uint64_t bytes = 0;
  std::string problem;
};

std::vector<std::byte> to_bytes(const Announcement& announcement) {
  data::IndexWriter writer;
  writer(announcement.kind, announcement.identity, announcement.bytes, announcement.problem);
  return writer.take();
}

Announcement to_announcement(std::span<const std::byte> bytes) {
  data::IndexReader reader(bytes, "what rank 0 said of the index");
  Announcement announcement;
  reader(announcement.kind, announcement.identity, announcement.bytes, announcement.problem);
  if (announcement.bytes > kMostIndexBytes) {
    throw Error("rank 0 said that the index has " + std::to_string(announcement.bytes) +
                " bytes, which no memory holds; do all ranks run the same version of Forebay?");
  }
  return announcement;
}

// Errors are part of the announcement, since the other ranks are already waiting for it.
Announcement announce(const DatasetOptions& options, const IndexProgress& progress, data::OpenedDataset& opened) {
  Announcement announcement;
  try {
    opened = data::open_with_remark(options, progress);
    const data::IndexImage& image = *data::image_of(*opened.dataset);
    announcement.identity = image.identity();
    announcement.bytes = image.bytes();
  } catch (const ConfigError& error) {
    announcement.kind = Announcement::Kind::config_error;
    announcement.problem = error.what();
  } catch (const std::exception& error) {
    announcement.kind = Announcement::Kind::error;
    announcement.problem = cause_of(error);
  }
  return announcement;
}

// The saved index, when this rank finds there what rank 0 found. Whatever is wrong with it, rank 0 has a sound one.
std::unique_ptr<Dataset> find_same(const std::string& file, std::uint64_t identity) {
  if (file.empty()) return nullptr;
  try {
    auto dataset = load_index(file);
    return data::image_of(*dataset)->identity() == identity ? std::move(dataset) : nullptr;
  } catch (const std::exception&) {
    return nullptr;
  }
}

// Where the broadcast index goes: one place for all ranks of a node, or one for each rank where nodes have no room for
// shared memory. The first rank to come writes it.
struct Destination {
  std::shared_ptr<SharedMemory> memory;
  std::span<std::byte> bytes;
  bool writes = false;
};

// A counter before the bytes: whoever raises it from 0 writes, the other ranks of the node only
// take part in the broadcast.
Destination make_destination(std::size_t bytes, Communicator& communicator) {
  constexpr std::size_t kCounter = sizeof(std::int64_t);
  Destination destination;
  std::string notice;
  destination.memory = share_or_own(communicator, kCounter + bytes, notice);
  const auto memory = destination.memory->bytes();
  auto& arrived = *reinterpret_cast<std::int64_t*>(memory.data());
  destination.writes = std::atomic_ref<std::int64_t>(arrived).fetch_add(1) == 0;
  destination.bytes = memory.subspan(kCounter);
  return destination;
}

// In chunks, so that ranks that only take part need no room for all of it. `own` is rank 0's. A chunk that rank 0
// cannot read is sent as nothing, and ends this on all ranks.
data::IndexBytes broadcast_index(const data::IndexImage* own, std::size_t bytes, Communicator& communicator) {
  constexpr std::size_t kChunk = std::size_t{4} << 20U;
  const Destination destination = make_destination(bytes, communicator);
  for (std::size_t at = 0; at < bytes; at += kChunk) {
    const std::size_t size = std::min(kChunk, bytes - at);
    std::vector<std::byte> chunk;
    std::exception_ptr unreadable;
    try {
      if (own != nullptr) {
        chunk.resize(size);
        own->read_unchecked(at, chunk);
      }
    } catch (const Error&) {
      unreadable = std::current_exception();
      chunk.clear();
    }
    chunk = communicator.broadcast(std::move(chunk), 0);
    if (unreadable) std::rethrow_exception(unreadable);
    if (chunk.size() != size)
      throw Error("rank 0 can no longer read the index that it was sending; its error says why");
    if (destination.writes) std::ranges::copy(chunk, destination.bytes.subspan(at).begin());
  }
  // Between the writer's stores and the gather after which the others read.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  (void)communicator.all_gather("");  // every writer has written
  return {.bytes = destination.bytes, .owner = destination.memory};
}

// A line for each field, so that a difference shows what it is; long lists of classes as their hash.
std::string described(const Field& field) {
  std::string line = "field \"" + field.name + "\": " + std::string(to_string(field.kind)) + ", " +
                     std::string(to_string(field.dtype)) + ", shape [";
  for (const std::int64_t extent : field.shape) line += std::to_string(extent) + " ";
  if (line.ends_with(' ')) line.pop_back();
  std::string classes;
  for (const std::string& name : field.classes) classes += std::to_string(name.size()) + ":" + name;
  line += "], " + std::to_string(field.classes.size()) + " classes";
  if (!classes.empty()) line += " (hash " + hex(XXH3_64bits(classes.data(), classes.size()), 16) + ")";
  line += ", min_visible " + shortest(field.min_visible) + ", mean and std";
  for (std::size_t i = 0; i < 3; ++i) line += " " + shortest(field.mean[i]) + " " + shortest(field.std[i]);
  for (const std::string& colour : field.colours) line += ", colour " + colour;
  return line;
}

// Lines about the dataset begin with this.
constexpr std::string_view kOfDataset = "the dataset's ";

// Everything but what may differ between ranks: files, workers, the emulated store, the cache of
// the node, the simulated trainer, and where the index lies.
std::string run_key(const Options& options, const Dataset& dataset) {
  Options common = options;
  common.telemetry = {};
  common.workers = {};
  common.storage = {};
  common.cache = {};
  common.trainer = {};
  common.dataset.index.clear();
  std::string key = to_toml(common);
  const auto add = [&key](const std::string& name, std::uint64_t number) {
    key += std::string(kOfDataset) + name + " " + std::to_string(number) + "\n";
  };
  add("number of samples", dataset.size());
  add("number of classes", dataset.classes().size());
  add("fingerprint", fingerprint(dataset));
  add("number of fields", dataset.fields().size());
  for (const Field& field : dataset.fields()) key += std::string(kOfDataset) + described(field) + "\n";
  return key;
}

bool has_parts(const Options& options) noexcept {
  return options.dataset.order == SampleOrder::local && options.dataset.shuffle && !options.run.eval;
}

std::string first_line_that_differs(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const auto line_a = a.substr(0, a.find('\n'));
    const auto line_b = b.substr(0, b.find('\n'));
    if (line_a != line_b) return "\"" + std::string(line_a) + "\" there, \"" + std::string(line_b) + "\" on rank 0";
    a.remove_prefix(std::min(a.size(), line_a.size() + 1));
    b.remove_prefix(std::min(b.size(), line_b.size() + 1));
  }
  return "one has more keys than the other";
}

}  // namespace

std::unique_ptr<SharedMemory> share_or_own(Communicator& communicator, std::size_t bytes, std::string& notice) {
  try {
    return communicator.share_on_node(bytes);
  } catch (const Error& error) {  // on all ranks or none
    notice = std::string(error.what()) +
             "; each rank has a copy of its own instead, and asks its launcher which ranks share its node";
    return solo_communicator()->share_on_node(bytes);
  }
}

}  // namespace forebay::job

namespace forebay {

// On a communicator of its own, because the program may use the given one for other things if this
// throws.
Options load_options(const std::string& file, const Communicator& communicator, std::span<const std::string> overrides,
                     const Options& defaults) {
  if (communicator.size() == 1) return load_options(file, overrides, defaults);
  const std::unique_ptr<Communicator> own = communicator.duplicate();
  Options options;
  std::string problem;
  try {
    options = load_options(file, overrides, defaults);
  } catch (const std::exception& error) {
    problem = cause_of(error);
  }
  const auto failure = ranks::agreed_failure(*own, problem);
  own->close(ranks::kPartingS);
  if (!failure) return options;
  own->note_failure(*failure);
  throw ConfigError(*failure);
}

}  // namespace forebay

namespace forebay::job {

// A rank with a file of its own that is on disk keeps it even where the index is sent, and takes
// part in the broadcast all the same.
std::shared_ptr<Dataset> share_dataset(const DatasetOptions& options, Communicator& communicator,
                                       const IndexProgress& progress, data::IndexRemark* remark) {
  const bool is_first = communicator.rank() == 0;
  const bool is_alone = communicator.size() == 1;
  data::OpenedDataset first;
  std::vector<std::byte> message;
  if (is_alone) first = data::open_with_remark(options, progress);
  if (is_first && !is_alone) message = to_bytes(announce(options, progress, first));
  if (remark != nullptr) *remark = first.remark;
  std::unique_ptr<Dataset> opened = std::move(first.dataset);
  if (is_alone) return opened;
  const Announcement announcement = to_announcement(communicator.broadcast(std::move(message), 0));
  if (announcement.kind == Announcement::Kind::config_error) throw ConfigError(announcement.problem);
  if (announcement.kind == Announcement::Kind::error) throw Error(announcement.problem);

  if (!is_first) opened = find_same(options.index, announcement.identity);
  const std::vector<std::string> lacks = communicator.all_gather(opened ? "" : "1");
  if (std::ranges::all_of(lacks, &std::string::empty)) return opened;
  // Damage of a file is found here, while rank 0 can still say so to all.
  ranks::collectively(communicator, [&] {
    if (is_first) data::image_of(*opened)->check();
  });
  data::IndexBytes shared =
      broadcast_index(is_first ? data::image_of(*opened) : nullptr, announcement.bytes, communicator);
  const bool keeps_own = opened && data::image_of(*opened)->is_on_disk();
  if (keeps_own) return opened;
  return data::restore_index(data::index_in_memory(std::move(shared), "the index that rank 0 sent"));
}

std::shared_ptr<const Selection> share_selection(const Options& options, const Dataset& dataset, const Dataset& given,
                                                 Communicator& communicator) {
  std::shared_ptr<const Selection> selection;
  ranks::collectively(communicator, [&] {
    const auto* const ordered = dynamic_cast<const InGivenOrder*>(&given);
    auto order = ordered == nullptr ? nullptr : ordered->given_order();
    if (order != nullptr && options.dataset.order == SampleOrder::local) {
      throw ConfigError(
          R"(dataset.order = "local": the program gives the order of the samples; leave one of them out)");
    }
    if (order != nullptr && order->samples() != dataset.size()) {
      throw ConfigError("the order that the program gives is of " + std::to_string(order->samples()) +
                        " samples, and the dataset has " + std::to_string(dataset.size()));
    }
    const bool selects = !options.dataset.split.empty() || options.dataset.fraction < 1 ||
                         (!options.dataset.weights.empty() && !options.run.eval);
    if (order != nullptr && selects) {
      throw ConfigError(
          "dataset.split, fraction and weights choose samples, and so does the order that the program gives; leave one "
          "of them out");
    }
    if (order == nullptr) {
      selection = Selection::make(dataset, options.dataset, options.seed, options.run.eval);
    } else if (communicator.size() == 1) {
      selection = std::make_shared<const Selection>(std::move(order));
    } else {
      throw ConfigError("the program gives the order of the dataset's samples, which it can for one rank only");
    }
  });
  if (!selection || communicator.size() == 1) return selection;
  const std::vector<std::string> all = communicator.all_gather(hex(selection->fingerprint(), 16));
  const auto other = std::ranges::find_if(all, [&](const std::string& one) { return one != all.front(); });
  if (other == all.end()) return selection;
  throw ConfigError("dataset.weights = \"" + options.dataset.weights + "\" says other weights on rank " +
                    std::to_string(other - all.begin()) + " than on rank 0; give all ranks the same file");
}

// An evaluation serves its samples in order, and what is not shuffled needs no parts either.
OrderOptions order_options(const Options& options, std::uint64_t samples, std::shared_ptr<const Selection> selection) {
  const DatasetOptions& dataset = options.dataset;
  const bool is_given = selection && selection->is_given();
  return {.samples = samples,
          .batch_size = static_cast<std::uint32_t>(dataset.batch_size),
          .seed = options.seed,
          .shuffle = dataset.shuffle && !options.run.eval && !is_given,
          .drop_last = dataset.drop_last && !options.run.eval,
          .selection = std::move(selection),
          .window = dataset.order == SampleOrder::shards ? static_cast<std::uint64_t>(dataset.window) : 0,
          .run = static_cast<std::uint64_t>(dataset.run),
          .parts = has_parts(options) ? static_cast<std::uint32_t>(dataset.nodes) : 0,
          .shards = static_cast<std::uint32_t>(options.mpi.virtual_shards),
          .exchange = dataset.exchange};
}

// Whether all ranks have this order is not known yet, so they say so first: the other calls are for all or none. A
// node's name is the number of one of its ranks, found as in share_of_node(). Parts fit where nodes of equally many
// ranks, one after the other, have whole ones, or where every rank has.
std::int64_t share_parts(const Options& options, std::int64_t saved, Communicator& communicator, std::string& notice) {
  const std::int64_t wanted = options.dataset.nodes;
  const std::vector<std::string> all = communicator.all_gather(has_parts(options) ? "parts" : "");
  if (std::ranges::find(all, "") != all.end()) return wanted;
  std::string own;
  const auto memory = share_or_own(communicator, sizeof(std::int64_t), own);
  const std::atomic_ref<std::int64_t> first(*reinterpret_cast<std::int64_t*>(memory->bytes().data()));
  std::int64_t nobody = 0;
  first.compare_exchange_strong(nobody, std::int64_t{communicator.rank()} + 1);
  const std::vector<std::string> names = communicator.all_gather(std::to_string(first.load()));
  const auto each = static_cast<std::size_t>(std::ranges::count(names, names.front()));
  bool is_even = names.size() == each * std::set(names.begin(), names.end()).size();
  for (std::size_t i = 0; i < names.size(); ++i) is_even = is_even && names[i] == names[i / each * each];
  const auto fit = static_cast<std::int64_t>(is_even ? names.size() / each : names.size());
  const std::int64_t parts = wanted > 0 ? wanted : saved > 0 ? saved : fit;
  if (parts % fit != 0) {
    notice = "the samples are in " + std::to_string(parts) + " parts (dataset.nodes) and the job has " +
             std::to_string(fit) + (is_even ? " nodes" : " ranks, not equally many one after the other on each node") +
             ": a node reads other samples in each epoch where it has no whole parts, and keeps fewer of them";
  }
  return parts;
}

void require_same_run(const Options& options, const Dataset& dataset, Communicator& communicator) {
  if (communicator.size() == 1) return;
  const std::string key = run_key(options, dataset);
  const auto bytes = std::as_bytes(std::span(key));
  const auto first = communicator.broadcast({bytes.begin(), bytes.end()}, 0);
  const std::string_view wanted = as_text(first);
  // Only a difference is told: everybody's configuration on every rank would be gigabytes in a large job.
  const std::string difference = key == wanted ? "" : first_line_that_differs(key, wanted);
  const std::vector<std::string> differences = communicator.all_gather(difference);
  for (std::size_t rank = 1; rank < differences.size(); ++rank) {
    if (differences[rank].empty()) continue;
    const bool is_of_dataset = differences[rank].find(kOfDataset) == 1;  // after a quotation mark
    throw ConfigError("rank " + std::to_string(rank) + " runs with another configuration or dataset than rank 0 (" +
                      differences[rank] + "); give all ranks the same " +
                      (is_of_dataset ? "dataset" : "file and overrides"));
  }
}

namespace {

// torchrun starts processes without binding them, whatever mask they have; others give each its own.
bool shares_mask(const LauncherPlace& launcher, const Cores& cores) {
  return !cores.is_bound() || launcher.variable == "LOCAL_RANK";
}

NodeShare alone_on_node(const Cores& cores, const LauncherPlace& launcher) {
  NodeShare node{.cores = cores, .room = available_memory(), .notice = launcher.problem};
  const unsigned ranks = launcher.local_ranks.value_or(1);
  if (ranks > 1) node.place = {.local_rank = *launcher.local_rank, .local_ranks = ranks};
  count_ranks(node.room, std::vector<std::string>(ranks, ids_of_groups(node.room)), ranks == 1);
  std::vector<std::string> all(ranks, to_text(cores));
  if (!shares_mask(launcher, cores) && !cores.quota) all.resize(1);
  node.share = share_of_cores(cores, all);
  return node;
}

}  // namespace

// The lowest rank of a node is found by one compare-and-swap in shared memory; its number is the
// node's name in the gather that follows, so no host names are compared.
NodeShare share_of_node(std::int64_t& counter, std::int64_t& first, Communicator& communicator, const Cores& cores,
                        const LauncherPlace& launcher) {
  if (communicator.size() == 1) return alone_on_node(cores, launcher);
  const std::int64_t rank = communicator.rank();
  std::atomic_ref<std::int64_t>(counter).fetch_add(1);
  std::int64_t nobody = 0;
  std::atomic_ref<std::int64_t>(first).compare_exchange_strong(nobody, rank + 1);
  (void)communicator.all_gather("");  // everybody has counted itself
  // One rank's number names the node, so that each can count those of its node that come before it.
  const std::string node = std::to_string(std::atomic_ref<std::int64_t>(first).load()) + "\n";
  NodeShare share{.cores = cores, .room = available_memory()};
  std::vector<std::string> masks;
  std::vector<std::string> groups;
  std::int64_t other = 0;
  for (const std::string& theirs : communicator.all_gather(node + ids_of_groups(share.room) + "\n" + to_text(cores))) {
    if (theirs.starts_with(node)) {
      const std::size_t end = theirs.find('\n', node.size());
      groups.push_back(theirs.substr(node.size(), end - node.size()));
      masks.push_back(theirs.substr(end + 1));
      if (other < rank) ++share.place.local_rank;
    }
    ++other;
  }
  share.place.local_ranks = static_cast<unsigned>(masks.size());
  share.share = share_of_cores(cores, masks);
  count_ranks(share.room, groups, true);
  return share;
}

}  // namespace forebay::job
