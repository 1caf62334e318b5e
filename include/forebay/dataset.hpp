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
  image,         // an image file of any kind in docs/data.md, recognised by its first bytes
  raw,           // width * height * channels bytes, rows from the top, channels interleaved or one after the other
  video,         // the bytes from which a clip is decoded; only in datasets that Forebay itself opens
  jpeg = image,  // its name in earlier versions
};

// What is known about a sample without reading its bytes.
struct Sample {
  std::int64_t label = -1;  // index into Dataset::classes(); -1 = unlabelled
  std::optional<Box> box;   // serve only this region, clamped to the image
  bool difficult = false;
  bool truncated = false;
  Encoding encoding = Encoding::image;
  // The size, in pixels. raw: of the image; video: of a frame as displayed; image: of the image that its box and fields
  // refer to, 0 if unknown.
  std::int32_t width = 0;
  std::int32_t height = 0;    // likewise
  std::int32_t channels = 0;  // raw only: 1 or 3
  bool planar = false;        // raw only: all of the first channel, then all of the next
  bool bgr = false;           // raw only: the first of the three channels is blue
  // Every read() compares the bytes with a checksum stored outside of them, and throws if they differ; the checksum
  // within a packed JPEG is then not compared again. A dataset that returns another dataset's Sample but reads the
  // bytes from elsewhere must set this to false.
  bool checked = false;
};

// An entry that the index left out.
struct Skipped {
  std::string path;
  std::string reason;
  // True for damage (malformed XML, a box without area): counts towards `max_bad`, and is an error under `on_bad =
  // "fail"`. False for what was left out by choice or is not data (a stray text file, a difficult object).
  bool bad = true;
  // Whether a run repeats this at its start, because the user may expect the data to be used: labels that cannot be
  // used, bytes that are not read. No effect if `bad` is true.
  bool told = false;
};

// Totals of an index for reports.
struct IndexCounts {
  std::uint64_t images = 0;       // image files (or records)
  std::uint64_t annotations = 0;  // annotation files parsed
  std::uint64_t objects = 0;      // <object> elements found in them, skipped ones included
};

// The destination of Dataset::read(). The caller decides where memory comes from and when there is enough.
class ReadTarget {
 public:
  virtual ~ReadTarget() = default;
  // Called once, when the size is known; may wait. The span stays valid until the target is destroyed or reused.
  [[nodiscard]] virtual std::span<std::byte> reserve(std::size_t bytes) = 0;
};

// A fixed, indexed set of samples. Implementations are immutable after construction: any number of threads may call
// every member concurrently.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // "voc", "filelist", ...
  [[nodiscard]] virtual std::string_view format() const noexcept = 0;
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  [[nodiscard]] virtual const std::vector<std::string>& classes() const noexcept = 0;
  // REQUIRES: id < size().
  [[nodiscard]] virtual Sample sample(std::uint64_t id) const = 0;
  // A number shared by samples with the same encoded bytes, such as objects in one image file: where such samples are
  // adjacent in the order, they are read and decoded once. REQUIRES: id < size().
  [[nodiscard]] virtual std::uint64_t source(std::uint64_t id) const { return id; }
  // Path of the sample, with "#object N" (counted from 1) or "[record N]" (from 0) if a file holds several; for logs
  // and errors. The bytes of a path are those of the file system, in whatever encoding.
  [[nodiscard]] virtual std::string name(std::uint64_t id) const = 0;
  // Reads the sample's encoded bytes: calls target.reserve(n) once and fills all n bytes. Throws SampleError; I/O
  // errors that may be temporary are marked transient.
  virtual void read(std::uint64_t id, ReadTarget& target) const = 0;
  // Tables to which encoded bytes of this dataset refer by a number: those of packed JPEG files (docs/packing.md).
  // Empty if there are none with this number, as by default. Valid for as long as the dataset lives.
  [[nodiscard]] virtual std::span<const std::byte> tables(std::uint32_t /*key*/) const { return {}; }
  // The fields of a sample besides image and label; none by default. The same at every call.
  [[nodiscard]] virtual std::span<const Field> fields() const noexcept { return {}; }
  // The file that a field of a sample comes from, for logs and errors; "" if it has none of its own.
  [[nodiscard]] virtual std::string field_name(std::uint64_t /*id*/, std::size_t /*field*/) const { return {}; }
  // Reads the field with index `field` in fields(), as read() reads the image. The bytes are, by kind: image: an image
  // file; mask: an image file with one channel or a palette, such as a PNG; array: an npy file, or the elements alone;
  // boxes: consecutive LabelledBox structs; bytes: the bytes themselves; others: the elements of one sample, with the
  // dtype and shape in fields().
  virtual void read_field(std::uint64_t /*id*/, std::size_t /*field*/, ReadTarget& /*target*/) const {
    throw SampleError("its dataset names a field and does not read it: read_field() is missing");
  }
  [[nodiscard]] virtual const std::vector<Skipped>& skipped() const noexcept = 0;
  [[nodiscard]] virtual IndexCounts counts() const noexcept = 0;
  // The index as bytes, from which restore_dataset() makes an equal dataset without touching the data's directories.
  [[nodiscard]] virtual std::vector<std::byte> serialize() const = 0;
};

// Hash of everything that decides which bytes a sample id stands for: XXH3-64 of the serialized index, except for its
// record of where it was built and what was left out. A copy of the data elsewhere has the same fingerprint.
[[nodiscard]] std::uint64_t fingerprint(const Dataset& dataset);

// Progress of an index build: entries done, entries known so far. Called from the thread that called build_dataset.
using IndexProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// Builds the index of `options.path` (format "auto" is detected), in parallel, with the same result for any number of
// threads. Throws ConfigError naming dataset.path if there is nothing usable there.
[[nodiscard]] std::unique_ptr<Dataset> build_dataset(const DatasetOptions& options, const IndexProgress& progress = {});

// Undoes Dataset::serialize(). `origin` names the source of the bytes in errors. Throws Error if the bytes are not an
// index, are of another version, or are damaged (they contain a checksum).
[[nodiscard]] std::unique_ptr<Dataset> restore_dataset(std::span<const std::byte> bytes, std::string_view origin);

// save_index() saves an index file atomically (write, fsync, rename); load_index() loads it. Errors name the file. A
// file of more than 64 MiB is read piece by piece on demand, for as long as the dataset lives: it may be replaced by
// rename or removed meanwhile, but if it is modified or shortened in place, the dataset's members throw Error.
void save_index(const Dataset& dataset, const std::string& file);
[[nodiscard]] std::unique_ptr<Dataset> load_index(const std::string& file);

// Opens a dataset as a run does: loads `options.index` if it is set, present and made for these options; otherwise
// builds the index and, if `options.index` is set, saves it there. Throws ConfigError naming dataset.index if the saved
// index was made for another path or other options.
[[nodiscard]] std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options, const IndexProgress& progress = {});

}  // namespace forebay
