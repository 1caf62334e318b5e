#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <forebay/dataset.hpp>

namespace forebay::data {

// Where the bytes of a sample's image and fields are.
struct Placement {
  std::uint64_t source = 0;  // number of the file
  std::uint64_t offset = 0;  // of the image
  std::uint64_t length = 0;
  // Bytes around the image that are also read, because they contain fields or are covered by a checksum.
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  std::uint64_t idle = 0;                  // bytes in between that are neither
  std::vector<std::uint64_t> fields = {};  // size of each field, including those held by the index

  [[nodiscard]] std::uint64_t begin() const noexcept { return offset - before; }
  [[nodiscard]] std::uint64_t end() const noexcept { return offset + length + after; }
};

// A dataset that knows where its samples are, and can read one or several whole samples in one request. Any thread may
// call.
class PlacedSamples {
 public:
  virtual ~PlacedSamples() = default;
  // Nothing for a sample that is a whole file, that the index holds itself, or one of whose fields is elsewhere,
  // missing, or too large for a batch. REQUIRES: id < size().
  [[nodiscard]] virtual std::optional<Placement> placement(std::uint64_t id) const = 0;
  // Fills `parts` with the samples of `ids`, in one request: for each its image, of Placement::length bytes, then its
  // fields. Throws SampleError if that fails or any of them is damaged, without saying which. REQUIRES: all have
  // placements in one source, ascending, without overlap.
  virtual void read_together(std::span<const std::uint64_t> ids, std::span<const std::span<std::byte>> parts) const = 0;
};

// Extends the placement of an image to enclose these half-open ranges of its file: the image's own and its fields'.
// False if that is impossible: some overlap without being equal, or a checksum covers the image but not all of them.
[[nodiscard]] bool enclose(std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges, Placement& placement);

// Whether a field of this size fits in a batch.
[[nodiscard]] bool fits_batch(const Field& field, std::uint64_t bytes) noexcept;
// The error for one that does not.
[[nodiscard]] SampleError too_large_for_batch(const Field& field, std::uint64_t bytes);

// The dataset's PlacedSamples; null for a program's own dataset, and if samples are whole files.
[[nodiscard]] const PlacedSamples* placed_samples(const Dataset& dataset) noexcept;

// A dataset that knows the files of its samples and their fields. Any thread may call.
class SampleFiles {
 public:
  virtual ~SampleFiles() = default;
  [[nodiscard]] virtual std::uint64_t files() const noexcept = 0;
  // REQUIRES: id < size().
  [[nodiscard]] virtual std::uint64_t file_of(std::uint64_t id) const = 0;
  // REQUIRES: file < files().
  [[nodiscard]] virtual std::string file_path(std::uint64_t file) const = 0;
};

// Source files that are missing or not regular files.
struct MissingFiles {
  std::vector<Skipped> files;                 // in order
  std::unordered_set<std::uint64_t> samples;  // in them
};
// Empty for a program's own dataset. Asks the file system about each file, with several threads.
[[nodiscard]] MissingFiles find_missing_files(const Dataset& dataset, unsigned threads, const IndexProgress& progress);

}  // namespace forebay::data
