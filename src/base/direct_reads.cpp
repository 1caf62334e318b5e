// Reads that bypass the page cache (O_DIRECT), which need whole blocks of a file and aligned
// memory: the blocks around the requested bytes are read into a loaned buffer and copied from
// there. Buffers are kept for the next read. If a file system refuses such a read, as some do at
// the end of a file, that file is read through the cache from then on. Any thread may call.

#include "direct_reads.hpp"

#include "file_io.hpp"
#include "limits.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

namespace forebay {
namespace {

// Every file system that supports direct reads accepts these, except those with larger blocks.
constexpr std::size_t kUsualBlock = 4096;
constexpr std::size_t kLargestBlock = std::size_t{1} << 20U;

std::string refused(int error) { return "its file system refuses it: " + std::generic_category().message(error); }

int set_direct(int file, bool is_direct) {
  const int flags = ::fcntl(file, F_GETFL);
  if (flags < 0) return errno;
  return ::fcntl(file, F_SETFL, is_direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0 ? 0 : errno;
}

// The block size, which Linux 6.1 and later report through statx; 4096 on older kernels. 0 if the
// file system says that it would read this file through the page cache anyway.
std::size_t block_of(int file) {
#ifdef STATX_DIOALIGN
  struct statx status {};
  if (::statx(file, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 && (status.stx_mask & STATX_DIOALIGN) != 0) {
    if (status.stx_dio_offset_align == 0) return 0;
    return std::max<std::size_t>({kUsualBlock, status.stx_dio_offset_align, status.stx_dio_mem_align});
  }
#endif
  return kUsualBlock;
}

std::size_t round_down(std::size_t bytes, std::size_t block) noexcept { return bytes / block * block; }
std::size_t round_up(std::size_t bytes, std::size_t block) noexcept { return round_down(bytes + block - 1, block); }

// Fills `to` with the file's blocks from `begin` on, up to the end of the file, but at least `needed` bytes.
// At the end of a file the kernel returns a partial block; a second read that returns nothing
// confirms the end.
void read_blocks(const OpenFile& file, std::size_t begin, std::span<std::byte> to, std::size_t needed) {
  std::size_t filled = 0;
  while (filled < needed) {
    const auto got = retry_interrupted([&] {
      return ::pread(file.descriptor.get(), to.data() + filled, to.size() - filled, static_cast<off_t>(begin + filled));
    });
    if (got < 0) {
      if (errno == EINVAL && (::fcntl(file.descriptor.get(), F_GETFL) & O_DIRECT) != 0) {
        if (const int error = set_direct(file.descriptor.get(), false); error != 0) {
          throw system_failure("cannot read", error);
        }
        continue;
      }
      throw system_failure("cannot read", errno);
    }
    const std::size_t end = filled + static_cast<std::size_t>(got);
    if (end >= needed) return;
    // A partial block is the end of the file, unless a second read says otherwise.
    const std::size_t whole = round_down(end, file.block);
    if (whole <= filled) throw TruncatedFile(ended_early(begin + end, begin + needed));
    filled = whole;
  }
}

}  // namespace

std::string bypass_page_cache(OpenFile& file) {
  const std::size_t block = block_of(file.descriptor.get());
  if (block == 0 || block > kLargestBlock || (block & (block - 1)) != 0) {
    return "its file system reads this file through the page cache only";
  }
  if (const int error = set_direct(file.descriptor.get(), true); error != 0) return refused(error);
  file.block = block;
  return {};
}

class DirectReads::Loan {
 public:
  // Throws Error if there is no memory.
  Loan(DirectReads& owner, std::size_t size, std::size_t block) : owner_(owner) {
    {
      const std::lock_guard lock(owner.mutex_);
      if (!owner.idle_.empty()) {
        blocks_ = std::move(owner.idle_.back());
        owner.idle_.pop_back();
      }
    }
    const auto address = reinterpret_cast<std::uintptr_t>(blocks_.memory.get());
    if (blocks_.size >= size && address % block == 0) return;
    blocks_ = {};
    blocks_.memory.reset(static_cast<std::byte*>(std::aligned_alloc(block, size)));
    if (!blocks_.memory) {
      throw out_of_memory("for the " + std::to_string(size) + " bytes of its blocks");
    }
    blocks_.size = size;
  }
  ~Loan() {
    const std::lock_guard lock(owner_.mutex_);
    try {
      owner_.idle_.push_back(std::move(blocks_));
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): then the memory is freed
    }
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {blocks_.memory.get(), blocks_.size}; }

 private:
  DirectReads& owner_;
  Blocks blocks_;
};

void DirectReads::read(const OpenFile& file, std::size_t offset, std::span<const std::span<std::byte>> pieces) {
  std::size_t length = 0;
  for (const std::span<std::byte> piece : pieces) length += piece.size();
  if (length == 0) return;
  const std::size_t end = offset + length;
  const std::size_t most = std::max(kPiece, file.block);
  const std::size_t first = round_down(offset, file.block);
  const Loan loan(*this, std::min(most, round_up(end, file.block) - first), file.block);
  auto piece = pieces.begin();
  std::size_t in_piece = 0;
  for (std::size_t begin = first; begin < end; begin += most) {
    const std::size_t until = std::min(begin + most, end);
    const std::span<std::byte> blocks = loan.bytes().first(round_up(until, file.block) - begin);
    read_blocks(file, begin, blocks, until - begin);
    const std::size_t skipped = begin < offset ? offset - begin : 0;
    for (std::span<const std::byte> rest = blocks.first(until - begin).subspan(skipped); !rest.empty();) {
      const std::size_t size = std::min(rest.size(), piece->size() - in_piece);
      if (size > 0) std::memcpy(piece->data() + in_piece, rest.data(), size);
      rest = rest.subspan(size);
      in_piece += size;
      if (in_piece < piece->size()) continue;
      ++piece;
      in_piece = 0;
    }
  }
}

}  // namespace forebay
