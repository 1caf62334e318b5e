// Which samples an epoch serves: a part of a split, a fraction, weights, or an order of the
// program's own. Samples are chosen by hashes of their names, not their numbers. So a dataset that
// grows or is packed keeps its split: a sample never moves from training to validation. The hashes
// do not depend on run.seed either. Every rank makes the selection once at the start, from the same
// names; fingerprints are compared.
//
// Places are spread evenly over the line of summed weights, with an offset per epoch, so that each
// sample comes as often as its weight says, to within one. Samples lie on that line in an order of
// the epoch's own, within blocks: otherwise weights in step with the data (a left and a right eye in
// turn) would give an epoch left eyes only.

#include "selection.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

#include "data/scan.hpp"
#include "sample_weights.hpp"
#include "store/url.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay {
namespace {

// Keeps the random numbers of selections distinct from others of the same seed.
constexpr std::uint64_t kOffsetOfPlaces = 0x77656967687473;
constexpr std::uint64_t kOrderOfBlock = 0x626c6f636b73;
// Chosen: samples enough to break up what takes turns in the data, few enough to count in a microsecond.
constexpr std::uint64_t kBlock = 64;
// The split does not depend on run.seed, because another seed would train on what the last one held
// out.
constexpr std::uint64_t kSplit = 0x73706c6974;
constexpr std::uint64_t kFraction = 0x6672616374696f6e;

// A number in [0, 1) that is the same for equal names, and independent for each purpose. It has 53
// bits, as many as a double holds.
double place_of(std::string_view name, std::uint64_t purpose) {
  return static_cast<double>(XXH3_64bits_withSeed(name.data(), name.size(), purpose) >> 11) * 0x1p-53;
}

// The interval within [0, 1) of one part of the split.
struct Interval {
  double begin = 0;
  double end = 1;

  [[nodiscard]] bool contains(double place) const noexcept { return place >= begin && place < end; }
};

Interval part_of(const DatasetOptions& options) {
  if (options.split.empty()) return {};
  Interval part{0, 0};
  for (std::size_t i = 0; i <= static_cast<std::size_t>(options.part); ++i) {
    part = {part.end, part.end + options.split[i]};
  }
  // Shares such as 0.7 + 0.2 + 0.1 add up to slightly less than 1; nothing may fall between the
  // last part and 1.
  constexpr double kRounding = 1e-9;
  if (part.end > 1 - kRounding) part.end = 1;
  return part;
}

// The folders that the names of all samples begin with, if they are absolute: files that a program
// or a list gives. They are left out of the names, so that a copy of the data has the same parts.
// Names that packing left out, "00000-of-00001.fbpack[/data/a.jpg]", count: the original has them.
std::string folder_of_files(const Dataset& dataset, const order::SampleNames& names) {
  if (dataset.size() == 0 || !store::is_absolute(names.of_source(0))) return "";
  std::mutex mutex;
  std::optional<std::string> folder;
  const auto add = [&](std::string_view name) {
    const std::lock_guard lock(mutex);
    if (folder && name.starts_with(*folder)) return;
    folder = std::string(data::common_folder(std::array{folder.value_or(std::string(name)), std::string(name)}));
  };
  order::for_each_sample(dataset, [&](std::uint64_t id) { add(names.of_source(id)); });
  constexpr std::string_view kInPack = ".fbpack[";
  for (const Skipped& entry : dataset.skipped()) {
    const std::size_t pack = entry.path.find(kInPack);
    if (entry.bad && pack != std::string::npos) add(std::string_view(entry.path).substr(pack + kInPack.size()));
  }
  return folder && store::is_absolute(*folder) ? *folder : "";
}

// The objects of an image, and the clips of a video, share a name here, so they never end up in two
// parts.
std::vector<std::uint32_t> choose(const Dataset& dataset, const DatasetOptions& options, std::string& folder) {
  const bool is_whole = options.split.empty() && options.fraction >= 1;
  const Interval part = part_of(options);
  const order::SampleNames names(dataset);
  std::vector<std::uint8_t> is_chosen(dataset.size(), 1);
  if (!is_whole) {
    folder = folder_of_files(dataset, names);
    order::for_each_sample(dataset, [&](std::uint64_t id) {
      const std::string name = names.of_source(id).substr(folder.size());
      is_chosen[id] = part.contains(place_of(name, kSplit)) &&
                      (options.fraction >= 1 || place_of(name, kFraction) < options.fraction);
    });
  }
  std::vector<std::uint32_t> ids;
  for (std::uint64_t id = 0; id < dataset.size(); ++id) {
    if (is_chosen[id] != 0) ids.push_back(static_cast<std::uint32_t>(id));
  }
  return ids;
}

// Weights that give every class the same share of an epoch, and all samples of a class equal shares
// of that.
std::vector<double> balanced(const Dataset& dataset, const std::vector<std::uint32_t>& ids) {
  std::vector<std::int64_t> labels(dataset.size());
  order::for_each_sample(dataset, [&](std::uint64_t id) { labels[id] = dataset.sample(id).label; });
  std::unordered_map<std::int64_t, double> count;
  for (const std::uint32_t id : ids) {
    if (labels[id] < 0) {
      throw ConfigError(R"(dataset.weights = "balanced": )" + dataset.name(id) +
                        " has no class; label all samples, or give a file of weights");
    }
    ++count[labels[id]];
  }
  std::vector<double> weights;
  weights.reserve(ids.size());
  for (const std::uint32_t id : ids) weights.push_back(1 / count[labels[id]]);
  return weights;
}

// The weights of `ids`, in the order of `ids`. Drops ids of weight 0.
std::vector<double> weights_of(const Dataset& dataset, const DatasetOptions& options, std::vector<std::uint32_t>& ids) {
  if (options.weights == "balanced") return balanced(dataset, ids);
  std::vector<double> weights = order::read_weights(options.weights, dataset, ids);
  // A sample of weight 0 is left out, so that it does not replace a bad sample either.
  std::size_t kept = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (weights[i] <= 0) continue;
    ids[kept] = ids[i];
    weights[kept++] = weights[i];
  }
  ids.resize(kept);
  weights.resize(kept);
  return weights;
}

void require_some(const std::vector<std::uint32_t>& ids, const Dataset& dataset, const std::string& keys) {
  if (!ids.empty()) return;
  throw ConfigError(keys + ": none of the " + std::to_string(dataset.size()) + " samples is left");
}

}  // namespace

std::shared_ptr<const Selection> Selection::make(const Dataset& dataset, const DatasetOptions& options,
                                                 std::uint64_t seed, bool eval) {
  const bool is_weighted = !options.weights.empty() && !eval;
  if (options.split.empty() && options.fraction >= 1 && !is_weighted) return nullptr;
  if (dataset.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw ConfigError("dataset.split, fraction and weights need a dataset of at most 2^32 - 1 samples, this one has " +
                      std::to_string(dataset.size()));
  }
  std::string folder;
  std::vector<std::uint32_t> ids = choose(dataset, options, folder);
  require_some(ids, dataset, "dataset.split, part and fraction");
  std::vector<double> weights;
  if (is_weighted) weights = weights_of(dataset, options, ids);
  require_some(ids, dataset, "dataset.weights");
  std::shared_ptr<Selection> selection(new Selection(std::move(ids), weights, seed));
  selection->folder_ = std::move(folder);
  return selection;
}

Selection::Selection(std::vector<std::uint32_t> ids, const std::vector<double>& weights, std::uint64_t seed)
    : seed_(seed), ids_(std::move(ids)) {
  if (weights.empty()) return;
  double sum = 0;
  for (const double weight : weights) sum += weight;
  const double all = std::ldexp(static_cast<double>(ids_.size()), kPlaceBits);
  ends_.reserve(weights.size());
  double reached = 0;
  for (const double weight : weights) {
    reached += weight;
    ends_.push_back(static_cast<std::uint64_t>(std::min(reached / sum, 1.0) * all));
  }
  ends_.back() = std::uint64_t{ids_.size()} << kPlaceBits;
}

// Systematic sampling: place k takes the sample whose stretch of the line contains k + offset. A
// block has the same stretch in each epoch, so it is found first.
std::uint64_t Selection::at(std::uint64_t epoch, std::uint64_t place) const noexcept {
  if (given_) return given_->at(epoch, place);
  if (ends_.empty()) return place;
  const std::uint64_t offset = key64(seed_, epoch, kOffsetOfPlaces) >> (64 - kPlaceBits);
  const auto end = std::ranges::upper_bound(ends_, (place << kPlaceBits) + offset);
  const std::uint64_t first = static_cast<std::uint64_t>(end - ends_.begin()) / kBlock * kBlock;
  const std::uint64_t count = std::min<std::uint64_t>(kBlock, ids_.size() - first);
  const auto places_before = [offset](std::uint64_t reached) {
    return (reached + (std::uint64_t{1} << kPlaceBits) - 1 - offset) >> kPlaceBits;
  };

  std::array<std::uint8_t, kBlock> line{};
  std::iota(line.begin(), line.end(), std::uint8_t{0});
  Random random(key64(seed_, epoch, kOrderOfBlock, first));
  std::array<std::uint64_t, kBlock> places{};
  std::uint64_t reached = end_of(first);
  std::uint64_t left = place - places_before(reached);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::swap(line[i], line[i + random.below(count - i)]);
    const std::uint64_t next = reached + end_of(first + line[i] + 1) - end_of(first + line[i]);
    places[line[i]] = places_before(next) - places_before(reached);
    reached = next;
  }
  std::uint64_t number = 0;
  while (left >= places[number]) left -= places[number++];
  return first + number;
}

std::uint64_t Selection::fingerprint() const noexcept {
  const std::uint64_t ids = XXH3_64bits(ids_.data(), ids_.size() * sizeof(ids_[0]));
  if (ends_.empty()) return ids;
  // Orders of blocks are part of it: a job of before they were drawn must not resume with others.
  return XXH3_64bits_withSeed(ends_.data(), ends_.size() * sizeof(ends_[0]), key64(ids, kOrderOfBlock));
}

}  // namespace forebay
