#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/field.hpp>
#include <forebay/options.hpp>
#include <forebay/view.hpp>

namespace forebay {

enum class Encoding : std::uint8_t {
  image,         // an image file: a JPEG, a PNG or any other kind in docs/data.md, told by its first bytes
  raw,           // width * height * channels bytes, rows from the top, channels interleaved or one after the other
  video,         // what a clip is decoded from; only datasets that Forebay opens have it
  jpeg = image,  // its name in earlier versions
};

// What is known of a sample without reading its bytes.
struct Sample {
  std::int64_t label = -1;  // index into Dataset::classes(); -1 = unlabelled
  std::optional<Box> box;   // serve this region only; may reach past the image, then it is clamped
  bool difficult = false;
  bool truncated = false;
  Encoding encoding = Encoding::image;
  // raw: of the pixels; video: of a frame as displayed; image: of what its box and fields are of, 0 if not stated
  std::int32_t width = 0;
  std::int32_t height = 0;    // likewise
  std::int32_t channels = 0;  // raw only: 1 or 3
  bool planar = false;        // raw only: all of the first channel, then all of the next
  bool bgr = false;           // raw only: the first of the three channels is blue
  // Each read() compares its bytes with a checksum that is stored outside of them, and throws when they differ. Then
  // the checksum within a packed JPEG is not compared too. A dataset that hands out what another says of its samples,
  // but reads their bytes from elsewhere, sets it to false.
  bool checked = false;
};

// An entry that the index left out.
struct Skipped {
  std::string path;
  std::string reason;
  // True for damage (malformed XML, a box without area): counts towards `max_bad`, fails under `on_bad = "fail"`.
  // False for what was left out by choice or is simply not data (a stray text file, a difficult object).
  bool bad = true;
  // A note that a run repeats when it starts, because what was left out may be missed: labels that cannot be used,
  // bytes that are not read. Without effect where `bad` is true.
  bool told = false;
};

// Totals of an index for reports.
struct IndexCounts {
  std::uint64_t images = 0;       // image files (or records)
  std::uint64_t annotations = 0;  // annotation files parsed
  std::uint64_t objects = 0;      // <object> elements found in them, skipped ones included
};

// Where Dataset::read puts encoded bytes. The caller decides where memory comes from and when there is enough.
class ReadTarget {
 public:
  virtual ~ReadTarget() = default;
  // Called once the size is known; may wait. The span stays valid until the target is destroyed or reused.
  [[nodiscard]] virtual std::span<std::byte> reserve(std::size_t bytes) = 0;
};

// A fixed, indexed set of samples. Implementations are immutable after construction: every member may be
// called from any thread at the same time.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // "voc", "filelist", ...
  [[nodiscard]] virtual std::string_view format() const noexcept = 0;
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  [[nodiscard]] virtual const std::vector<std::string>& classes() const noexcept = 0;
  // REQUIRES: id < size().
  [[nodiscard]] virtual Sample sample(std::uint64_t id) const = 0;
  // A number that samples have in common whose encoded bytes are the same, such as objects of one image file: where
  // they stand side by side in the order they are read and decoded once. REQUIRES: id < size().
  [[nodiscard]] virtual std::uint64_t source(std::uint64_t id) const { return id; }
  // Path of the sample, with "#object N" (counted from 1) or "[record N]" (from 0) where a file holds several; for logs
  // and errors. A path holds whatever bytes the file system has.
  [[nodiscard]] virtual std::string name(std::uint64_t id) const = 0;
  // Reads the sample's encoded bytes: calls target.reserve(n) once and fills all n bytes.
  // Throws SampleError; I/O errors that may pass are marked transient.
  virtual void read(std::uint64_t id, ReadTarget& target) const = 0;
  // Tables that encoded bytes of this dataset refer to by a number: those of packed JPEG files (docs/packing.md).
  // Nothing where it has none with this number, as by default. They stay for as long as the dataset lives.
  [[nodiscard]] virtual std::span<const std::byte> tables(std::uint32_t /*key*/) const { return {}; }
  // The fields of a sample beside image and label; by default there are none. The same at every call.
  [[nodiscard]] virtual std::span<const Field> fields() const noexcept { return {}; }
  // Where a field of a sample comes from, for logs and errors: its file, or "" if it has none of its own.
  [[nodiscard]] virtual std::string field_name(std::uint64_t /*id*/, std::size_t /*field*/) const { return {}; }
  // Reads the field with index `field` in fields(), as read() reads the image. The bytes are, by kind: image: an image
  // file; mask: an image file with one channel or a palette, such as a PNG; array: an npy file, or the elements alone;
  // boxes: LabelledBox, one after the other; bytes: the bytes themselves; others: the elements of one sample, as
  // fields() says.
  virtual void read_field(std::uint64_t /*id*/, std::size_t /*field*/, ReadTarget& /*target*/) const {
    throw SampleError("its dataset names a field and does not read it: read_field() is missing");
  }
  [[nodiscard]] virtual const std::vector<Skipped>& skipped() const noexcept = 0;
  [[nodiscard]] virtual IndexCounts counts() const noexcept = 0;
  // The index as bytes that restore_dataset() turns into an equal dataset without touching the data's directories.
  [[nodiscard]] virtual std::vector<std::byte> serialize() const = 0;
};

// Hash of what decides which bytes a sample id stands for: XXH3-64 of the serialized index without its record of where
// it was built and what was left out. A copy of the data elsewhere has the same fingerprint.
[[nodiscard]] std::uint64_t fingerprint(const Dataset& dataset);

// Progress of an index build: entries done, entries known so far. Called from the thread that called build_dataset.
using IndexProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// Builds the index of `options.path` (format "auto" is detected), in parallel, with the same result for any
// number of threads. Throws ConfigError naming dataset.path when there is nothing usable there.
[[nodiscard]] std::unique_ptr<Dataset> build_dataset(const DatasetOptions& options, const IndexProgress& progress = {});

// Undoes Dataset::serialize(). `origin` names the source of the bytes in errors. Throws Error when the bytes are
// not an index, are of another version, or are damaged (a checksum is kept).
[[nodiscard]] std::unique_ptr<Dataset> restore_dataset(std::span<const std::byte> bytes, std::string_view origin);

// Saves atomically (write, fsync, rename) / loads an index file. Errors name the file. A file of more than 64 MiB is
// read where it is used, for as long as the dataset lives: it may be replaced by rename or removed meanwhile, but where
// it was written into or shortened in place, the dataset's members throw Error.
void save_index(const Dataset& dataset, const std::string& file);
[[nodiscard]] std::unique_ptr<Dataset> load_index(const std::string& file);

// What a run uses: loads `options.index` when it is set, present and made for these options; else builds the index
// and, when `options.index` is set, saves it there. Throws ConfigError naming dataset.index when the saved index was
// made for another path or other options.
[[nodiscard]] std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options, const IndexProgress& progress = {});

}  // namespace forebay
