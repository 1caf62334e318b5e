#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "file_io.hpp"

namespace forebay {

// Makes reads of the file bypass the page cache from now on (O_DIRECT), and sets file.block. Returns "", or the reason
// why its file system refuses, in which case the file is unchanged. Any thread.
[[nodiscard]] std::string bypass_page_cache(OpenFile& file);

// Reads arbitrary bytes of files that bypass the page cache. The system reads whole blocks into aligned memory, at most
// kPiece at a time, and the bytes are copied from there, which costs less than the page cache does. If a file system
// refuses only at the read itself, the file is read through the page cache. Keeps memory for as many reads as were ever
// concurrent. Any thread may call.
class DirectReads {
 public:
  static constexpr std::size_t kPiece = std::size_t{8} << 20U;

  // Like read_at() with pieces, but for any number of them. REQUIRES: file.block != 0.
  void read(const OpenFile& file, std::size_t offset, std::span<const std::span<std::byte>> pieces);

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  struct Blocks {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t size = 0;
  };
  // Holds a buffer for the duration of a read.
  class Loan;

  std::mutex mutex_;
  std::vector<Blocks> idle_;
};

}  // namespace forebay
