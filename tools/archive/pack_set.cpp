// Packs a dataset. After planning, it decides for each shard of this process's part whether an
// existing shard can be kept, and writes the others.
//
// First keep() looks at all existing shards. One is kept if it belongs to this set, is undamaged,
// lacks the same samples as it would now, for the same reasons, and its originals have not changed.
// Then the missing shards are written one after another. Several threads read and transcode groups
// of samples that fit into kMemory; this thread adds them in order. Each shard is read back once it
// is written. A process that finds all shards of the other parts finished checks the limits that
// concern the whole set.
//
// If too many samples are bad, packing ends before the shard is finished; finished shards stay for
// a resumed run.

#include "pack_set.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <unordered_set>

#include <forebay/error.hpp>

#include "changes.hpp"
#include "data/parallel.hpp"
#include "lending.hpp"
#include "order/sample_weights.hpp"
#include "ranks/lost_part.hpp"
#include "read_back.hpp"
#include "sample_packer.hpp"
#include "shard_writer.hpp"

namespace forebay::archive {
namespace {

// --pixels resizes images, but masks, boxes and regions are in pixels of the original image.
void refuse_what_has_the_size_of_images(const Dataset& dataset) {
  const auto refuse = [](const std::string& what) {
    throw ConfigError("--pixels resizes images, and " + what + "; pack without it");
  };
  if (dataset.sample(0).box) refuse("samples are regions of them");
  for (const Field& field : dataset.fields()) {
    if (follows_view(field.kind)) refuse("the field \"" + field.name + "\" has their size");
  }
}

class SetPacker {
 public:
  SetPacker(const Dataset& dataset, const PackSettings& settings, const PackPlan& plan, const IndexProgress& progress)
      : dataset_(dataset),
        settings_(settings),
        plan_(plan),
        progress_(progress),
        names_(dataset),
        tables_(tables_for_pack(dataset, settings)),
        packers_([this] { return std::make_unique<SamplePacker>(dataset_, settings_, tables_); }),
        changes_(dataset, settings, plan.begun, packers_),
        parts_(dataset) {}

  // Existing shards come first, because their bad samples count towards the limit.
  PackReport run() {
    std::vector<std::uint32_t> missing;
    report_.shards = plan_.shards();
    for (std::uint32_t i = settings_.part; i < plan_.shards(); i += settings_.parts) samples_ += samples_in(i);
    for (std::uint32_t i = settings_.part; i < plan_.shards(); i += settings_.parts) {
      if (keep(i)) continue;
      missing.push_back(i);
      total_ += samples_in(i);
    }
    if (report_.bad() > 0) {
      require_few_bad(settings_, report_.bad(), samples_,
                      report_.left_out.empty() ? report_.lost_fields.back() : report_.left_out.back());
    }
    require_no_lost_part();
    for (const std::uint32_t i : missing) {
      write(i);
      ++report_.written;
      add_to_report(read_again(i));
    }
    if (settings_.parts > 1) check_other_parts();
    return std::move(report_);
  }

 private:
  // Chosen, both: enough work for many threads, little memory.
  static constexpr std::uint64_t kMostAtOnce = 1024;  // samples
  static constexpr std::uint64_t kMemory = std::uint64_t{64} << 20U;

  [[nodiscard]] std::uint64_t samples_in(std::uint32_t number) const {
    return plan_.firsts[number + 1] - plan_.firsts[number];
  }

  // Whether an existing shard can be kept, in which case it is counted in the report. In any doubt,
  // and if the shard cannot be read (SampleError), it is written again.
  bool keep(std::uint32_t number) {
    try {
      const ReadShard shard = read_shard_back(settings_.out, data::pack_shard_name(number, plan_.shards()));
      if (!is_ours(shard, number)) return false;
      const std::optional<Contents> contents = contents_of(shard, number);
      if (!contents) return false;
      std::optional<std::vector<Skipped>> lost = lost_fields_if_same(contents->gaps);
      if (!lost) return false;
      if (const auto changed = changes_.find(shard, contents->ids)) {
        report_.changed.push_back({.path = names_.of(*changed), .reason = "it has changed since it was packed"});
        return false;
      }
      for (const Gap& gap : contents->gaps) {
        if (!gap.field) bad_.insert(gap.id);
      }
      ++report_.kept;
      std::ranges::move(*lost, std::back_inserter(report_.lost_fields));
      add_to_report(shard);
      return true;
    } catch (const SampleError&) {
      return false;
    }
  }

  // Whether it is the shard with that number according to the plan and the tables. Tables are
  // compared byte by byte: all shards of a set must decode with the same ones.
  [[nodiscard]] bool is_ours(const ReadShard& shard, std::uint32_t number) const {
    const data::PackHeader& header = shard.shard.header;
    const auto tables = shard.tables ? shard.tables->to_bytes() : std::span<const std::byte>{};
    return header.set == plan_.set && header.number == number && header.count == plan_.shards() &&
           header.first == plan_.firsts[number] && std::ranges::equal(tables, tables_) &&
           header.samples + shard.index.left_out.size() == samples_in(number);
  }

  [[nodiscard]] ReadShard read_again(std::uint32_t number) const {
    const std::string name = data::pack_shard_name(number, plan_.shards());
    try {
      return read_shard_back(settings_.out, name);
    } catch (const SampleError& error) {
      throw Error((settings_.out / name).string() + ": cannot be read again: " + error.what());
    }
  }
  void add_kinds(const ReadShard& shard) {
    kinds_.insert(shard.index.kinds.begin(), shard.index.kinds.end());
    require_few_kinds(kinds_.size());
  }
  void add_to_report(const ReadShard& shard) {
    add_kinds(shard);
    add_to_tally(shard, report_.tally);
    report_.left_out.insert(report_.left_out.end(), shard.index.left_out.begin(), shard.index.left_out.end());
  }

  // Checks what concerns the whole set: whether all parts together left out too many samples, or
  // have too many kinds of images. Only a process that finds every other shard finished can tell.
  // If a shard of another part is missing, or has to be written again, the process that writes it
  // checks instead.
  void check_other_parts() {
    std::vector<std::uint32_t> others;
    std::error_code error;
    for (std::uint32_t i = 0; i < plan_.shards(); ++i) {
      if (i % settings_.parts == settings_.part) continue;
      if (!std::filesystem::exists(settings_.out / data::pack_shard_name(i, plan_.shards()), error)) return;
      others.push_back(i);
    }
    std::mutex mutex;
    std::uint64_t bad = report_.bad();
    std::optional<Skipped> last;
    std::vector<std::uint32_t> lacking;
    bool are_sound = true;
    data::run_parallel({others.size(), settings_.threads}, [&](std::size_t i) {
      const std::optional<ReadShard> shard = sound_shard(others[i]);
      const std::lock_guard lock(mutex);
      are_sound = are_sound && shard;
      if (!shard) return;
      add_kinds(*shard);
      if (shard->index.left_out.empty()) return;
      bad += shard->index.left_out.size();
      last = shard->index.left_out.back();
      lacking.push_back(others[i]);
    });
    if (!are_sound || !last || are_few_bad(settings_, bad, dataset_.size())) return;
    if (std::ranges::all_of(lacking, [this](std::uint32_t number) { return lacks_the_same_now(number); })) {
      require_few_bad(settings_, bad, dataset_.size(), *last);
    }
  }

  [[nodiscard]] std::optional<ReadShard> sound_shard(std::uint32_t number) const {
    try {
      ReadShard shard = read_shard_back(settings_.out, data::pack_shard_name(number, plan_.shards()));
      return is_ours(shard, number) ? std::optional(std::move(shard)) : std::nullopt;
    } catch (const SampleError&) {
      return std::nullopt;
    }
  }
  [[nodiscard]] bool lacks_the_same_now(std::uint32_t number) {
    const std::optional<ReadShard> shard = sound_shard(number);
    const std::optional<Contents> contents = shard ? contents_of(*shard, number) : std::nullopt;
    return contents && lost_fields_if_same(contents->gaps);
  }

  // Something missing in a shard: the image of a sample, or a field.
  struct Gap {
    std::uint64_t id = 0;
    std::optional<std::size_t> field = std::nullopt;
    std::string reason = {};  // why the image is missing
  };

  struct Contents {
    std::vector<std::uint64_t> ids;  // of the shard's samples
    std::vector<Gap> gaps;
  };

  // The samples and gaps of a shard; nothing if the shard does not have the samples that it would
  // have if it were written now. Walks through the plan's samples and the index side by side: each
  // sample is either left out, by name, or the next one of the index.
  [[nodiscard]] std::optional<Contents> contents_of(const ReadShard& shard, std::uint32_t number) const {
    const data::PackIndex& index = shard.index;
    Contents contents;
    std::size_t left_out = 0;
    for (std::uint64_t id = plan_.firsts[number]; id < plan_.firsts[number + 1]; ++id) {
      if (left_out < index.left_out.size() && index.left_out[left_out].path == names_.of(id)) {
        contents.gaps.push_back({.id = id, .reason = index.left_out[left_out++].reason});
        continue;
      }
      const std::size_t i = contents.ids.size();
      if (i == index.offset.size()) return std::nullopt;
      for (std::size_t f = 0; f < index.fields.size() && !shard.shares(i); ++f) {
        const auto& lengths = index.fields[f].lengths;
        if (lengths.empty() || lengths[i] != data::PackIndex::InField::kAbsent) continue;
        contents.gaps.push_back({.id = id, .field = f});
      }
      contents.ids.push_back(id);
    }
    return contents;
  }

  // Tries every gap again, since what could not be read then may be readable now. Returns nothing
  // if any gap could be filled now or has another reason; otherwise the fields that are missing
  // because they cannot be read.
  std::optional<std::vector<Skipped>> lost_fields_if_same(const std::vector<Gap>& gaps) {
    std::vector<std::string> problems(gaps.size());
    std::atomic<bool> is_same{true};
    data::run_parallel({gaps.size(), settings_.threads}, [&](std::size_t i) {
      if (!is_same.load(std::memory_order_relaxed)) return;  // only to save work
      const Gap& gap = gaps[i];
      packers_.with([&](SamplePacker& packer) {
        if (gap.field) {
          const std::optional<std::string> absence = packer.absence(gap.id, *gap.field);
          if (!absence) is_same = false;
          problems[i] = absence.value_or("");
        } else if (packer.pack(gap.id, false).problem != gap.reason) {
          is_same = false;
        }
      });
    });
    if (!is_same) return std::nullopt;
    std::vector<Skipped> lost;
    for (std::size_t i = 0; i < gaps.size(); ++i) {
      if (!problems[i].empty()) lost.push_back(lost_field(gaps[i].id, *gaps[i].field, problems[i]));
    }
    return lost;
  }
  [[nodiscard]] Skipped lost_field(std::uint64_t id, std::size_t field, const std::string& problem) const {
    return {.path = names_.of(id) + ", field " + dataset_.fields()[field].name, .reason = problem, .bad = true};
  }

  // Counts a bad sample or field, and throws if too much is bad. `problem`: why the sample was left
  // out, or empty. `left_out`: how many samples of this shard were left out so far. next_look_
  // grows by a quarter each time, so that looking for lost parts stays cheap.
  void count_bad(std::uint64_t id, const PackedSample& packed, const std::string& problem, std::uint64_t& left_out) {
    if (!problem.empty()) {
      const std::uint64_t bad = report_.bad() + ++left_out;
      require_few_bad(settings_, bad, samples_, {.path = names_.of(id), .reason = problem, .bad = true});
      bad_.insert(id);
      if (bad_.size() >= next_look_) require_no_lost_part();
      return;
    }
    for (std::size_t f = 0; f < packed.fields.size(); ++f) {
      if (packed.fields[f].problem.empty()) continue;
      report_.lost_fields.push_back(lost_field(id, f, packed.fields[f].problem));
      require_few_bad(settings_, report_.bad() + left_out, samples_, report_.lost_fields.back());
    }
  }

  void require_no_lost_part() {
    if (!settings_.needs_all_parts) return;
    next_look_ = bad_.size() + 1 + bad_.size() / 4;
    parts_.refuse(bad_);
  }

  void write(std::uint32_t number) {
    std::uint64_t left_out = 0;
    ShardWriter writer(dataset_, settings_, plan_, number, tables_);
    const std::uint64_t end = plan_.firsts[number + 1];
    for (std::uint64_t id = plan_.firsts[number]; id < end;) {
      for (const PackedSample& packed : pack_some(id, end, plan_.firsts[number])) {
        count_bad(id, packed, writer.add(dataset_.sample(id), names_.of(id), packed), left_out);
        ++id;
        ++done_;
      }
    }
    require_no_lost_part();
    writer.finish();
  }

  // Packs samples from `begin` on, at least one and about as many as fit into kMemory. A thread
  // that finds the memory used up leaves its sample to the next group. The result is the unbroken
  // run from `begin`.
  std::vector<PackedSample> pack_some(std::uint64_t begin, std::uint64_t end, std::uint64_t shard_begin) {
    std::vector<std::optional<PackedSample>> packed(std::min(end - begin, kMostAtOnce));
    std::atomic<std::uint64_t> memory{0};
    const auto report = [&](std::uint64_t, std::uint64_t) {
      if (progress_) progress_(done_, total_);
    };
    data::run_parallel({packed.size(), settings_.threads, report}, [&](std::size_t i) {
      if (i > 0 && memory.load(std::memory_order_relaxed) >= kMemory) return;
      const std::uint64_t id = begin + i;
      packers_.with(
          [&](SamplePacker& packer) { packed[i] = packer.pack(id, id > shard_begin && shares_record(dataset_, id)); });
      memory.fetch_add(packed[i]->memory(), std::memory_order_relaxed);
    });
    std::vector<PackedSample> some;
    for (auto& each : packed) {
      if (!each) break;
      some.push_back(*std::move(each));
    }
    return some;
  }

  const Dataset& dataset_;
  const PackSettings& settings_;
  const PackPlan& plan_;
  const IndexProgress& progress_;
  order::SampleNames names_;
  std::vector<std::byte> tables_;
  Lending<SamplePacker> packers_;
  ChangeFinder changes_;
  ranks::LostParts parts_;
  std::unordered_set<std::uint64_t> bad_;  // samples that are left out
  std::size_t next_look_ = 0;              // size of bad_ at which to look for lost parts again
  PackReport report_;
  std::uint64_t samples_ = 0;  // of this process's part
  std::set<data::RecordTable::Kind> kinds_;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace

PackReport pack_dataset(const Dataset& dataset, const PackSettings& settings, const IndexProgress& progress) {
  if (settings.pixels > 0 && dataset.size() > 0) refuse_what_has_the_size_of_images(dataset);
  const PackPlan plan = plan_pack(dataset, settings, progress);
  return SetPacker(dataset, settings, plan, progress).run();
}

}  // namespace forebay::archive
