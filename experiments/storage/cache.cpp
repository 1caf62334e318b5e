// What it costs to read from the disk without filling the page cache: reads with O_DIRECT, reads after which the pages
// are dropped, and reads that ask the kernel to keep none. bench_cache [--rounds N] [--only TEXT] DIR
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

namespace {

using forebay::FileDescriptor;

constexpr std::size_t kBlock = 4096;  // O_DIRECT: of offsets, lengths and addresses

[[noreturn]] void give_up(const std::string& what, int error) {
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
ReadList make_list(const std::filesystem::path& folder, const Case& wanted) {
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
Span span_of(const ReadList& list, std::size_t i, From from) {
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
std::size_t buffers_for(std::size_t at_once, std::size_t length) {
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
std::size_t passes(From from) { return from == From::cache ? 8 : 1; }

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

void pread_all(int file, char* to, const Span& span) {
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

constexpr std::array kCases{
    Case{"files of 10 kB", Layout::files, 10'000, 4000},       Case{"files of 108 kB", Layout::files, 108'000, 1500},
    Case{"records of 3 kB", Layout::records, 3'000, 8000},     Case{"records of 10 kB", Layout::records, 10'000, 6000},
    Case{"records of 108 kB", Layout::records, 108'000, 1500}, Case{"runs of 3456 kB", Layout::records, 3'456'000, 80},
};
constexpr std::array kThreads{1U, 4U, 16U};

// Reads through the page cache and drops its pages after each read: the whole file, or the pages that a record touches.
void drop(int file, const ReadList& list, std::size_t i) {
  const Span pages = span_of(list, i, From::disk_direct);
  ::posix_fadvise(file, static_cast<off_t>(pages.offset), static_cast<off_t>(pages.length), POSIX_FADV_DONTNEED);
}

enum class Way { buffered, dropped, uncached, direct, direct_copied };
constexpr std::array<const char*, 5> kWays{"buffered", "buffered, then DONTNEED", "RWF_DONTCACHE", "O_DIRECT",
                                           "O_DIRECT, then copied"};

bool is_direct(Way way) { return way == Way::direct || way == Way::direct_copied; }

void read_one(int file, const ReadList& list, std::size_t i, Way way, char* to) {
  if (is_direct(way)) {
    const Span span = span_of(list, i, From::disk_direct);
    if (way == Way::direct) return pread_all(file, to, span);
    // As into a buffer of exactly its size. The piece in between is a reader's own, and warm.
    thread_local const Buffers bounce(1, list.length);
    pread_all(file, bounce[0], span);
    std::memcpy(to, bounce[0] + (list.reads[i].offset - span.offset), list.length);
    return;
  }
  if (way == Way::uncached) {
    constexpr int kDontCache = 0x80;  // RWF_DONTCACHE, since Linux 6.14
    iovec place{to, list.length};
    const ssize_t got = ::preadv2(file, &place, 1, static_cast<off_t>(list.reads[i].offset), kDontCache);
    if (got < static_cast<ssize_t>(list.length)) give_up("preadv2 with RWF_DONTCACHE", got < 0 ? errno : EIO);
    return;
  }
  pread_all(file, to, span_of(list, i, From::disk));
  if (way == Way::dropped) drop(file, list, i);
}

Cost measure(const ReadList& list, Way way, unsigned threads) {
  const auto open = [&](const std::string& path) {
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | (is_direct(way) ? O_DIRECT : 0)));
    if (!file.is_open()) give_up(path, errno);
    return file;
  };
  if (list.layout == Layout::records) {
    const FileDescriptor file = open(list.container());
    return by_threads(list, From::disk, threads,
                      [&](std::size_t i, char* to) { read_one(file.get(), list, i, way, to); });
  }
  return by_threads(list, From::disk, threads, [&](std::size_t i, char* to) {
    const FileDescriptor file = open(list.reads[i].path);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) give_up("fstat", errno);
    read_one(file.get(), list, i, way, to);
  });
}

// The share of the list's bytes that the page cache holds.
double resident(const ReadList& list) {
  std::size_t all = 0;
  std::size_t held = 0;
  const std::size_t files = list.layout == Layout::files ? list.reads.size() : 1;
  for (std::size_t i = 0; i < files; ++i) {
    const FileDescriptor file(::open(list.reads[i].path.c_str(), O_RDONLY | O_CLOEXEC));
    const auto size = static_cast<std::size_t>(std::filesystem::file_size(list.reads[i].path));
    void* const map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
    if (map == MAP_FAILED) give_up("mmap", errno);
    std::vector<unsigned char> pages((size + kBlock - 1) / kBlock);
    if (::mincore(map, size, pages.data()) != 0) give_up("mincore", errno);
    held += static_cast<std::size_t>(std::ranges::count_if(pages, [](unsigned char page) { return (page & 1U) != 0; }));
    all += pages.size();
    ::munmap(map, size);
  }
  return static_cast<double>(held) / static_cast<double>(all);
}

bool is_possible(const ReadList& list, Way way) {
  if (way != Way::uncached) return true;
  const FileDescriptor file(::open(list.container().c_str(), O_RDONLY | O_CLOEXEC));
  char byte = 0;
  iovec place{&byte, 1};
  return ::preadv2(file.get(), &place, 1, 0, 0x80) == 1;
}

void table(const std::filesystem::path& folder, const Case& wanted, std::size_t rounds) {
  const ReadList list = make_list(folder, wanted);
  struct Cell {
    Spread rate, processor;
  };
  std::array<std::array<Cell, kThreads.size()>, kWays.size()> rows;
  std::array<double, kWays.size()> left{};
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t column = 0; column < kThreads.size(); ++column) {
      for (std::size_t row = 0; row < kWays.size(); ++row) {
        const Way way = static_cast<Way>(row);
        if (!is_possible(list, way)) continue;
        list.drop_from_cache();
        const Cost cost = measure(list, way, kThreads[column]);
        left[row] = std::max(left[row], resident(list));
        rows[row][column].rate.values.push_back(cost.reads_per_s);
        rows[row][column].processor.values.push_back(cost.processor_us);
      }
    }
  }
  std::printf(
      "\n%s, %zu of them, from the disk; reads/s [range] and processor time per read in us, medians of %zu rounds\n",
      wanted.name, wanted.reads, rounds);
  std::printf("%-24s  %-35s  %-35s  %-35s  %s\n", "", "1 thread", "4 threads", "16 threads", "left in the cache");
  for (std::size_t row = 0; row < kWays.size(); ++row) {
    std::printf("%-24s", kWays[row]);
    if (rows[row][0].rate.values.empty()) {
      std::printf("  this kernel or file system does not know it\n");
      continue;
    }
    for (Cell& cell : rows[row]) {
      const double median = cell.rate.median();
      std::printf("  %7.0f [%6.0f .. %6.0f] %6.1f us", median, cell.rate.values.front(), cell.rate.values.back(),
                  cell.processor.median());
    }
    std::printf("  %3.0f %%\n", 100 * left[row]);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) { return run_cases(argc, argv, "bench_cache", 850, kCases, table); }
