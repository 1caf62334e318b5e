#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <forebay/dataset.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

// A serialized index: magic, version, sizes and checksum, then two parts. The *record* tells what the index was built
// from and what was left out; the *content* is all that decides which bytes and which label a sample id stands for, and
// is what fingerprint() hashes. Numbers are little endian.
namespace forebay {

static_assert(std::endian::native == std::endian::little, "indexes are written in the machine's byte order");

// What an index was built from, to tell whether a saved one is the one that is wanted.
struct IndexOrigin {
  std::string format;                // resolved, never "auto"
  std::string path;                  // absolute
  std::string labels;                // absolute, or empty
  std::vector<std::string> classes;  // as given in the options
  bool difficult = true;
  std::uint64_t source_hash = 0;  // of the list and labels files of a file list; 0 for other formats

  friend bool operator==(const IndexOrigin&, const IndexOrigin&) = default;
};

// The parts that every format has.
struct IndexRecord {
  IndexOrigin origin;
  std::string root;  // absolute; stands before every relative path
  std::vector<Skipped> skipped;
  IndexCounts counts;
};

// Appends values to a byte string.
class IndexWriter {
 public:
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void value(const T& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void array(const std::vector<T>& values) {
    value<std::uint64_t>(values.size());
    const auto bytes = std::as_bytes(std::span(values));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void text(std::string_view text);
  void texts(const std::vector<std::string>& texts);

  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Reads them back. Never reads outside its bytes and never allocates more than they could fill: every member throws
// Error when what it is asked for is not there.
class IndexReader {
 public:
  explicit IndexReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] T value() {
    T value{};
    const auto from = take(sizeof(T));
    std::memcpy(&value, from.data(), sizeof(T));
    return value;
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] std::vector<T> array() {
    const auto count = counted(sizeof(T));
    std::vector<T> values(count);
    const auto from = take(count * sizeof(T));
    if (count > 0) std::memcpy(values.data(), from.data(), from.size());
    return values;
  }
  [[nodiscard]] bool flag();
  [[nodiscard]] std::string text();
  [[nodiscard]] std::vector<std::string> texts();
  // Throws Error when bytes are left over.
  void expect_end() const;

 private:
  [[nodiscard]] std::span<const std::byte> take(std::size_t bytes);
  // A number of elements of at least `size` bytes each that the remaining bytes can hold.
  [[nodiscard]] std::size_t counted(std::size_t size);

  std::span<const std::byte> bytes_;
};

// For code that checks what it read: throws Error("damaged: " + what) unless `holds`.
void require_index(bool holds, const char* what);

// Joins record and content into a serialized index of the format `origin.format`.
[[nodiscard]] std::vector<std::byte> seal_index(const IndexRecord& record, std::span<const std::byte> content);

// An index whose magic, version, sizes and checksum are right. The spans point into the bytes it was made from.
struct OpenedIndex {
  IndexRecord record;
  std::span<const std::byte> content;
};
// Throws Error, which does not say where the bytes came from: the caller does.
[[nodiscard]] OpenedIndex open_index(std::span<const std::byte> bytes);
// The content of a serialized index; all bytes when they are none. Trusts the checksum.
[[nodiscard]] std::span<const std::byte> index_content(std::span<const std::byte> bytes) noexcept;

}  // namespace forebay
