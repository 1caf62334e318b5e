#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace forebay::model {

inline constexpr std::size_t kMostThreads = 6;
inline constexpr std::size_t kMostLocations = 120;

// What a thread knows, and what a release hands on: the oldest values that it may still read, and
// how much of each thread happens before it.
struct Knowledge {
  // Per atomic location: the position in its modification order before which it can no longer read.
  std::array<std::uint32_t, kMostLocations> seen{};
  std::array<std::uint32_t, kMostThreads + 2> clock{};

  void join(const Knowledge& other) noexcept {
    for (std::size_t i = 0; i < seen.size(); ++i) seen[i] = std::max(seen[i], other.seen[i]);
    for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other.clock[i]);
  }
};

// Which thread last read and wrote each word of ordinary memory. Two accesses by different threads,
// at least one of them a write, neither of which happens before the other, are a data race. Words
// have four bytes; neighbouring variables in one word count as one.
class PlainMemory {
 public:
  struct Access {
    std::size_t thread = 0;
    bool is_write = false;
    const void* code = nullptr;
  };

  void reset() noexcept { ++execution_; }
  // The memory was allocated anew, so no thread has touched it yet.
  void forget(std::uintptr_t begin, std::size_t bytes) noexcept;
  // Notes an access. If it races with another one, returns true and that access.
  bool is_race(std::uintptr_t begin, std::size_t bytes, const Access& access, const Knowledge& known, Access& other);

 private:
  static constexpr std::size_t kWord = 4;
  static constexpr std::size_t kPage = 1024;

  struct Word {
    std::uint64_t execution = 0;  // which execution the other members describe
    const void* writer_code = nullptr;
    const void* reader_code = nullptr;
    std::uint32_t written = 0;  // the writer's clock; 0 = never
    std::uint32_t writer = 0;
    std::array<std::uint32_t, kMostThreads> read{};  // per thread: its clock
  };
  struct Page {
    std::uint64_t execution = 0;  // the last one that touched any of its words
    std::array<Word, kPage / kWord> words;
  };

  Word& word(std::uintptr_t address);

  std::uint64_t execution_ = 1;
  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  std::uintptr_t last_number_ = 0;
  Page* last_ = nullptr;
  bool grows_ = false;  // while it allocates memory itself
};

}  // namespace forebay::model
