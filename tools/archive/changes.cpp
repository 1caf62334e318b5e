// Checks whether a shard that is kept when packing resumes still matches the dataset.
//
// Reading every original again would take as long as packing. So a file is suspect only if its size
// differs, or if its ctime is later than the time at which the set was begun. The manifest says it:
// its own file may be a copy, which is younger than changes that the shards lack.
// Suspects are read and compared by hash. Several threads go through one shard. They stop at the
// lowest sample that differs, because then the whole shard is written again.

#include "changes.hpp"

#include <sys/stat.h>
#include <algorithm>
#include <atomic>
#include <memory>

#include <forebay/error.hpp>

#include "data/fields.hpp"
#include "data/npy.hpp"
#include "data/parallel.hpp"

namespace forebay::archive {
namespace {

// Seconds. Chosen: the manifest and the data may lie on two servers whose clocks differ.
constexpr std::int64_t kMostBetweenClocks = 60;
constexpr std::size_t kComparedAtOnce = 64;  // samples

// The file that holds the sample's image, or the name of a record in one. Samples that are objects
// are named "IMAGE#object N".
std::string file_of_image(const Dataset& dataset, std::uint64_t id) {
  std::string name = dataset.name(id);
  if (dataset.sample(id).box) name.resize(std::min(name.size(), name.rfind("#object ")));
  return name;
}

}  // namespace

// Compares samples of one shard. Used by one thread.
class ChangeFinder::OfShard {
 public:
  OfShard(ChangeFinder& finder, const ReadShard& shard) : finder_(finder), shard_(shard), reader_(shard) {}

  [[nodiscard]] bool differs(std::size_t sample, std::uint64_t id) {
    try {
      if (is_suspect(file_of_image(finder_.dataset_, id), shard_.originals.bytes[sample]) && !has_image(sample, id)) {
        return true;
      }
      std::size_t in_file = 0;
      for (std::size_t f = 0; f < shard_.index.fields.size(); ++f) {
        const data::PackIndex::InField& stored = shard_.index.fields[f];
        if (stored.lengths.empty()) continue;
        const bool is_there = stored.lengths[sample] != data::PackIndex::InField::kAbsent;
        const bool may_differ = is_there && is_suspect(finder_.dataset_.field_name(id, f), stored.lengths[sample]);
        if (may_differ && !has_field(sample, id, f, in_file)) return true;
        ++in_file;
      }
    } catch (const SampleError& error) {
      if (error.is_transient()) end_for_store(finder_.dataset_.name(id), error);
    }
    return false;
  }

 private:
  // Whether the file may have changed since packing began. ctime is used because, unlike mtime, no
  // program can set it back. Of an array in an archive, and of a record in a container, only the
  // time of the whole file is compared, not its size. A name that no regular file has is never
  // suspect.
  [[nodiscard]] bool is_suspect(const std::string& file, std::uint64_t bytes) const {
    struct stat status {};
    const std::optional<data::ArrayPlace> place = data::array_place(file);
    const std::size_t record = file.ends_with(']') ? file.rfind("[record ") : std::string::npos;
    const std::string on_disk = place ? place->archive : file.substr(0, record);
    if (file.empty() || ::stat(on_disk.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
    const bool has_other_size = on_disk == file && static_cast<std::uint64_t>(status.st_size) != bytes;
    return has_other_size || status.st_ctim.tv_sec + kMostBetweenClocks >= finder_.begun_;
  }

  // For an image stored as pixels, the hash is that of the pixels, so the image is packed again to
  // be compared.
  [[nodiscard]] bool has_image(std::size_t sample, std::uint64_t id) {
    const data::Hash128& expected = shard_.originals.hash[sample];
    if (shard_.originals.stored[sample] != data::PackStored::pixels) {
      return data::hash128(bytes_by(finder_.settings_.patience, finder_.dataset_, id,
                                    [&](ReadTarget& target) { finder_.dataset_.read(id, target); })) == expected;
    }
    bool is_same = true;
    finder_.packers_.with([&](SamplePacker& packer) {
      const PackedSample packed = packer.pack(id, false);
      is_same = !packed.problem.empty() || packed.hash == expected;
    });
    return is_same;
  }

  // A damaged record counts as different.
  [[nodiscard]] bool has_field(std::size_t sample, std::uint64_t id, std::size_t field, std::size_t in_file) {
    const std::vector<std::byte> now =
        bytes_by(finder_.settings_.patience, finder_.dataset_, id,
                 [&](ReadTarget& target) { finder_.dataset_.read_field(id, field, target); });
    try {
      return std::ranges::equal(reader_.read(sample).fields[in_file], now);
    } catch (const SampleError&) {
      return false;
    }
  }

  ChangeFinder& finder_;
  const ReadShard& shard_;
  RecordReader reader_;
};

ChangeFinder::ChangeFinder(const Dataset& dataset, const PackSettings& settings, std::int64_t begun,
                           Lending<SamplePacker>& packers)
    : dataset_(dataset), settings_(settings), begun_(begun), packers_(packers) {}

// `first` only falls, so the result is the lowest sample that differs, whatever the threads do.
std::optional<std::uint64_t> ChangeFinder::find(const ReadShard& shard, const std::vector<std::uint64_t>& ids) {
  std::atomic<std::size_t> first{ids.size()};
  Lending<OfShard> finders([&] { return std::make_unique<OfShard>(*this, shard); });
  data::run_parallel({ids.size(), settings_.threads, {}, kComparedAtOnce}, [&](std::size_t i) {
    if (i >= first.load() || shard.shares(i)) return;
    finders.with([&](OfShard& finder) {
      if (!finder.differs(i, ids[i])) return;
      for (std::size_t known = first; i < known && !first.compare_exchange_weak(known, i);) {
      }
    });
  });
  return first < ids.size() ? std::optional(ids[first]) : std::nullopt;
}

}  // namespace forebay::archive
