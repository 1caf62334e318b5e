#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "base/file_io.hpp"

// What the benchmarks of single reads have in common: files with places to be read, memory to read into, and what a
// list of reads took.
namespace storage {

using forebay::FileDescriptor;

inline constexpr std::size_t kBlock = 4096;  // O_DIRECT: of offsets, lengths and addresses

[[noreturn]] inline void give_up(const std::string& what, int error) {
  std::fprintf(stderr, "%s: %s\n", what.c_str(), std::generic_category().message(error).c_str());
  std::exit(1);
}

enum class Layout { files, records };
enum class From { cache, disk, disk_direct };

struct Case {
  const char* name;
  Layout layout;
  std::size_t length;  // of a read
  std::size_t reads;
};

// The reads of a case in random order, each place once.
struct ReadList {
  struct Read {
    std::string path;
    std::uint64_t offset = 0;
  };
  Layout layout = Layout::records;
  std::size_t length = 0;
  std::vector<Read> reads;

  [[nodiscard]] const std::string& container() const { return reads.front().path; }

  void drop_from_cache() const {
    const std::size_t files = layout == Layout::files ? reads.size() : 1;
    for (std::size_t i = 0; i < files; ++i) {
      const FileDescriptor file(::open(reads[i].path.c_str(), O_RDONLY | O_CLOEXEC));
      ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
  }
};

// Writes what is not there yet.
inline ReadList make_list(const std::filesystem::path& folder, const Case& wanted) {
  namespace fs = std::filesystem;
  const bool alone = wanted.layout == Layout::files;
  const fs::path place = folder / (std::string(alone ? "files-" : "records-") + std::to_string(wanted.length));
  fs::create_directories(place);
  std::mt19937_64 random(wanted.length);
  std::vector<char> content(wanted.length);
  const auto write = [&](const fs::path& path, std::size_t times) {
    std::error_code missing;
    if (fs::file_size(path, missing) == times * wanted.length && !missing) return;
    std::ofstream file(path, std::ios::binary);
    for (std::size_t i = 0; i < times; ++i) {
      for (std::size_t byte = 0; byte + 8 <= content.size(); byte += 8) {
        const std::uint64_t bits = random();
        std::memcpy(content.data() + byte, &bits, sizeof bits);
      }
      file.write(content.data(), static_cast<std::streamsize>(content.size()));
    }
  };
  ReadList list{.layout = wanted.layout, .length = wanted.length, .reads = {}};
  for (std::size_t i = 0; i < wanted.reads; ++i) {
    const fs::path path = place / (alone ? std::to_string(i) + ".bin" : "all.bin");
    if (alone || i == 0) write(path, alone ? 1 : wanted.reads);
    list.reads.push_back({.path = path.string(), .offset = alone ? 0 : i * wanted.length});
  }
  ::sync();  // pages that are not on the disk yet cannot be dropped
  std::ranges::shuffle(list.reads, random);
  return list;
}

// Whole blocks around the bytes that are wanted.
struct Span {
  std::uint64_t offset = 0;
  std::size_t length = 0;  // to ask for
  std::size_t least = 0;   // to get
};
inline Span span_of(const ReadList& list, std::size_t i, From from) {
  const std::uint64_t offset = list.reads[i].offset;
  if (from != From::disk_direct) return {offset, list.length, list.length};
  const std::uint64_t begin = offset / kBlock * kBlock;
  const std::uint64_t end = (offset + list.length + kBlock - 1) / kBlock * kBlock;
  return {begin, static_cast<std::size_t>(end - begin), static_cast<std::size_t>(offset - begin) + list.length};
}

// Buffers that were touched before.
class Buffers {
 public:
  Buffers(std::size_t count, std::size_t length)
      : count_(count),
        room_((length + 3 * kBlock) / kBlock * kBlock),
        bytes_(std::aligned_alloc(kBlock, count * room_)) {
    if (!bytes_) give_up("memory", ENOMEM);
    std::memset(bytes_.get(), 1, count * room_);
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t room() const { return room_; }
  [[nodiscard]] char* operator[](std::size_t i) const { return static_cast<char*>(bytes_.get()) + i * room_; }

 private:
  struct Free {
    void operator()(void* bytes) const { std::free(bytes); }
  };
  std::size_t count_;
  std::size_t room_;
  std::unique_ptr<void, Free> bytes_;
};

// As many as a run has in flight, but no more than fit.
inline std::size_t buffers_for(std::size_t at_once, std::size_t length) {
  return std::max(at_once, std::min<std::size_t>(256, (std::size_t{64} << 20U) / length));
}

struct Cost {
  double reads_per_s = 0;
  double processor_us = 0;  // of the process, kernel included, for each read
};

class Meter {
 public:
  Meter() : processor_(processor()), begin_(std::chrono::steady_clock::now()) {}
  [[nodiscard]] Cost stop(std::size_t reads) const {
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    const auto count = static_cast<double>(reads);
    return {.reads_per_s = count / wall, .processor_us = (processor() - processor_) * 1e6 / count};
  }

 private:
  static double processor() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  double processor_;
  std::chrono::steady_clock::time_point begin_;
};

// So many times the list is read: from memory one pass is over too soon to be measured.
inline std::size_t passes(From from) { return from == From::cache ? 8 : 1; }

// Threads that take one read of the list after the other: read(i, buffer) for each.
template <typename Read>
Cost by_threads(const ReadList& list, From from, unsigned threads, Read&& read) {
  const std::size_t each = (buffers_for(threads, list.length) + threads - 1) / threads;
  const std::size_t reads = passes(from) * list.reads.size();
  const Buffers buffers(threads * each, list.length);
  std::atomic<std::size_t> next{0};
  std::optional<Meter> meter;
  std::barrier begin(static_cast<std::ptrdiff_t>(threads), [&]() noexcept { meter.emplace(); });
  std::vector<std::jthread> workers;
  for (unsigned t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      begin.arrive_and_wait();
      std::size_t turn = 0;
      for (std::size_t i = next++; i < reads; i = next++)
        read(i % list.reads.size(), buffers[t * each + turn++ % each]);
    });
  }
  workers.clear();
  return meter->stop(reads);
}

inline void pread_all(int file, char* to, const Span& span) {
  const ssize_t got = ::pread(file, to, span.length, static_cast<off_t>(span.offset));
  if (got < static_cast<ssize_t>(span.least)) give_up("pread", got < 0 ? errno : EIO);
}

struct Spread {
  std::vector<double> values;
  [[nodiscard]] double median() {
    std::ranges::sort(values);
    return values[values.size() / 2];
  }
};

// The command line of such a benchmark, and table(folder, case, rounds) for each case that was asked for. Returns
// main's exit code. `megabytes` are what the cases write at most.
template <typename Cases, typename Table>
int run_cases(int argc, char** argv, const char* program, int megabytes, const Cases& cases, Table&& table) {
  std::filesystem::path folder;
  std::string_view only;
  std::size_t rounds = 5;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--rounds" && i + 1 < argc) {
      rounds = std::strtoul(argv[++i], nullptr, 10);
    } else if (word == "--only" && i + 1 < argc) {
      only = argv[++i];
    } else {
      folder = word;
    }
  }
  if (folder.empty() || rounds == 0) {
    std::fprintf(stderr, "usage: %s [--rounds N] [--only TEXT] DIR     writes up to %d MB there\n", program, megabytes);
    return 2;
  }
  try {
    for (const Case& each : cases) {
      if (std::string_view(each.name).find(only) != std::string_view::npos) table(folder, each, rounds);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 1;
  }
  return 0;
}

}  // namespace storage
