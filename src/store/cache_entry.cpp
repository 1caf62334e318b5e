// The format of an entry:
//
//   0       head: magic number, checksum of the head, identity and size of the object, its name,
//           its version
//   4096    a checksum of 8 bytes for each block of the object; 0 = the block is missing
//   ...     filled up to a block
//   then    the object itself, each byte at its place, with holes for missing blocks
//
// The head is written once, before the file gets its name. Blocks are written in any order by any
// process: all that have the object open write the same bytes to the same place, so they need not
// coordinate. A checksum is written after its block, and neither is synced: if a crash of the
// machine loses one of the two, they no longer match, and a block that does not match is treated as
// missing.
//
// A checksum covers the object's identity and the block's number. So the bytes of another version,
// or from another place in the object, match nowhere, however they got there: by a disk that swaps
// sectors, or by somebody who copies one file over another.

#include "cache_entry.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <forebay/error.hpp>
#include <system_error>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay::store {
namespace {

constexpr std::size_t kHeadBytes = CacheEntry::kBlock;
constexpr int kCut = -1;  // not a system error
// Keeps sums of offsets from overflowing, whatever a head says.
constexpr std::uint64_t kLargestObject = std::uint64_t{1} << 50U;

// In the machine's byte order, because a cache stays on its node. A machine of the other byte order
// does not recognise the magic number and makes a new entry.
struct EntryHead {
  std::array<char, 8> magic{'F', 'b', 'k', 'e', 'p', 't', '0', '1'};
  std::uint64_t sum = 0;  // of all that follows, to the end of the head
  std::uint64_t identity = 0;
  std::uint64_t bytes = 0;
  std::uint64_t name_bytes = 0;
  std::uint64_t version_bytes = 0;
};
using HeadBytes = std::array<char, kHeadBytes>;
constexpr std::size_t kMostText = kHeadBytes - sizeof(EntryHead);
constexpr std::size_t kSummedFrom = offsetof(EntryHead, identity);

std::uint64_t sum_of_entry_head(const HeadBytes& bytes) {
  return XXH3_64bits(bytes.data() + kSummedFrom, bytes.size() - kSummedFrom);
}

// Reads or writes all pieces from `at` on, repeating the call for the rest if the system stops
// anywhere within a piece. Returns 0 or the system's error; kCut if the file ends early.
template <typename Call>
int transfer(const Spans& pieces, std::uint64_t at, Call&& call) {
  constexpr std::size_t kAtOnce = 1024;  // IOV_MAX
  std::array<iovec, kAtOnce> places{};
  std::size_t piece = 0;
  std::size_t in_piece = 0;
  while (true) {
    while (piece < pieces.size() && in_piece == pieces[piece].size()) ++piece, in_piece = 0;
    if (piece == pieces.size()) return 0;
    std::size_t count = 0;
    for (std::size_t i = piece; i < pieces.size() && count < kAtOnce; ++i, ++count) {
      const auto rest = pieces[i].subspan(i == piece ? in_piece : 0);
      places[count] = {.iov_base = rest.data(), .iov_len = rest.size()};
    }
    const ssize_t done = retry_interrupted([&] { return call(places.data(), static_cast<int>(count), at); });
    if (done <= 0) return done < 0 ? errno : kCut;
    at += static_cast<std::uint64_t>(done);
    for (auto left = static_cast<std::size_t>(done); left > 0;) {
      const std::size_t now = std::min(left, pieces[piece].size() - in_piece);
      left -= now;
      in_piece += now;
      if (in_piece == pieces[piece].size()) ++piece, in_piece = 0;
    }
  }
}

int write_pieces(int file, const Spans& pieces, std::uint64_t at) {
  return transfer(pieces, at, [&](const iovec* places, int count, std::uint64_t place) {
    return ::pwritev(file, places, count, static_cast<off_t>(place));
  });
}

int read_pieces(int file, const Spans& pieces, std::uint64_t at) {
  return transfer(pieces, at, [&](const iovec* places, int count, std::uint64_t place) {
    return ::preadv(file, places, count, static_cast<off_t>(place));
  });
}

template <typename Value>
Spans spans_of(Value& value) {
  return {std::as_writable_bytes(std::span(value))};
}

}  // namespace

Spans cut(const Spans& pieces, std::size_t begin, std::size_t end) {
  Spans parts;
  std::size_t at = 0;
  for (const auto piece : pieces) {
    const std::size_t from = std::clamp(begin, at, at + piece.size());
    const std::size_t to = std::clamp(end, from, at + piece.size());
    if (to > from) parts.push_back(piece.subspan(from - at, to - from));
    at += piece.size();
    if (at >= end) break;
  }
  return parts;
}

std::uint64_t CacheEntry::overhead(const KeptObject& object) noexcept {
  if (object.bytes == 0 || object.bytes > kLargestObject || object.name.size() + object.version.size() > kMostText) {
    return 0;
  }
  return kHeadBytes + whole_blocks((object.bytes + kBlock - 1) / kBlock * sizeof(std::uint64_t));
}

std::uint64_t CacheEntry::place_of(std::uint64_t block) const noexcept { return overhead(object_) + block * kBlock; }

bool is_private(int file) noexcept {
  struct stat status {};
  return ::fstat(file, &status) == 0 && status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::optional<CacheEntry> CacheEntry::open(int folder, const std::string& name, Missing* missing) {
  FileDescriptor file(retry_interrupted(
      [&] { return ::openat(folder, name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY); }));
  int error = file.is_open() ? 0 : errno;
  HeadBytes bytes{};
  if (error == 0) error = is_private(file.get()) ? read_pieces(file.get(), spans_of(bytes), 0) : kCut;
  if (missing != nullptr) {
    // With other errors, such as EMFILE, EACCES or EIO, there may be a good entry.
    constexpr std::array kNone{0, kCut, ENOENT, ELOOP, EISDIR, ENXIO};
    missing->may_be_made = std::ranges::find(kNone, error) != kNone.end();
    missing->other = identity_of(file);
  }
  if (error != 0) return std::nullopt;
  EntryHead head;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != EntryHead().magic || head.sum != sum_of_entry_head(bytes) || head.name_bytes > kMostText ||
      head.version_bytes > kMostText - head.name_bytes) {
    return std::nullopt;
  }
  const char* const text = bytes.data() + sizeof head;
  KeptObject object{.name = std::string(text, head.name_bytes),
                    .version = std::string(text + head.name_bytes, head.version_bytes),
                    .identity = head.identity,
                    .bytes = head.bytes};
  if (overhead(object) == 0) return std::nullopt;
  return CacheEntry(std::move(file), std::move(object));
}

// The checksums are written out, so that their room on the disk is allocated before blocks rely on
// it; the rest is a hole.
CacheEntry CacheEntry::make(int folder, const std::string& name, KeptObject object) {
  constexpr int kHow = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  CacheEntry entry(FileDescriptor(retry_interrupted([&] { return ::openat(folder, name.c_str(), kHow, 0600); })),
                   std::move(object));
  if (!entry.file_.is_open()) throw std::system_error(errno, std::generic_category());
  const KeptObject& of = entry.object_;
  EntryHead head;
  head.identity = of.identity;
  head.bytes = of.bytes;
  head.name_bytes = of.name.size();
  head.version_bytes = of.version.size();
  HeadBytes bytes{};
  const auto write = [&] { std::memcpy(bytes.data(), &head, sizeof head); };
  write();
  std::ranges::copy(of.name + of.version, bytes.begin() + sizeof head);
  head.sum = sum_of_entry_head(bytes);
  write();
  const std::uint64_t end = overhead(of);
  std::vector<std::byte> zeros(static_cast<std::size_t>(std::min(end, kLargeHead)));
  const int file = entry.file_.get();
  int error = ::ftruncate(file, static_cast<off_t>(end + of.bytes)) == 0 ? 0 : errno;
  for (std::uint64_t at = 0; error == 0 && at < end; at += zeros.size()) {
    error = write_pieces(file, cut({zeros}, 0, static_cast<std::size_t>(std::min(end - at, kLargeHead))), at);
  }
  if (error == 0) error = write_pieces(file, spans_of(bytes), 0);
  if (error != 0) {
    (void)::unlinkat(folder, name.c_str(), 0);
    throw std::system_error(error, std::generic_category());
  }
  return entry;
}

std::int64_t CacheEntry::checked_ns() const noexcept {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) return 0;
  return status.st_mtim.tv_sec * std::int64_t{1'000'000'000} + status.st_mtim.tv_nsec;
}

void CacheEntry::set_checked(std::int64_t ns) const noexcept {
  const timespec time{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  const std::array both{time, time};
  (void)::futimens(file_.get(), both.data());
}

// If the file was truncated or cannot be read, no block is present.
std::vector<std::uint64_t> CacheEntry::sums(std::uint64_t first, std::size_t count) const {
  std::vector<std::uint64_t> sums(count);
  if (read_pieces(file_.get(), spans_of(sums), kHeadBytes + first * sizeof(std::uint64_t)) != 0) {
    std::ranges::fill(sums, 0);
  }
  return sums;
}

// Zero means a missing block, so no block's checksum may be zero.
std::uint64_t CacheEntry::sum_of(std::uint64_t block, const Spans& bytes) const noexcept {
  std::array<std::byte, kBlock> copy;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled as far as it is read
  const std::byte* from = bytes.empty() ? copy.data() : bytes.front().data();
  std::size_t length = bytes.empty() ? 0 : bytes.front().size();
  if (bytes.size() > 1) {
    auto* to = copy.begin();
    for (const auto piece : bytes) to = std::ranges::copy(piece, to).out;
    from = copy.data();
    length = static_cast<std::size_t>(to - copy.begin());
  }
  return std::max<std::uint64_t>(XXH3_64bits_withSeed(from, length, object_.identity + block), 1);
}

int CacheEntry::read(std::uint64_t first, const Spans& to, std::span<const std::uint64_t> sums,
                     std::vector<bool>& is_good) const {
  is_good.assign(sums.size(), false);
  if (const int error = read_pieces(file_.get(), to, place_of(first)); error != 0) return error == kCut ? 0 : error;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    is_good[i] = sums[i] == sum_of(first + i, cut(to, i * kBlock, (i + 1) * kBlock));
  }
  return 0;
}

int CacheEntry::write(std::uint64_t first, const Spans& from) const {
  if (const int error = write_pieces(file_.get(), from, place_of(first)); error != 0) return error;
  std::size_t bytes = 0;
  for (const auto piece : from) bytes += piece.size();
  std::vector<std::uint64_t> sums((bytes + kBlock - 1) / kBlock);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] = sum_of(first + i, cut(from, i * kBlock, (i + 1) * kBlock));
  }
  return write_pieces(file_.get(), spans_of(sums), kHeadBytes + first * sizeof(std::uint64_t));
}

bool CacheEntry::forget(std::uint64_t block) const noexcept {
  const std::uint64_t none = 0;
  (void)!::pwrite(file_.get(), &none, sizeof none, static_cast<off_t>(kHeadBytes + block * sizeof none));
  return ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(place_of(block)),
                     kBlock) == 0;
}

}  // namespace forebay::store
