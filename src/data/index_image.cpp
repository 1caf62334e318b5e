// Returns verified bytes of a serialized index, in one of two ways. IndexInMemory has all bytes (of
// a small file, or of an index that was just built or came from another rank), and verifies each
// chunk of 64 KiB when it is first used. IndexOnDisk leaves the file where it is and reads 4 KiB
// per look-up.
//
// Why not mmap: a file that is shortened under a mapping ends the process by SIGBUS, and one that
// is overwritten silently changes samples. With pread(2) the first is an error, and checksums find
// the second. The page cache holds the pages once for all processes of a node.
//
// Every thread that reads samples calls this, without locks: flags and pointers per chunk are
// atomic. If two threads come to a new chunk at once, both verify it, with the same result.

#include "index_image.hpp"

#include <sys/stat.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <forebay/error.hpp>
#include <system_error>
#include <utility>

#include "base/file_io.hpp"
#include "base/retry.hpp"

namespace forebay::data {
namespace {

class IndexInMemory final : public IndexImage {
 public:
  IndexInMemory(IndexBytes bytes, const IndexLayout& layout, IndexRecord record, std::string origin)
      : IndexImage(layout, std::move(record), std::move(origin)),
        bytes_(std::move(bytes)),
        sums_(bytes_.bytes.subspan(layout.sums_at, layout.sums_bytes)),
        content_(bytes_.bytes.subspan(layout.content_at, layout.content_bytes)),
        checked_(std::make_unique<std::atomic<bool>[]>(chunks())) {}

  void read_unchecked(std::uint64_t at, std::span<std::byte> to) const override {
    std::ranges::copy(bytes_.bytes.subspan(at, to.size()), to.begin());
  }
  [[nodiscard]] bool is_on_disk() const noexcept override { return false; }

 private:
  void check_content() const override {
    for (std::size_t chunk = 0; chunk < chunks(); ++chunk) check_chunk(chunk);
  }
  void copy(std::uint64_t offset, std::span<std::byte> to) const override {
    if (to.empty()) return;
    for (std::size_t chunk = offset / kIndexChunk; chunk <= (offset + to.size() - 1) / kIndexChunk; ++chunk) {
      // Relaxed, because the bytes never change and the flag only saves work.
      if (!checked_[chunk].load(std::memory_order_relaxed)) check_chunk(chunk);
    }
    std::memcpy(to.data(), content_.data() + offset, to.size());
  }
  // The flag is set only after a successful check; a damaged chunk is checked, and fails, each
  // time.
  void check_chunk(std::size_t chunk) const {
    if (!is_sound(chunk, content_.subspan(chunk * kIndexChunk, chunk_size(chunk)), sums_)) throw damaged_chunk(chunk);
    checked_[chunk].store(true, std::memory_order_relaxed);
  }

  IndexBytes bytes_;
  std::span<const std::byte> sums_;
  std::span<const std::byte> content_;
  std::unique_ptr<std::atomic<bool>[]> checked_;  // by chunk
};

// The unit that is read and checked for a look-up. Chosen: a page, which the page cache reads
// anyway, and 1/16 of a chunk, because a look-up of a few bytes should not read and hash 64 KiB.
constexpr std::size_t kPiece = std::size_t{4} << 10U;
constexpr std::size_t kPieces = kIndexChunk / kPiece;

// Checksums of the pieces of a chunk whose own checksum was right.
using PieceSums = std::array<std::uint64_t, kPieces>;

// An open file, and its state when it was opened.
class WatchedFile {
 public:
  WatchedFile(OpenFile file, std::string origin) : file_(std::move(file)), origin_(std::move(origin)) {
    if (::fstat(file_.descriptor.get(), &opened_) != 0) opened_ = {};
  }

  [[nodiscard]] std::size_t size() const noexcept { return file_.size; }

  // A short read may be a failing store or a file that was shortened. If size or times differ from
  // those at opening, repeating the read cannot help, and the error says what happened.
  void read(std::uint64_t at, std::span<std::byte> to) const {
    try {
      read_patiently(origin_, [&] {
        try {
          read_at(file_, at, to);
        } catch (const SampleError&) {
          if (was_changed()) throw changed();
          throw;
        }
      });
    } catch (const SampleError& error) {
      throw Error(origin_ + ": " + error.what());
    }
  }

  // Whether its size or modification time has changed. Only different bytes prove a change; this selects the error.
  [[nodiscard]] bool was_changed() const noexcept {
    struct stat now {};
    if (::fstat(file_.descriptor.get(), &now) != 0) return false;
    return now.st_size != opened_.st_size || now.st_mtim.tv_sec != opened_.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != opened_.st_mtim.tv_nsec;
  }

  [[nodiscard]] Error changed() const {
    struct stat now {};
    const bool is_known = ::fstat(file_.descriptor.get(), &now) == 0 && now.st_size != opened_.st_size;
    const std::string sizes =
        is_known ? " (it had " + std::to_string(opened_.st_size) + " bytes and has " + std::to_string(now.st_size) + ")"
                 : "";
    Error error(origin_ + ": was written into or shortened while it was in use" + sizes +
                "; check it with --check of forebay index, or delete it to have it built again, and start again. " +
                "Under a running job an index can be replaced: write a new file and rename it");
    return error;
  }

 private:
  OpenFile file_;
  std::string origin_;
  struct stat opened_ {};
};

// Keeps nothing of the content, because the file could change or shrink at any time. Each look-up reads a piece and
// checks it. The checksums of pieces are computed when a chunk is first used, from bytes that match the chunk's
// checksum.
class IndexOnDisk final : public IndexImage {
 public:
  IndexOnDisk(WatchedFile file, const IndexLayout& layout, std::vector<std::byte> sums, IndexRecord record,
              std::string origin)
      : IndexImage(layout, std::move(record), std::move(origin)),
        file_(std::move(file)),
        sums_(std::move(sums)),
        pieces_(std::make_unique<std::atomic<const PieceSums*>[]>(chunks())) {}
  ~IndexOnDisk() override {
    for (std::size_t chunk = 0; chunk < chunks(); ++chunk) delete pieces_[chunk].load(std::memory_order_relaxed);
  }
  IndexOnDisk(const IndexOnDisk&) = delete;
  IndexOnDisk& operator=(const IndexOnDisk&) = delete;

  void read_unchecked(std::uint64_t at, std::span<std::byte> to) const override { file_.read(at, to); }
  [[nodiscard]] bool is_on_disk() const noexcept override { return true; }

 private:
  void check_content() const override {
    for (std::size_t chunk = 0; chunk < chunks(); ++chunk) (void)read_chunk(chunk);
  }
  void copy(std::uint64_t offset, std::span<std::byte> to) const override {
    while (!to.empty()) {
      const std::size_t chunk = offset / kIndexChunk;
      const std::size_t piece = offset % kIndexChunk / kPiece;
      const std::uint64_t begin = chunk * kIndexChunk + piece * kPiece;
      std::array<std::byte, kPiece> buffer;
      const auto bytes = std::span(buffer).first(std::min<std::size_t>(kPiece, content_bytes() - begin));
      // Computed before the piece is read, because for a new chunk this reads all of it.
      const std::uint64_t expected = sums_of(chunk)[piece];
      file_.read(content_at() + begin, bytes);
      if (chunk_sum(bytes) != expected) throw file_.changed();
      const auto wanted =
          bytes.subspan(offset - begin, std::min<std::size_t>(to.size(), begin + bytes.size() - offset));
      std::ranges::copy(wanted, to.begin());
      to = to.subspan(wanted.size());
      offset += wanted.size();
    }
  }
  // Acquire and release, so that a visible pointer leads to complete sums. Two threads may both
  // compute them; one result is kept.
  [[nodiscard]] const PieceSums& sums_of(std::size_t chunk) const {
    if (const PieceSums* sums = pieces_[chunk].load(std::memory_order_acquire)) return *sums;
    const std::vector<std::byte> bytes = read_chunk(chunk);
    auto made = std::make_unique<PieceSums>();
    for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
      (*made)[at / kPiece] = chunk_sum(std::span(bytes).subspan(at, std::min(kPiece, bytes.size() - at)));
    }
    const PieceSums* first = nullptr;
    if (!pieces_[chunk].compare_exchange_strong(first, made.get(), std::memory_order_acq_rel)) return *first;
    return *made.release();
  }

  // Damage on the disk and a later write have different errors, because they ask different things
  // of the user.
  [[nodiscard]] std::vector<std::byte> read_chunk(std::size_t chunk) const {
    std::vector<std::byte> bytes(chunk_size(chunk));
    file_.read(content_at() + chunk * kIndexChunk, bytes);
    if (is_sound(chunk, bytes, sums_)) return bytes;
    throw file_.was_changed() ? file_.changed() : damaged_chunk(chunk);
  }

  WatchedFile file_;
  std::vector<std::byte> sums_;
  std::unique_ptr<std::atomic<const PieceSums*>[]> pieces_;  // by chunk; null until the chunk is used
};

std::vector<std::byte> read_part(const WatchedFile& file, std::uint64_t at, std::size_t bytes) {
  std::vector<std::byte> part(bytes);
  file.read(at, part);
  return part;
}

}  // namespace

IndexBytes owned_bytes(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {.bytes = *owner, .owner = owner};
}

std::size_t IndexImage::chunk_size(std::size_t chunk) const noexcept {
  return std::min(kIndexChunk, layout_.content_bytes - chunk * kIndexChunk);
}

bool IndexImage::is_sound(std::size_t chunk, std::span<const std::byte> bytes,
                          std::span<const std::byte> sums) noexcept {
  std::uint64_t expected = 0;
  std::memcpy(&expected, sums.data() + chunk * sizeof(expected), sizeof(expected));
  return chunk_sum(bytes) == expected;
}

Error IndexImage::damaged_chunk(std::size_t chunk) const {
  const std::size_t at = layout_.content_at + chunk * kIndexChunk;
  return damaged_index(origin_, "the checksum of bytes " + std::to_string(at) + " to " +
                                    std::to_string(at + chunk_size(chunk) - 1) + " does not match");
}

std::unique_ptr<IndexImage> index_in_memory(IndexBytes bytes, std::string origin) {
  const auto all = bytes.bytes;
  const IndexLayout layout = read_index_layout(all.first(std::min(all.size(), kIndexHeader)), all.size(), origin);
  IndexRecord record = read_index_record(layout, all.subspan(layout.sums_at, layout.sums_bytes),
                                         all.subspan(layout.record_at, layout.record_bytes), origin);
  return std::make_unique<IndexInMemory>(std::move(bytes), layout, std::move(record), std::move(origin));
}

// A small file is read whole: look-ups then cost no system call, and 64 MiB are little on any node.
std::unique_ptr<IndexImage> open_index_file(const std::string& file, std::size_t most_in_memory) {
  const std::string origin = "index " + file;
  try {
    WatchedFile watched(open_regular(file), origin);
    if (watched.size() <= most_in_memory) {
      return index_in_memory(owned_bytes(read_part(watched, 0, watched.size())), origin);
    }
    const auto header = read_part(watched, 0, std::min(watched.size(), kIndexHeader));
    const IndexLayout layout = read_index_layout(header, watched.size(), origin);
    auto sums = read_part(watched, layout.sums_at, layout.sums_bytes);
    const auto record = read_part(watched, layout.record_at, layout.record_bytes);
    IndexRecord read = read_index_record(layout, sums, record, origin);
    return std::make_unique<IndexOnDisk>(std::move(watched), layout, std::move(sums), std::move(read), origin);
  } catch (const SampleError& error) {
    throw Error(origin + ": " + error.what());
  }
}

// An unreadable file is not an error: a command may be given any file.
bool is_saved_index(const std::string& file) {
  try {
    std::array<std::byte, 8> head{};
    const OpenFile open = open_regular(file);
    if (open.size < head.size()) return false;
    read_at(open, 0, head);
    return begins_as_index(head);
  } catch (const SampleError&) {
    return false;
  }
}

std::string problem_of_replacing(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error) || std::filesystem::file_size(file, error) == 0) return {};
  if (is_saved_index(file)) return {};
  return "the file that is there is no index of Forebay and would be lost: name another, or remove it";
}

void IndexImage::read(std::uint64_t offset, std::span<std::byte> to) const {
  require_within(offset, to.size());
  copy(offset, to);
}

void IndexImage::check() const {
  check_content();
  (void)state();
}

std::vector<std::byte> IndexImage::state() const {
  std::vector<std::byte> state(layout_.state_bytes);
  read_unchecked(layout_.state_at, state);
  if (chunk_sum(state) == layout_.state_sum) return state;
  throw damaged_index(origin_, "the checksum of bytes " + std::to_string(layout_.state_at) + " to " +
                                   std::to_string(layout_.state_at + layout_.state_bytes - 1) + " does not match");
}

std::vector<std::byte> IndexImage::content(std::uint64_t offset, std::uint64_t bytes) const {
  require_within(offset, bytes);
  std::vector<std::byte> part(bytes);
  copy(offset, part);
  return part;
}

std::string IndexImage::text(std::uint64_t offset, std::uint64_t bytes) const {
  require_within(offset, bytes);
  std::string text(bytes, '\0');
  copy(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

void IndexImage::require(bool holds, std::string_view what) const {
  if (!holds) throw damaged_index(origin(), what);
}

// Avoids adding the two, which could overflow for numbers from a damaged index.
void IndexImage::require_within(std::uint64_t offset, std::uint64_t bytes) const {
  require(offset <= content_bytes() && bytes <= content_bytes() - offset, "a part of it reaches past its end");
}

}  // namespace forebay::data
