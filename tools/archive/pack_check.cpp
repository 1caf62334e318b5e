#include "pack_check.hpp"

#include <algorithm>
#include <set>
#include <string>

#include <forebay/error.hpp>

#include "data/parallel.hpp"
#include "data/record_table.hpp"
#include "lending.hpp"
#include "read_back.hpp"

namespace forebay::archive {
namespace {

constexpr std::size_t kCheckedAtOnce = 64;  // samples

}  // namespace

// `forebay pack --verify`: reads every record of every shard, restores its original and compares
// the hash. Shards are checked one after another, the samples of a shard in chunks of 64 on several
// threads. Each sample's problem has its own place in a vector, so that problems are reported in
// order.
PackCheck check_pack(const std::filesystem::path& folder, unsigned threads, const IndexProgress& progress) {
  const std::vector<std::string> names = shards_in(folder);
  PackCheck check{.shards = names.size(), .tally = {}, .damaged = {}};
  std::vector<data::PackMember> shards;
  std::vector<std::string> sound;
  std::uint64_t total = 0;
  for (const std::string& name : names) {
    try {
      shards.push_back(open_shard_back(folder, name).member());
      sound.push_back(name);
      total += shards.back().header.samples;
    } catch (const SampleError& problem) {
      check.damaged.push_back({.path = name, .reason = problem.what()});
    }
  }
  if (check.damaged.empty()) {
    if (const std::string problem = data::problem_of_pack(shards, sound); !problem.empty()) {
      throw ConfigError(folder.string() + ": " + problem);
    }
  }
  std::uint64_t done = 0;
  std::set<data::RecordTable::Kind> kinds;
  for (const std::string& name : sound) {
    try {
      const ReadShard shard = read_shard_back(folder, name);
      const std::size_t samples = shard.index.offset.size();
      std::vector<std::string> problems(samples);
      Lending<RecordReader> readers([&] { return std::make_unique<RecordReader>(shard); });
      const auto report = [&](std::uint64_t of_shard, std::uint64_t) {
        if (progress) progress(done + of_shard, total);
      };
      data::run_parallel({samples, threads, report, kCheckedAtOnce}, [&](std::size_t i) {
        if (shard.shares(i)) return;
        try {
          readers.with([&](RecordReader& reader) { (void)reader.read(i); });
        } catch (const SampleError& problem) {
          problems[i] = problem.what();
        }
      });
      for (std::size_t i = 0; i < samples; ++i) {
        if (problems[i].empty()) continue;
        check.damaged.push_back({.path = data::record_name(name, i, shard.index.keys[i]), .reason = problems[i]});
      }
      kinds.insert(shard.index.kinds.begin(), shard.index.kinds.end());
      require_few_kinds(kinds.size());
      add_to_tally(shard, check.tally);
      done += samples;
    } catch (const SampleError& problem) {
      check.damaged.push_back({.path = name, .reason = problem.what()});
    }
  }
  return check;
}

}  // namespace forebay::archive
