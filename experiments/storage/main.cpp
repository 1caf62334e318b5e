// Files per second through the reader threads alone, from the page cache and from the disk, by number of threads; and
// what telling the kernel first that a whole file is wanted changes. bench_storage [--rounds N] [--files N] DIR

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/error.hpp>

#include "base/file_io.hpp"
#include "read/byte_budget.hpp"
#include "read/queues.hpp"
#include "read/reader_pool.hpp"

namespace {

using namespace forebay;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

struct Arguments {
  fs::path folder;
  std::size_t rounds = 5;
  std::size_t files = 300;
};

// Files of one size, made once.
std::vector<std::string> files_of(const Arguments& arguments, std::size_t bytes) {
  const fs::path folder = arguments.folder / std::to_string(bytes);
  fs::create_directories(folder);
  std::mt19937_64 random(bytes);
  std::vector<char> content(bytes);
  for (char& byte : content) byte = static_cast<char>(random());
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < arguments.files; ++i) {
    paths.push_back((folder / (std::to_string(i) + ".bin")).string());
    std::error_code missing;
    if (fs::file_size(paths.back(), missing) == bytes && !missing) continue;
    std::ofstream(paths.back(), std::ios::binary).write(content.data(), static_cast<std::streamsize>(bytes));
  }
  ::sync();  // pages that are not on the disk yet cannot be dropped
  return paths;
}

void drop_from_cache(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

class Files final : public Dataset {
 public:
  Files(const std::vector<std::string>& paths, bool announce) : paths_(paths), announce_(announce) {}
  [[nodiscard]] std::string_view format() const noexcept override { return "files"; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return paths_.size(); }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return classes_; }
  [[nodiscard]] Sample sample(std::uint64_t) const override { return {}; }
  [[nodiscard]] std::string name(std::uint64_t id) const override { return paths_[id]; }
  void read(std::uint64_t id, ReadTarget& target) const override {
    const OpenFile file = open_regular(paths_[id]);
    if (announce_) ::posix_fadvise(file.descriptor.get(), 0, 0, POSIX_FADV_WILLNEED);
    read_at(file.descriptor, 0, target.reserve(file.size));
  }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return skipped_; }
  [[nodiscard]] IndexCounts counts() const noexcept override { return {}; }
  [[nodiscard]] std::vector<std::byte> serialize() const override { return {}; }

 private:
  const std::vector<std::string>& paths_;
  bool announce_;
  std::vector<std::string> classes_;
  std::vector<Skipped> skipped_;
};

struct Sink final : BadSampleSink {
  void bad_sample(const ReadRequest& request, std::string_view reason) noexcept override {
    std::fprintf(stderr, "bench_storage: file %llu: %.*s\n", static_cast<unsigned long long>(request.sample),
                 static_cast<int>(reason.size()), reason.data());
    std::abort();
  }
  void worker_failed(std::exception_ptr) noexcept override { std::abort(); }
};

// Files per second with so many readers.
double measure(const Dataset& dataset, std::size_t bytes, unsigned threads) {
  ReadQueue requests;
  ByteBudget budget(dataset.size() * bytes);
  EncodedQueue encoded(1);
  WorkerTotals totals;
  Sink sink;
  ReaderPool readers(
      {.dataset = dataset, .requests = requests, .budget = budget, .encoded = encoded, .sink = sink, .totals = totals},
      {.threads = threads});
  // As in a run that has lasted a while: buffers are recycled, and nobody touches new memory.
  std::vector<std::vector<std::byte>> buffers;
  for (std::size_t i = 0; i < dataset.size(); ++i) buffers.push_back(budget.take(i, bytes));
  for (auto& buffer : buffers) budget.give_back(std::move(buffer));
  std::vector<ReadRequest> wanted(dataset.size());
  for (std::uint64_t id = 0; id < wanted.size(); ++id) wanted[id] = {.order = id, .position = id, .sample = id};
  const auto begin = Clock::now();
  requests.push(wanted);
  std::array<EncodedSample, 16> taken;
  for (std::size_t done = 0; done < wanted.size();) {
    const std::size_t count = encoded.take(taken);
    for (std::size_t i = 0; i < count; ++i) budget.give_back(std::move(taken[i].bytes));
    done += count;
  }
  return static_cast<double>(wanted.size()) / std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Spread {
  std::vector<double> values;
  void print(const char* end) {
    std::ranges::sort(values);
    std::printf("%8.0f [%7.0f .. %7.0f]%s", values[values.size() / 2], values.front(), values.back(), end);
  }
};

void table(const Arguments& arguments, std::size_t bytes) {
  constexpr std::array kThreads{1U, 2U, 4U, 8U, 16U, 32U};
  const std::vector<std::string> paths = files_of(arguments, bytes);
  const Files plain(paths, false);
  const Files announced(paths, true);
  struct Row {
    Spread warm, warm_announced, cold, cold_announced;
  };
  std::map<unsigned, Row> rows;
  for (std::size_t round = 0; round < arguments.rounds; ++round) {
    for (const unsigned threads : kThreads) {
      Row& row = rows[threads];
      const auto cold = [&](const Files& files) {
        drop_from_cache(paths);
        return measure(files, bytes, threads);
      };
      row.cold.values.push_back(cold(plain));
      row.warm.values.push_back(measure(plain, bytes, threads));
      row.cold_announced.values.push_back(cold(announced));
      row.warm_announced.values.push_back(measure(announced, bytes, threads));
    }
  }
  std::printf("\n%zu files of %zu kB, files/s: median of %zu alternating rounds [range]\n", paths.size(), bytes / 1000,
              arguments.rounds);
  std::printf(
      "readers  in the page cache             announced first               on the disk                   "
      "announced first\n");
  for (auto& [threads, row] : rows) {
    std::printf("%7u", threads);
    row.warm.print("  ");
    row.warm_announced.print("  ");
    row.cold.print("  ");
    row.cold_announced.print("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--rounds" && i + 1 < argc) {
      arguments.rounds = std::strtoul(argv[++i], nullptr, 10);
    } else if (word == "--files" && i + 1 < argc) {
      arguments.files = std::strtoul(argv[++i], nullptr, 10);
    } else {
      arguments.folder = word;
    }
  }
  if (arguments.folder.empty() || arguments.rounds == 0 || arguments.files == 0) {
    std::fputs("usage: bench_storage [--rounds N] [--files N] DIR     writes up to 600 MB there\n", stderr);
    return 2;
  }
  try {
    for (const std::size_t bytes : {4'000UL, 110'000UL, 1'000'000UL}) table(arguments, bytes);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_storage: %s\n", error.what());
    return 1;
  }
}
