#pragma once

// Plausible states of jobs, for tests.
#include <zlib.h>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "order/job_state.hpp"
#include "order/ledger.hpp"
#include "support.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay::testing {

inline std::uint64_t blocks_of(const order::JobState& state, std::uint32_t shard) {
  return state.batches > shard ? (state.batches - shard - 1) / state.virtual_shards + 1 : 0;
}

// A state with `opened` epochs open after `epochs` complete ones, settings as long as real ones,
// and nothing left.
inline order::JobState job(std::uint32_t virtual_shards, std::uint32_t ranks, std::uint64_t batches,
                           std::uint64_t epochs, std::uint64_t opened) {
  return {.steps = 123'456'789'012,
          .epochs = epochs,
          .opened = epochs + opened,
          .fresh_samples = 98'765'432'109'876,
          .ranks = ranks,
          .batches = batches,
          .virtual_shards = virtual_shards,
          .samples = batches * 64,
          .dataset = "0123456789abcdef",
          .policy = "adaptive",
          .settings = {{"seed", "17"},
                       {"dataset.batch_size", "64"},
                       {"dataset.shuffle", "true"},
                       {"dataset.drop_last", "true"},
                       {"transform.crop", "\"random_resized\""},
                       {"transform.size", "[224, 224]"},
                       {"transform.scale", "[0.08, 1.0]"},
                       {"transform.ratio", "[0.75, 1.3333333333333333]"},
                       {"transform.center_fraction", "0.875"},
                       {"transform.mirror", "0.5"},
                       {"transform.mean", "[123.67500305175781, 116.27999877929688, 103.52999877929688]"},
                       {"transform.std", "[58.39500045776367, 57.119998931884766, 57.375]"},
                       {"transform.layout", "\"NCHW\""},
                       {"transform.dtype", "\"float32\""},
                       {"transform.exif", "true"},
                       {"transform.max_pixels", "178956970"},
                       {"transform.when", "\"enqueue\""},
                       {"mpi.virtual_shards", std::to_string(virtual_shards)}},
          .left = {}};
}

inline void put_in_order(order::JobState& state) {
  std::ranges::sort(state.left, [](const order::BatchRange& a, const order::BatchRange& b) {
    return std::tuple(a.epoch, a.shard, a.begin) < std::tuple(b.epoch, b.shard, b.begin);
  });
}

// Fills in what is left when each rank has served as many blocks of the open epochs as `served`
// says, in its own order and without hand-over.
template <typename Served>
void leave(order::JobState& state, Served&& served) {
  const std::uint64_t shards = std::min<std::uint64_t>(state.virtual_shards, state.batches);
  for (std::uint32_t rank = 0; rank < state.ranks; ++rank) {
    std::uint64_t done = served(rank);
    for (std::uint64_t epoch = state.epochs; epoch < state.opened; ++epoch) {
      std::uint64_t own = 0;
      for (std::uint64_t v = rank; v < shards; v += state.ranks) own += blocks_of(state, static_cast<std::uint32_t>(v));
      const std::uint64_t here = std::min(done, own);
      done -= here;
      const std::uint64_t dealt = (state.virtual_shards - rank - 1) / state.ranks + 1;
      for (std::uint64_t v = rank; v < shards; v += state.ranks) {
        const auto shard = static_cast<std::uint32_t>(v);
        const std::uint64_t first = here / dealt + (v / state.ranks < here % dealt ? 1 : 0);
        const std::uint64_t end = blocks_of(state, shard);
        if (first >= end) continue;
        state.left.push_back({.epoch = epoch, .begin = first, .end = end, .shard = shard, .owner = rank});
      }
    }
  }
  put_in_order(state);
}

// A small state with every kind of item in its lists.
inline order::JobState small_state() {
  order::JobState state = job(8, 2, 43, 3, 2);
  state.settings = {{"seed", "17"}, {"dataset.batch_size", "64"}};
  leave(state, [](std::uint32_t rank) { return 9 + 3 * rank; });
  state.left.erase(state.left.begin() + 2);
  state.left[4].owner = 1 - state.left[4].owner;
  return state;
}

// A random state with any ranges that a ledger can hold: none in some shards, several in others,
// owned by any rank.
inline order::JobState random_state(Random& random) {
  const auto shards = static_cast<std::uint32_t>(1 + random.below(random.below(2) == 0 ? 8 : 1024));
  const auto ranks = static_cast<std::uint32_t>(1 + random.below(random.below(2) == 0 ? shards : std::min(shards, 8U)));
  const std::uint64_t batches = 1 + random.below(random.below(2) == 0 ? 3 * shards : 1'000'000'000);
  order::JobState state = job(shards, ranks, batches, random.below(1000), random.below(5));
  state.steps = random.bits() >> random.below(64);
  state.fresh_samples = random.bits() >> random.below(64);
  state.policy = random.below(2) == 0 ? "greedy" : "a \"policy\"\n\\of my own, \u00fc";
  const std::uint64_t none = random.below(4);
  const std::uint64_t strange = random.below(4);
  for (std::uint64_t epoch = state.epochs; epoch < state.opened; ++epoch) {
    for (std::uint32_t shard = 0; shard < shards; ++shard) {
      if (random.below(4) < none) continue;
      const std::uint64_t end = blocks_of(state, shard);
      std::uint64_t at = random.below(2) == 0 ? 0 : random.below(end + 1);
      while (at < end) {
        const bool is_strange = random.below(8) < strange;
        const std::uint64_t until = is_strange ? at + 1 + random.below(end - at) : end;
        const auto owner = is_strange ? static_cast<std::uint32_t>(random.below(ranks)) : shard % ranks;
        state.left.push_back({.epoch = epoch, .begin = at, .end = until, .shard = shard, .owner = owner});
        at = until + random.below(2) * random.below(end - until + 1);
      }
    }
  }
  state.left.resize(
      std::min(state.left.size(), order::Ledger::most_ranges({.batches = batches, .shards = shards, .ranks = ranks})));
  return state;
}

// Decodes `left`, as docs/state.md describes it: for each member of a range, a list of differences.
inline nlohmann::ordered_json unpacked(const nlohmann::ordered_json& left) {
  const std::string packed = from_base64(left.at("zlib").get<std::string>()).value();
  std::string text(left.at("bytes").get<std::size_t>(), '\0');
  uLongf size = text.size();
  const int result = ::uncompress(reinterpret_cast<Bytef*>(text.data()), &size,
                                  reinterpret_cast<const Bytef*>(packed.data()), packed.size());
  if (result != Z_OK || size != text.size()) throw std::runtime_error("left does not hold what it says");
  return nlohmann::ordered_json::parse(text);
}

inline nlohmann::ordered_json packed(const std::string& text) {
  std::string packed(::compressBound(text.size()), '\0');
  uLongf size = packed.size();
  if (::compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(text.data()),
                 text.size()) != Z_OK) {
    throw std::runtime_error("zlib does not compress");
  }
  packed.resize(size);
  return {{"bytes", text.size()}, {"zlib", base64(packed)}};
}

// The document with a valid checksum.
inline std::string sealed(nlohmann::ordered_json json) {
  json.erase("checksum");
  std::string text = json.dump();
  text.pop_back();
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return text + ",\"checksum\":\"" + digits + "\"}\n";
}

}  // namespace forebay::testing
