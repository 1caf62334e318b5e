// Plans a packed set: which samples go into which shard. The plan is written to a manifest in the
// target folder before any shard, so that processes that pack parts of a set, or resume it, agree
// without talking to each other.
//
// identity_of() hashes everything that determines the bytes of the set. A manifest with another
// hash belongs to another dataset or to other options, and is refused. Shards are cut by the sizes
// of samples. These come from the index where it has them. Otherwise several threads begin to read
// every sample, and each read ends as soon as the dataset asks for memory, which tells the size.

#include "pack_plan.hpp"

#include <sys/stat.h>
#include <algorithm>
#include <atomic>
#include <limits>
#include <span>
#include <system_error>

#include <forebay/error.hpp>

#include <nlohmann/json.hpp>

#include "base/file_io.hpp"
#include "base/json_numbers.hpp"
#include "base/output_file.hpp"
#include "base/text.hpp"
#include "data/fields.hpp"
#include "data/index_image.hpp"
#include "data/parallel.hpp"
#include "data/placed_samples.hpp"
#include "part_file.hpp"

namespace forebay::archive {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Chosen.
constexpr std::size_t kLargestManifest = std::size_t{256} << 20U;
// Chosen: a shard's whole index is held in memory.
constexpr std::uint64_t kMostOfShard = std::uint64_t{1} << 22U;  // samples

// Thrown from reserve() to end a read as soon as the size is known; it passes through the dataset's
// read(). Not a std::exception, so that no dataset takes it for a problem of the sample.
struct SizeFound {};

class SizeTarget final : public ReadTarget {
 public:
  std::span<std::byte> reserve(std::size_t size) override {
    bytes = size;
    throw SizeFound{};
  }
  std::uint64_t bytes = 0;
};

// Throws SampleError; Error naming the sample if the store keeps failing.
template <typename Read>
std::uint64_t size_by(const Dataset& dataset, std::uint64_t id, const StorePatience& patience, Read&& read) {
  SizeTarget target;
  try {
    read_patiently([&] { return dataset.name(id); }, [&] { read(target); }, patience);
  } catch (const SizeFound&) {
  } catch (const SampleError& error) {
    if (error.is_transient()) end_for_store(dataset.name(id), error);
    throw;
  }
  return target.bytes;
}

constexpr std::uint64_t kUnknown = UINT64_MAX;

// Replaces unknown sizes by the mean of the known ones: shards need not be exact. `counts[i]` is 0
// for a sample that shares its record with the one before and so has no size of its own.
void fill_unknown(std::vector<std::uint64_t>& sizes, const std::vector<char>& counts) {
  std::uint64_t bytes = 0;
  std::uint64_t known = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (counts[i] == 0 || sizes[i] == kUnknown) continue;
    bytes += sizes[i];
    ++known;
  }
  const std::uint64_t mean = known == 0 ? 0 : bytes / known;
  for (std::uint64_t& size : sizes) size = size == kUnknown ? mean : size;
}

// The number of bytes of each sample in the original dataset. Any thread may call.
class SampleSizes {
 public:
  SampleSizes(const Dataset& dataset, const PackSettings& settings) : dataset_(dataset), settings_(settings) {}

  // Where the dataset knows the sample's placement, that is the size of image and fields together,
  // without a read.
  std::uint64_t operator()(std::uint64_t id) {
    if (const data::PlacedSamples* placed = data::placed_samples(dataset_)) {
      if (const auto place = placed->placement(id)) return place->end() - place->begin();
    }
    std::uint64_t bytes = size_of_image(id);
    if (bytes == kUnknown) return kUnknown;
    for (std::size_t f = 0; f < dataset_.fields().size(); ++f) {
      if (data::is_of_bytes(dataset_.fields()[f].kind)) bytes += size_of_field(id, f);
    }
    return bytes;
  }

 private:
  // An unreadable image has an unknown size, as the store may serve it later (when an expired
  // ticket was renewed, say). Too many of them end planning, because shards would be cut from
  // nothing.
  std::uint64_t size_of_image(std::uint64_t id) {
    try {
      return size_by(dataset_, id, settings_.patience, [&](ReadTarget& target) { dataset_.read(id, target); });
    } catch (const SampleError& error) {
      const auto bad = bad_.fetch_add(1, std::memory_order_relaxed) + 1;  // only a count
      const Skipped last{.path = dataset_.name(id), .reason = error.what(), .bad = true};
      require_few_bad(settings_, bad, dataset_.size(), last);
      if (bad < dataset_.size()) return kUnknown;
      throw Error(last.path + ": " + last.reason + "; not one image of the dataset can be read");
    }
  }
  std::uint64_t size_of_field(std::uint64_t id, std::size_t field) {
    try {
      return size_by(dataset_, id, settings_.patience,
                     [&](ReadTarget& target) { dataset_.read_field(id, field, target); });
    } catch (const SampleError&) {
      return 0;  // most have none
    }
  }

  const Dataset& dataset_;
  const PackSettings& settings_;
  std::atomic<std::uint64_t> bad_{0};
};

// An estimate: pixels take about nine times as much as a JPEG file, and at most as much as an image
// whose longer side is `pixels` and whose shorter one is 3/4 of that.
std::uint64_t size_in_shard(std::uint64_t bytes, const PackSettings& settings) {
  if (settings.pixels == 0) return bytes;
  const auto side = static_cast<std::uint64_t>(settings.pixels);
  return std::min(9 * bytes, 9 * side * side / 4);
}

// Returns the number of each shard's first sample, then the number of samples. Samples that share a
// record stay in one shard: only the first of them may begin a shard.
std::vector<std::uint64_t> cut_into_shards(const Dataset& dataset, const PackSettings& settings,
                                           const IndexProgress& progress) {
  constexpr std::uint64_t kAtOnce = 256;
  std::vector<std::uint64_t> sizes(dataset.size());
  std::vector<char> may_begin(dataset.size(), 1);
  SampleSizes size_of_sample(dataset, settings);
  data::run_parallel({sizes.size(), settings.threads, progress, kAtOnce}, [&](std::size_t id) {
    if (id > 0 && shares_record(dataset, id)) {
      may_begin[id] = 0;
    } else {
      const std::uint64_t bytes = size_of_sample(id);
      sizes[id] = bytes == kUnknown ? kUnknown : size_in_shard(bytes, settings);
    }
  });
  fill_unknown(sizes, may_begin);
  std::vector<std::uint64_t> firsts{0};
  std::uint64_t bytes = 0;
  for (std::uint64_t id = 0; id < sizes.size(); ++id) {
    const bool is_full =
        id > firsts.back() && (bytes + sizes[id] > settings.shard_bytes || id - firsts.back() >= kMostOfShard);
    if (is_full && may_begin[id] != 0) {
      firsts.push_back(id);
      bytes = 0;
    }
    bytes += sizes[id];
  }
  firsts.push_back(sizes.size());
  return firsts;
}

data::Hash128 identity_of(const Dataset& dataset, const PackSettings& settings) {
  std::string text = "forebay pack " + std::to_string(data::kPackVersion) + " of " + hex(fingerprint(dataset), 16) +
                     " in shards of " + std::to_string(settings.shard_bytes);
  if (settings.pixels > 0) text += ", pixels " + std::to_string(settings.pixels);
  if (settings.pixels == 0 && settings.coefficients) text += ", JPEG coefficients";
  // These options decide how images are decoded, be it to store pixels or to compare them, and
  // which images cannot be decoded and are stored as they are.
  if (settings.pixels > 0 || settings.coefficients) {
    text += std::string(settings.images.exif ? ", turned" : "") + ", of at most " +
            std::to_string(settings.images.max_pixels) + " pixels";
  }
  return data::hash128(std::as_bytes(std::span(text)));
}

// A hash, because a manifest may be given away with the set.
std::string hash_of_folder(const Dataset& dataset) {
  const data::IndexImage* const image = data::image_of(dataset);
  return image == nullptr ? "" : data::hex(data::hash128(std::as_bytes(std::span(image->record().root))));
}

// The time of the folder's file system, provided that a file was just created there; otherwise an
// earlier one, or 0.
std::int64_t time_in(const fs::path& folder) {
  struct stat status {};
  return ::stat(folder.c_str(), &status) == 0 ? status.st_mtim.tv_sec : 0;
}

// Written for people as well as for read_manifest(), which reads back the set, the first sample of
// each shard, and when and of which folder the set was begun.
std::string manifest_text(const Dataset& dataset, const PackSettings& settings, const PackPlan& plan) {
  Json shards = Json::array();
  for (std::uint32_t i = 0; i < plan.shards(); ++i) {
    shards.push_back({{"file", data::pack_shard_name(i, plan.shards())},
                      {"first", plan.firsts[i]},
                      {"samples", plan.firsts[i + 1] - plan.firsts[i]}});
  }
  const Json manifest{{"forebay_pack", data::kPackVersion},  {"set", data::hex(plan.set)},
                      {"format", dataset.format()},          {"fingerprint", hex(fingerprint(dataset), 16)},
                      {"shard_bytes", settings.shard_bytes}, {"pixels", settings.pixels},
                      {"samples", dataset.size()},           {"folder", hash_of_folder(dataset)},
                      {"begun", time_in(settings.out)},      {"shards", std::move(shards)}};
  return manifest.dump(1) + "\n";
}

ConfigError bad_manifest(const fs::path& file, const std::string& problem) {
  return ConfigError{file.string() + ": " + problem + "; remove the folder, or name another"};
}

// Nothing in the file is trusted: the first samples must ascend from 0 to the number of samples.
PackPlan read_manifest(const fs::path& file, const data::Hash128& set, const Dataset& dataset) {
  PackPlan plan{.set = set, .firsts = {}};
  std::string found;
  try {
    const std::string text = read_text_file(file, kLargestManifest);
    constexpr std::size_t kDeepest = 8;
    if (json_depth(text) > kDeepest) throw Error("is no manifest of a packed dataset");
    const Json manifest = Json::parse(text);
    found = manifest.at("set").get<std::string>();
    for (const Json& shard : manifest.at("shards")) {
      plan.firsts.push_back(whole_number<std::uint64_t>(shard, "first"));
    }
    plan.firsts.push_back(whole_number<std::uint64_t>(manifest, "samples"));
    if (manifest.value("folder", "") == hash_of_folder(dataset))
      plan.begun = whole_number<std::int64_t>(manifest, "begun");
  } catch (const nlohmann::json::exception& error) {
    throw bad_manifest(file, "is no manifest of a packed dataset, or damaged (" + std::string(error.what()) + ")");
  } catch (const Error& error) {
    throw bad_manifest(file, error.what());
  }
  if (found != data::hex(set)) {
    throw bad_manifest(file, "the folder holds, or was begun for, another dataset or the same with other options");
  }
  const bool ascends = std::ranges::adjacent_find(plan.firsts, std::greater_equal{}) == plan.firsts.end();
  constexpr std::size_t kMostShards = 99'999'999;
  if (plan.firsts.size() >= 2 && plan.firsts.size() <= kMostShards && plan.firsts.front() == 0 && ascends &&
      plan.firsts.back() == dataset.size()) {
    return plan;
  }
  throw bad_manifest(file, "is damaged: its shards are not those of " + std::to_string(dataset.size()) + " samples");
}

// Throws unless the folder is empty. Temporary files of the manifest are tolerated, as another
// process may be writing it.
void require_new(const fs::path& folder) {
  std::error_code error;
  std::error_code unknown;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().native().starts_with(kPackManifest)) continue;
    // Where the file system has no locks, another process may have written its manifest meanwhile
    // and begun to pack.
    if (fs::exists(folder / kPackManifest, unknown)) return;
    throw ConfigError(folder.string() + " is not empty, and no packed dataset: name another folder");
  }
  if (error) throw Error(folder.string() + ": cannot list the folder: " + error.message());
}

}  // namespace

void create_folder(const fs::path& folder) {
  if (const auto problem = problem_of_output(folder.native()); !problem.empty()) {
    throw ConfigError(folder.string() + ": " + std::string(problem));
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw ConfigError(folder.string() + ": cannot create the folder: " + error.message());
  if (!fs::is_directory(folder)) throw ConfigError(folder.string() + " is not a folder");
}

// Two objects of one image share a record unless a field that is stored as bytes comes from
// different files.
bool shares_record(const Dataset& dataset, std::uint64_t id) {
  if (dataset.source(id) != dataset.source(id - 1) || !dataset.sample(id).box) return false;
  for (std::size_t f = 0; f < dataset.fields().size(); ++f) {
    if (!data::is_of_bytes(dataset.fields()[f].kind)) continue;
    const std::string file = dataset.field_name(id, f);
    if (file.empty() || file != dataset.field_name(id - 1, f)) return false;
  }
  return true;
}

bool are_few_bad(const PackSettings& settings, std::uint64_t bad, std::uint64_t samples) {
  return !settings.allowed_bad || bad <= settings.allowed_bad(samples);
}

void require_few_bad(const PackSettings& settings, std::uint64_t bad, std::uint64_t samples, const Skipped& last) {
  if (are_few_bad(settings, bad, samples)) return;
  throw Error(
      last.path + ": " + last.reason + "; with it " + std::to_string(bad) + " of " + std::to_string(samples) +
      " samples could not be read" +
      (settings.known_bad > 0 ? ", besides " + std::to_string(settings.known_bad) + " that the index left out" : "") +
      ", more than max_bad and on_bad allow; mend them or max_bad, and run the "
      "command again, which resumes");
}

// The manifest is read back even by the process that wrote it: if several did, the first one's
// counts.
PackPlan plan_pack(const Dataset& dataset, const PackSettings& settings, const IndexProgress& progress) {
  if (dataset.size() == 0) throw ConfigError("there are no samples to pack");
  const data::Hash128 set = identity_of(dataset, settings);
  const fs::path manifest = settings.out / kPackManifest;
  create_folder(settings.out);
  // Checked before anything in the folder is touched, because the folder may hold something else.
  std::error_code unknown;
  if (fs::exists(manifest, unknown)) {
    (void)read_manifest(manifest, set, dataset);
  } else {
    require_new(settings.out);
  }
  make_shared_file(manifest, [&] {
    require_new(settings.out);
    const PackPlan plan{.set = set, .firsts = cut_into_shards(dataset, settings, progress)};
    const std::string text = manifest_text(dataset, settings, plan);
    const auto bytes = std::as_bytes(std::span(text));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  });
  return read_manifest(manifest, set, dataset);
}

}  // namespace forebay::archive
