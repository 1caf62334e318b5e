// Finds the codes of a pack by k-means over files: a file's distance to a group is the number of
// bits that its symbols take with the group's codes. Initially files are grouped by how strongly
// they are compressed, which affects codes most. There is no randomness, so the same files in the
// same order give the same tables. Runs on one thread, over a sample of the dataset's files.

#include <algorithm>
#include <limits>
#include <numeric>

#include "header_parts.hpp"
#include "jpeg_streams.hpp"
#include "pack_tables.hpp"

namespace forebay::pack {
namespace {

// Rounds of moving files between groups; a choice.
constexpr int kTrainingRounds = 8;
// A set of its own is worthwhile from this many files on.
constexpr std::size_t kFilesOfSet = 4;

void add_counts(const StreamCounts& from, StreamCounts& to) noexcept {
  for (std::size_t kind = 0; kind < kBlockKinds; ++kind) {
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      for (std::size_t symbol = 0; symbol < kSymbols; ++symbol) {
        to[kind][stream][symbol] += from[kind][stream][symbol];
      }
    }
  }
}

}  // namespace

class PackTraining::Impl {
 public:
  bool add(std::span<const std::byte> file) {
    const PlainHeader* const header = streams_.read(file);
    if (header == nullptr) return false;
    parts_.add(file, *header);
    const auto pixels = static_cast<double>(header->frame.width) * static_cast<double>(header->frame.height);
    files_.push_back({streams_.streams().counts(), static_cast<double>(file.size() - header->size) / pixels});
    return true;
  }

  [[nodiscard]] std::size_t files() const noexcept { return files_.size(); }

  [[nodiscard]] std::vector<std::byte> finish(std::size_t sets) const {
    return PackTables::assemble(codes(std::clamp<std::size_t>(files_.size() / kFilesOfSet, 1, sets)), parts_.choose());
  }

 private:
  struct File {
    StreamCounts counts;
    double density;  // bytes per pixel
  };

  // Sorts files by how strongly they are compressed, and divides them into `sets` groups. Then each
  // file moves to the group whose codes are the shortest for it, for a few rounds. A dataset
  // without JPEG files still needs tables: those of the usual photograph.
  [[nodiscard]] std::vector<StreamLengths> codes(std::size_t sets) const {
    if (files_.empty()) return {codes_for(usual_counts())};
    std::vector<std::size_t> order(files_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return files_[i].density; });
    std::vector<std::size_t> group(files_.size());
    for (std::size_t i = 0; i < order.size(); ++i) group[order[i]] = i * sets / order.size();
    std::vector<StreamLengths> codes;
    for (int round = 0; round < kTrainingRounds; ++round) {
      codes = codes_of(group, sets);
      std::vector<TableSet> tables;
      tables.reserve(codes.size());
      for (const StreamLengths& lengths : codes) tables.emplace_back(lengths);
      for (std::size_t i = 0; i < files_.size(); ++i) group[i] = shortest_for(files_[i].counts, tables);
    }
    return codes_of(group, sets);
  }

  [[nodiscard]] std::vector<StreamLengths> codes_of(const std::vector<std::size_t>& group, std::size_t sets) const {
    std::vector<StreamCounts> counts(sets);
    for (std::size_t i = 0; i < files_.size(); ++i) add_counts(files_[i].counts, counts[group[i]]);
    std::vector<StreamLengths> codes;
    for (std::size_t set = 0; set < sets; ++set) {
      // A group that all files have left gets no code.
      if (std::ranges::find(group, set) == group.end()) continue;
      codes.push_back(codes_for(counts[set]));
    }
    return codes;
  }

  [[nodiscard]] static std::size_t shortest_for(const StreamCounts& counts, const std::vector<TableSet>& tables) {
    std::size_t best = 0;
    double fewest = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < tables.size(); ++i) {
      const double bits = bits_of(counts, tables[i]);
      if (bits >= fewest) continue;
      fewest = bits;
      best = i;
    }
    return best;
  }

  JpegStreams streams_;
  HeaderPartChoice parts_;
  std::vector<File> files_;
};

PackTraining::PackTraining() : impl_(std::make_unique<Impl>()) {}
PackTraining::PackTraining(PackTraining&&) noexcept = default;
PackTraining& PackTraining::operator=(PackTraining&&) noexcept = default;
PackTraining::~PackTraining() = default;

bool PackTraining::add(std::span<const std::byte> file) { return impl_->add(file); }
std::size_t PackTraining::files() const noexcept { return impl_->files(); }

// Converts to bytes and back, so that what is used is what a file of the tables contains.
PackTables PackTraining::finish(std::size_t sets) const {
  constexpr std::size_t kMost = 64;
  return PackTables::from_bytes(impl_->finish(std::clamp<std::size_t>(sets, 1, kMost)));
}

}  // namespace forebay::pack
