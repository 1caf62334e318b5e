// The file of points from which JPEG files can be decoded in the middle. `forebay index
// --decode-index` writes it with DecodeIndexWriter. Each rank opens it at the start of a run, and
// decoder threads call find() for every image, with a hash of the image's bytes as the key. A
// look-up takes two reads: the entries that share the first bits of the key, then the record.
//
// Nothing in the file is trusted. Header and counts are checked when it is opened. A record is
// checked against its checksum, which is seeded with the key, whenever it is read. Any mismatch
// means "no points", and the image is decoded from its beginning. If a read fails, the index is off
// for the rest of the run, with one log line, because images can be decoded without it.

#include "decode_index.hpp"

#include <unistd.h>
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include <forebay/error.hpp>

#include "base/retry.hpp"
#include "base/thread.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay::jpeg {
namespace {

static_assert(std::endian::native == std::endian::little, "decode indexes are written in the machine's byte order");

constexpr std::array<char, 8> kIndexMagic{'F', 'o', 'r', 'e', 'b', 'a', 'y', 'J'};
// Incremented whenever the meaning of the bytes changes, or the set of files that may have points.
constexpr std::uint32_t kIndexVersion = 2;

struct IndexHeader {
  std::array<char, 8> magic = kIndexMagic;
  std::uint32_t version = kIndexVersion;
  std::uint32_t bits = 0;  // leading bits of a key that index the counts
  std::uint64_t files = 0;
  std::uint64_t record_bytes = 0;
  std::uint64_t counts_sum = 0;
  std::uint64_t header_sum = 0;  // of the header up to here
};
static_assert(std::has_unique_object_representations_v<IndexHeader>);

// Entries are sorted by hash.
struct IndexEntry {
  std::uint64_t hash = 0;
  std::uint64_t at = 0;  // offset within the records
};
static_assert(std::has_unique_object_representations_v<IndexEntry>);

// Precedes the points.
struct RecordHead {
  std::uint64_t size = 0;  // of the JPEG file
  std::uint64_t sum = 0;
};
static_assert(std::has_unique_object_representations_v<RecordHead>);

// From this many files on, each count covers 32 to 64 entries on average.
constexpr std::uint64_t kEntriesOfCount = 64;
// Limits how much a hostile file can make a look-up read.
constexpr std::uint64_t kMostOfCount = 4096;  // hashed keys never get as many
// The table of counts has 2^bits + 1 entries of 8 bytes, in the memory of each rank.
constexpr std::uint32_t kMostIndexBits = 32;
// Large enough for a spinning disk or a network file system to deliver at its full rate.
constexpr std::size_t kPieceAhead = std::size_t{1} << 20U;
constexpr std::size_t kPieceWritten = std::size_t{1} << 20U;

std::uint64_t sum_of_header(const IndexHeader& header) {
  return XXH3_64bits(&header, offsetof(IndexHeader, header_sum));
}

// Seeded with the key, which detects a record at the wrong place, too.
std::uint64_t sum_of_points(const JpegKey& key, std::span<const std::byte> points) {
  return XXH3_64bits_withSeed(points.data(), points.size(), key.hash + key.size);
}

// Without bits the shift would be by 64, which is undefined.
std::uint64_t count_of(std::uint64_t hash, std::uint32_t bits) noexcept { return bits == 0 ? 0 : hash >> (64 - bits); }

std::uint64_t counts_bytes(std::uint32_t bits) noexcept {
  return ((std::uint64_t{1} << bits) + 1) * sizeof(std::uint64_t);
}

std::uint64_t entries_at(std::uint32_t bits) noexcept { return sizeof(IndexHeader) + counts_bytes(bits); }

std::uint32_t bits_of(std::uint64_t files) noexcept {
  return std::min(kMostIndexBits, static_cast<std::uint32_t>(std::bit_width(files / kEntriesOfCount)));
}

template <typename T>
std::span<std::byte> writable(T& value) noexcept {
  return std::as_writable_bytes(std::span(&value, 1));
}

Error damaged(const char* what) {
  Error error(std::string("a damaged decode index: ") + what);
  return error;
}

// The sizes in the header must add up to the file's size before anything is allocated by them.
IndexHeader read_header(const OpenFile& file) {
  IndexHeader header;
  if (file.size < sizeof(header)) throw Error("not a decode index of Forebay");
  read_at(file, 0, writable(header));
  if (header.magic != kIndexMagic) throw Error("not a decode index of Forebay");
  if (header.version != kIndexVersion) {
    throw Error("a decode index of version " + std::to_string(header.version) + ", this Forebay reads version " +
                std::to_string(kIndexVersion));
  }
  if (header.header_sum != sum_of_header(header)) throw damaged("the checksum of its header does not match");
  // Each size is compared by itself first, so that their sum cannot wrap around.
  const std::uint64_t rest = file.size - sizeof(header);
  if (header.bits != bits_of(header.files) || counts_bytes(header.bits) > rest ||
      header.files > rest / sizeof(IndexEntry) || header.record_bytes > rest ||
      counts_bytes(header.bits) + header.files * sizeof(IndexEntry) + header.record_bytes != rest) {
    throw damaged("its size is not what its header says");
  }
  return header;
}

// The counts must ascend from 0 to the number of files; then each pair of neighbours is a range of
// entries.
std::vector<std::uint64_t> read_counts(const OpenFile& file, const IndexHeader& header) {
  std::vector<std::uint64_t> before(counts_bytes(header.bits) / sizeof(std::uint64_t));
  const auto bytes = std::as_writable_bytes(std::span(before));
  read_at(file, sizeof(header), bytes);
  if (XXH3_64bits(bytes.data(), bytes.size()) != header.counts_sum)
    throw damaged("the checksum of its counts does not match");
  if (before.front() != 0 || before.back() != header.files || !std::ranges::is_sorted(before)) {
    throw damaged("its counts are out of order");
  }
  return before;
}

}  // namespace

std::string decode_index_of(const std::string& index) { return index + ".points"; }

JpegKey key_of(std::span<const std::byte> jpeg) noexcept {
  return {.hash = XXH3_64bits(jpeg.data(), jpeg.size()), .size = jpeg.size()};
}

DecodeIndex::DecodeIndex(const std::string& file, Warning warn)
    : name_("decode index " + file), warn_(std::move(warn)) {
  try {
    const auto read = [&] {
      file_ = open_regular(file);
      const IndexHeader header = read_header(file_);
      before_ = read_counts(file_, header);
      files_ = header.files;
    };
    read_patiently(file, read, kBriefly);
  } catch (const SampleError& error) {
    throw SampleError(name_ + ": " + error.what(),
                      error.is_transient() ? SampleError::Kind::transient : SampleError::Kind::permanent);
  } catch (const Error& error) {
    throw Error(name_ + ": " + error.what() + "; delete it, or write it again with forebay index --decode-index");
  } catch (const std::bad_alloc&) {
    throw Error(name_ + ": there is no memory for its counts");
  }
}

// Reads through the page cache, which the ranks of a node share, and at most a sixteenth of the
// memory: a larger index belongs to data that compete for the rest.
void DecodeIndex::read_ahead() {
  const auto memory =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t end = std::min<std::uint64_t>(file_.size, memory / 16);
  try {
    std::vector<std::byte> piece(std::min<std::uint64_t>(end, kPieceAhead));
    ahead_ = start_thread<std::jthread>(
        "forebay-ahead", [this, end, piece = std::move(piece)](const std::stop_token& stop) mutable {
          try {
            for (std::uint64_t at = 0; at < end && !stop.stop_requested(); at += piece.size()) {
              read_at(file_, at, std::span(piece).first(std::min<std::uint64_t>(piece.size(), end - at)));
            }
          } catch (const SampleError&) {
            return;  // find() meets the error too, and reports it
          }
        });
  } catch (const Error&) {
    return;  // without this thread, decoders wait for their reads
  }
}

void DecodeIndex::read(std::uint64_t at, std::span<std::byte> to) const {
  read_patiently(
      name_, [&] { read_at(file_, at, to); }, kBriefly);  // brief: images need no index
}

ScanPoints DecodeIndex::find(std::span<const std::byte> jpeg, const JpegFrame& frame,
                             std::vector<std::byte>& memory) const {
  // Relaxed is enough: the flag only saves reads.
  if (is_off_.load(std::memory_order_relaxed)) return {};
  try {
    return search(key_of(jpeg), frame, memory);
  } catch (const SampleError& error) {
    const bool is_first = !is_off_.exchange(true, std::memory_order_relaxed);
    if (is_first && warn_) warn_(name_ + ": " + error.what() + "; from here on images are decoded without it");
    return {};
  }
}

// Offsets are compared with the rest of the file by subtraction, so that no sum can overflow.
ScanPoints DecodeIndex::search(const JpegKey& key, const JpegFrame& frame, std::vector<std::byte>& memory) const {
  const auto bits = static_cast<std::uint32_t>(std::bit_width(before_.size() - 1) - 1);
  const std::uint64_t count = count_of(key.hash, bits);
  const std::uint64_t first = before_[count];
  const std::uint64_t entries = before_[count + 1] - first;
  if (entries == 0 || entries > kMostOfCount) return {};
  memory.resize(entries * sizeof(IndexEntry));
  read(entries_at(bits) + first * sizeof(IndexEntry), memory);
  IndexEntry entry;
  std::uint64_t i = 0;
  do {
    std::memcpy(&entry, memory.data() + i * sizeof(entry), sizeof(entry));
  } while (entry.hash != key.hash && ++i < entries);
  const std::uint64_t records_at = entries_at(bits) + files_ * sizeof(IndexEntry);
  const std::size_t bytes = sizeof(RecordHead) + ScanPoints::bytes_of(frame);
  if (i == entries || entry.at > file_.size - records_at || bytes > file_.size - records_at - entry.at) return {};
  memory.resize(bytes);
  read(records_at + entry.at, memory);
  RecordHead head;
  std::memcpy(&head, memory.data(), sizeof(head));
  const auto points = std::span<const std::byte>(memory).subspan(sizeof(head));
  if (head.size != key.size || head.sum != sum_of_points(key, points)) return {};
  return {frame, points};
}

void DecodeIndexWriter::add(const JpegKey& key, std::vector<std::byte> points) {
  files_.push_back({key, std::move(points)});
}

std::uint64_t DecodeIndexWriter::bytes() const noexcept {
  std::uint64_t bytes = entries_at(bits_of(files_.size()));
  for (const File& file : files_) bytes += sizeof(IndexEntry) + sizeof(RecordHead) + file.points.size();
  return bytes;
}

// Files with the same bytes have the same points, so one of them is kept.
void DecodeIndexWriter::save(const std::string& path) {
  std::ranges::stable_sort(files_, {}, [](const File& file) { return file.key.hash; });
  const auto is_same = [](const File& a, const File& b) { return a.key.hash == b.key.hash; };
  files_.erase(std::unique(files_.begin(), files_.end(), is_same), files_.end());
  IndexHeader header{.bits = bits_of(files_.size()), .files = files_.size()};
  std::vector<std::uint64_t> before(counts_bytes(header.bits) / sizeof(std::uint64_t));
  std::vector<IndexEntry> entries;
  for (const File& file : files_) {
    ++before[count_of(file.key.hash, header.bits) + 1];
    entries.push_back({.hash = file.key.hash, .at = header.record_bytes});
    header.record_bytes += sizeof(RecordHead) + file.points.size();
  }
  // From the number of entries per count to the number of entries before it.
  for (std::size_t i = 1; i < before.size(); ++i) before[i] += before[i - 1];
  const auto counts = std::as_bytes(std::span(before));
  header.counts_sum = XXH3_64bits(counts.data(), counts.size());
  header.header_sum = sum_of_header(header);

  replace_file(
      replaceable(path),
      [&](const PieceWriter& write) {
        write(std::as_bytes(std::span(&header, 1)));
        write(counts);
        write(std::as_bytes(std::span(entries)));
        write_records(write);
      },
      ".");
}

void DecodeIndexWriter::write_records(const PieceWriter& write) const {
  std::vector<std::byte> piece;
  const auto append = [&](std::span<const std::byte> part) { piece.insert(piece.end(), part.begin(), part.end()); };
  for (const File& file : files_) {
    const RecordHead head{.size = file.key.size, .sum = sum_of_points(file.key, file.points)};
    append(std::as_bytes(std::span(&head, 1)));
    append(file.points);
    if (piece.size() < kPieceWritten) continue;
    write(piece);
    piece.clear();
  }
  write(piece);
}

}  // namespace forebay::jpeg
