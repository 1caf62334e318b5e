// What it costs to read from the disk without filling the page cache: reads with O_DIRECT, reads after which the pages
// are dropped, and reads that ask the kernel to keep none. bench_cache [--rounds N] [--only TEXT] DIR

#include <sys/mman.h>
#include <sys/uio.h>

#include <array>

#include "read_list.hpp"

namespace {

using namespace storage;

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
