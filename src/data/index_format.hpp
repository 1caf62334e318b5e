#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <forebay/dataset.hpp>
#include <forebay/error.hpp>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// A serialized index: header, sums, then three parts. The *record* says what the index was built from and what was left
// out; the *content* determines the bytes and the label of each sample id, and is what fingerprint() hashes; the
// *state* describes the data at the time (data_state.hpp). The content is divided into chunks, whose checksums are the
// sums: so an index can be opened without reading all of it, and each chunk is checked when it is first used
// (index_image.hpp). Numbers are little-endian.
namespace forebay::data {

static_assert(std::endian::native == std::endian::little, "indexes are written in the machine's byte order");

// What an index was built from, to decide whether a saved index is the right one.
struct IndexOrigin {
  std::string format;                // resolved, never "auto"
  std::string path;                  // absolute
  std::string labels;                // absolute, or empty
  std::vector<std::string> classes;  // as given in the options
  bool difficult = true;
  SampleUnit samples = SampleUnit::objects;
  std::vector<std::string> fields = {};  // describe_fields()
  ClipOptions clip = {};
  std::uint64_t source_hash = 0;  // Format::hash() of the options; 0 for formats without one

  friend bool operator==(const IndexOrigin&, const IndexOrigin&) = default;
};

// The record of an index.
struct IndexRecord {
  IndexOrigin origin;
  std::string root;  // absolute; prefix of every relative path
  std::vector<Skipped> skipped;
  IndexCounts counts;
  // Of each file of records, `modified` and `spread` of its stamp, set by make_dataset(). Not part of the content: a
  // copy has other times, and must have the same content.
  std::vector<std::int64_t> modified = {};
  std::vector<std::uint64_t> spreads = {};
};

// Appends values to a byte string. A record's members are listed once for both directions, in a function that calls
// codec(value, ...) with an IndexWriter or an IndexReader.
class IndexWriter {
 public:
  IndexWriter() = default;
  explicit IndexWriter(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}

  template <typename... Values>
  void operator()(const Values&... values) {
    (put(values), ...);
  }
  void bytes(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  // Writes only the values; their number is written elsewhere.
  template <typename T>
  void column(const std::vector<T>& values) {
    bytes(std::as_bytes(std::span(values)));
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) { bytes(std::as_bytes(std::span(&value, 1))); }
  void put(std::string_view text) {
    put<std::uint64_t>(text.size());
    bytes(std::as_bytes(std::span(text)));
  }
  void put(const std::string& text) { put(std::string_view(text)); }
  void put(const Skipped& entry) { (*this)(entry.path, entry.reason, entry.bad, entry.told); }
  template <typename T>
  void put(const std::vector<T>& values) {
    put<std::uint64_t>(values.size());
    for (const T& value : values) put(value);
  }

  std::vector<std::byte> bytes_;
};

// Reads values back. Never reads outside its bytes, and never allocates more than they could fill: throws Error if the
// requested values do not exist. `origin` names the index in errors.
class IndexReader {
 public:
  IndexReader(std::span<const std::byte> bytes, std::string_view origin) : bytes_(bytes), origin_(origin) {}

  template <typename... Values>
  void operator()(Values&... values) {
    (get(values), ...);
  }
  // Throws Error if bytes are left over.
  void expect_end() const;

 private:
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void get(T& value) { std::memcpy(&value, take(sizeof(T)).data(), sizeof(T)); }
  void get(bool& flag);
  void get(std::string& text);
  void get(Skipped& entry) { (*this)(entry.path, entry.reason, entry.bad, entry.told); }
  // Grows as values are found, because a damaged count must not decide how much is allocated.
  template <typename T>
  void get(std::vector<T>& values) {
    std::uint64_t left = 0;
    for (get(left); left > 0; --left) get(values.emplace_back());
  }
  [[nodiscard]] std::span<const std::byte> take(std::uint64_t bytes);

  std::span<const std::byte> bytes_;
  std::string_view origin_;
};

// The error for an index whose bytes make no sense: "ORIGIN: a damaged index: WHAT; delete it to ...".
[[nodiscard]] Error damaged_index(std::string_view origin, std::string_view what);

// Bytes of content that one checksum covers; the last chunk may be shorter.
inline constexpr std::size_t kIndexChunk = std::size_t{64} << 10U;

// Where the parts of a serialized index are, and what its header promises.
struct IndexLayout {
  std::size_t sums_at = 0;  // one checksum of 8 bytes for each chunk
  std::size_t sums_bytes = 0;
  std::size_t record_at = 0;
  std::size_t record_bytes = 0;
  std::size_t content_at = 0;
  std::size_t content_bytes = 0;
  std::size_t state_at = 0;
  std::size_t state_bytes = 0;
  std::uint64_t record_sum = 0;
  std::uint64_t state_sum = 0;
  std::uint64_t fingerprint = 0;  // of the content: hash of the sums
  std::uint64_t identity = 0;     // equal for two indexes if all their bytes are
};

// The size of the header that read_index_layout() takes.
inline constexpr std::size_t kIndexHeader = 72;

// Whether the bytes begin like an index of any version.
[[nodiscard]] bool begins_as_index(std::span<const std::byte> bytes) noexcept;
// Checks the header, and that its sizes add up to an index of `size` bytes. `header` is the first kIndexHeader bytes,
// or all if there are fewer. Throws Error naming the origin, also for an index of another version.
[[nodiscard]] IndexLayout read_index_layout(std::span<const std::byte> header, std::size_t size,
                                            std::string_view origin);
// Checks the sums and the record against the header, and reads the record. Throws Error naming the origin.
[[nodiscard]] IndexRecord read_index_record(const IndexLayout& layout, std::span<const std::byte> sums,
                                            std::span<const std::byte> record, std::string_view origin);
// The checksum that a chunk of these bytes has.
[[nodiscard]] std::uint64_t chunk_sum(std::span<const std::byte> chunk) noexcept;

// Makes a serialized index. `write` appends exactly `content_bytes`, so that an index of gigabytes is written in
// place; `state` is a serialized DataState.
[[nodiscard]] std::vector<std::byte> seal_index(const IndexRecord& record, std::size_t content_bytes,
                                                const std::function<void(IndexWriter&)>& write,
                                                std::span<const std::byte> state = {});

}  // namespace forebay::data
