// The same list of reads by threads that call pread and by one thread with io_uring: from the page cache, from the
// disk, and from the disk with O_DIRECT. bench_uring [--rounds N] [--only TEXT] DIR

#include <liburing.h>

#include <array>

#include "read_list.hpp"

namespace {

using namespace storage;

constexpr std::array kCases{
    Case{"files of 3 kB", Layout::files, 3'000, 4000},       Case{"files of 10 kB", Layout::files, 10'000, 4000},
    Case{"files of 108 kB", Layout::files, 108'000, 1500},   Case{"records of 3 kB", Layout::records, 3'000, 8000},
    Case{"records of 10 kB", Layout::records, 10'000, 6000}, Case{"records of 108 kB", Layout::records, 108'000, 1500},
    Case{"runs of 320 kB", Layout::records, 320'000, 600},
};

struct Engine {
  unsigned threads = 0;        // that call pread; 0 = io_uring
  unsigned depth = 0;          // reads that io_uring has in flight
  bool is_registered = false;  // the container's descriptor and the buffers are

  [[nodiscard]] std::string name() const {
    if (threads > 0) return "pread, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
    return "io_uring, " + std::to_string(depth) + (is_registered ? ", registered" : " in flight");
  }
};

constexpr std::array kEngines{Engine{1},     Engine{2},     Engine{4},           Engine{16},    Engine{64},
                              Engine{0, 16}, Engine{0, 64}, Engine{0, 64, true}, Engine{0, 256}};

int open_flags(From from) { return O_RDONLY | O_CLOEXEC | (from == From::disk_direct ? O_DIRECT : 0); }

FileDescriptor open_or_give_up(const std::string& path, From from) {
  FileDescriptor file(::open(path.c_str(), open_flags(from)));
  if (!file.is_open()) give_up(path, errno);
  return file;
}

// Files as Forebay reads them: what one holds is asked first.
Cost with_threads(const ReadList& list, From from, unsigned threads) {
  if (list.layout == Layout::files) {
    return by_threads(list, from, threads, [&](std::size_t i, char* to) {
      const FileDescriptor file = open_or_give_up(list.reads[i].path, from);
      struct stat status {};
      if (::fstat(file.get(), &status) != 0) give_up("fstat", errno);
      pread_all(file.get(), to, span_of(list, i, from));
    });
  }
  const FileDescriptor file = open_or_give_up(list.container(), from);
  return by_threads(list, from, threads,
                    [&](std::size_t i, char* to) { pread_all(file.get(), to, span_of(list, i, from)); });
}

// A ring whose completions are handled when they are asked for, where the kernel can do that.
class Ring {
 public:
  explicit Ring(unsigned entries) {
    io_uring_params parameters{};
    parameters.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    problem_ = ::io_uring_queue_init_params(entries, &ring_, &parameters);
    if (problem_ == -EINVAL) problem_ = ::io_uring_queue_init(entries, &ring_, 0);
  }
  ~Ring() {
    if (problem_ == 0) ::io_uring_queue_exit(&ring_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  [[nodiscard]] int problem() const { return -problem_; }
  [[nodiscard]] io_uring* get() { return &ring_; }
  [[nodiscard]] io_uring_sqe* entry() {
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) give_up("io_uring_get_sqe", EBUSY);
    return entry;
  }

 private:
  io_uring ring_{};
  int problem_ = 0;
};

void require(int result, const char* what) {
  if (result < 0) give_up(what, -result);
}

// Entries for one read; `slot` is its place among those in flight.
class Submission {
 public:
  Submission(Ring& ring, const ReadList& list, From from, const Engine& engine)
      : ring_(ring),
        list_(list),
        from_(from),
        engine_(engine),
        each_((buffers_for(engine.depth, list.length) + engine.depth - 1) / engine.depth),
        buffers_(engine.depth * each_, list.length),
        turns_(engine.depth),
        least_(engine.depth) {
    if (list.layout == Layout::files) {
      require(::io_uring_register_files_sparse(ring.get(), engine.depth), "io_uring_register_files_sparse");
      return;
    }
    file_ = open_or_give_up(list.container(), from);
    if (!engine.is_registered) return;
    const int descriptor = file_.get();
    require(::io_uring_register_files(ring.get(), &descriptor, 1), "io_uring_register_files");
    std::vector<iovec> places;
    for (std::size_t i = 0; i < buffers_.count(); ++i) places.push_back({buffers_[i], buffers_.room()});
    require(::io_uring_register_buffers(ring.get(), places.data(), static_cast<unsigned>(places.size())),
            "io_uring_register_buffers");
  }

  void begin(std::size_t i, unsigned slot) {
    const Span span = span_of(list_, i, from_);
    least_[slot] = span.least;
    const auto length = static_cast<unsigned>(span.length);
    const std::size_t buffer = slot * each_ + turns_[slot]++ % each_;
    if (list_.layout == Layout::records) {
      io_uring_sqe* const read = ring_.entry();
      if (engine_.is_registered) {
        ::io_uring_prep_read_fixed(read, 0, buffers_[buffer], length, span.offset, static_cast<int>(buffer));
        read->flags |= IOSQE_FIXED_FILE;
      } else {
        ::io_uring_prep_read(read, file_.get(), buffers_[buffer], length, span.offset);
      }
      return ::io_uring_sqe_set_data64(read, slot * 2);
    }
    // O_CLOEXEC has no meaning for a descriptor that only the ring knows.
    io_uring_sqe* const open = ring_.entry();
    ::io_uring_prep_openat_direct(open, AT_FDCWD, list_.reads[i].path.c_str(), open_flags(from_) & ~O_CLOEXEC, 0, slot);
    open->flags |= IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
    ::io_uring_sqe_set_data64(open, slot * 2);
    io_uring_sqe* const read = ring_.entry();
    ::io_uring_prep_read(read, static_cast<int>(slot), buffers_[buffer], length, 0);
    read->flags |= IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK;  // a read to the end of the file is short, and no failure
    ::io_uring_sqe_set_data64(read, slot * 2);
    io_uring_sqe* const close = ring_.entry();
    ::io_uring_prep_close_direct(close, slot);
    ::io_uring_sqe_set_data64(close, slot * 2 + 1);
  }

  // Whether the slot is free again.
  [[nodiscard]] bool ends(const io_uring_cqe& done) const {
    const auto slot = static_cast<unsigned>(done.user_data / 2);
    if (done.user_data % 2 == 1) return true;
    if (done.res < static_cast<int>(least_[slot])) give_up("io_uring", done.res < 0 ? -done.res : EIO);
    return list_.layout == Layout::records;
  }

 private:
  Ring& ring_;
  const ReadList& list_;
  From from_;
  Engine engine_;
  std::size_t each_;
  Buffers buffers_;
  std::vector<std::size_t> turns_;
  std::vector<std::size_t> least_;
  FileDescriptor file_;
};

Cost with_uring(const ReadList& list, From from, const Engine& engine) {
  Ring ring(4 * engine.depth);
  if (ring.problem() != 0) give_up("io_uring_setup", ring.problem());
  Submission submission(ring, list, from, engine);
  std::vector<unsigned> idle;
  for (unsigned slot = 0; slot < engine.depth; ++slot) idle.push_back(slot);
  const Meter meter;
  const std::size_t reads = passes(from) * list.reads.size();
  std::size_t begun = 0;
  for (std::size_t done = 0; done < reads;) {
    while (!idle.empty() && begun < reads) {
      submission.begin(begun++ % list.reads.size(), idle.back());
      idle.pop_back();
    }
    require(::io_uring_submit_and_wait(ring.get(), 1), "io_uring_submit_and_wait");
    io_uring_cqe* each = nullptr;
    unsigned head = 0;
    unsigned seen = 0;
    io_uring_for_each_cqe(ring.get(), head, each) {
      ++seen;
      if (!submission.ends(*each)) continue;
      idle.push_back(static_cast<unsigned>(each->user_data / 2));
      ++done;
    }
    ::io_uring_cq_advance(ring.get(), seen);
  }
  return meter.stop(reads);
}

void table(const std::filesystem::path& folder, const Case& wanted, std::size_t rounds) {
  constexpr std::array kFrom{From::cache, From::disk, From::disk_direct};
  const ReadList list = make_list(folder, wanted);
  struct Cell {
    Spread rate, processor;
  };
  std::vector<std::array<Cell, kFrom.size()>> rows(kEngines.size());
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t column = 0; column < kFrom.size(); ++column) {
      (void)with_threads(list, From::cache, 2);
      for (std::size_t row = 0; row < kEngines.size(); ++row) {
        const Engine& engine = kEngines[row];
        if (kFrom[column] != From::cache) list.drop_from_cache();
        const Cost cost = engine.threads > 0 ? with_threads(list, kFrom[column], engine.threads)
                                             : with_uring(list, kFrom[column], engine);
        rows[row][column].rate.values.push_back(cost.reads_per_s);
        rows[row][column].processor.values.push_back(cost.processor_us);
      }
    }
  }
  std::printf("\n%s, %zu of them; reads/s [range] and processor time per read in us, medians of %zu rounds\n",
              wanted.name, wanted.reads, rounds);
  std::printf("%-24s  %-34s  %-34s  %s\n", "", "in the page cache", "on the disk", "on the disk, O_DIRECT");
  for (std::size_t row = 0; row < kEngines.size(); ++row) {
    std::printf("%-24s", kEngines[row].name().c_str());
    for (Cell& cell : rows[row]) {
      const double median = cell.rate.median();
      std::printf("  %7.0f [%6.0f .. %6.0f] %5.1f us", median, cell.rate.values.front(), cell.rate.values.back(),
                  cell.processor.median());
    }
    std::printf("\n");
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (const int problem = Ring(8).problem(); problem != 0) {
    std::printf("io_uring is not permitted here: io_uring_setup failed with errno %d (%s)\n", problem,
                std::generic_category().message(problem).c_str());
    return 0;
  }
  return run_cases(argc, argv, "bench_uring", 900, kCases, table);
}
