// A job that writes down what it was served where no system call can lose it: in memory that it shares with a file.
//   fault_job FOLDER   with feed.toml, and served.bin of some MiB of zeros; saves and resumes FOLDER/feed.state
// Exit codes: 0 it came to its end, 3 a forebay::Error, 4 any other exception.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <span>
#include <string>

#include <forebay/config.hpp>
#include <forebay/error.hpp>
#include <forebay/feeder.hpp>

namespace {

// As audit.py reads it.
struct Step {
  std::uint64_t step;
  std::uint64_t epoch;
  std::uint64_t batch;
  std::uint64_t use_index;
  std::uint64_t hash;
};
struct Head {
  std::atomic<std::uint64_t> steps;    // that follow
  std::atomic<std::uint64_t> durable;  // steps in a state that was said to be on disk
  std::atomic<std::uint64_t> ended;    // 1: all that follows is final
  std::uint64_t summary_steps;
  std::uint64_t summary_fresh;
  std::uint64_t dropped_records;
};

class Journal {
 public:
  explicit Journal(const std::string& file) : descriptor_(::open(file.c_str(), O_RDWR | O_CLOEXEC)) {
    struct stat status {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) std::abort();
    size_ = static_cast<std::size_t>(status.st_size);
    memory_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (memory_ == MAP_FAILED) std::abort();
  }
  ~Journal() {
    ::munmap(memory_, size_);
    ::close(descriptor_);
  }
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  [[nodiscard]] Head& head() { return *static_cast<Head*>(memory_); }

  void add(const Step& step) {
    const std::uint64_t number = head().steps.load(std::memory_order_relaxed);
    auto* const steps = reinterpret_cast<Step*>(static_cast<std::byte*>(memory_) + sizeof(Head));  // NOLINT
    if ((number + 1) * sizeof(Step) + sizeof(Head) > size_) std::abort();
    steps[number] = step;
    head().steps.store(number + 1, std::memory_order_release);
  }

 private:
  int descriptor_;
  std::size_t size_ = 0;
  void* memory_ = nullptr;
};

// FNV-1a.
std::uint64_t hash_of(std::span<const std::byte> bytes, std::uint64_t hash) {
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 1099511628211ULL;
  return hash;
}

std::uint64_t hash_of(const forebay::Lease& batch) {
  const forebay::TensorView images = batch.images();
  std::uint64_t hash = hash_of(std::span(images.as<std::byte>(), images.bytes()), 14695981039346656037ULL);
  hash = hash_of(std::as_bytes(batch.labels()), hash);
  return hash_of(std::as_bytes(batch.ids()), hash);
}

void run(const std::string& folder, Journal& journal) {
  constexpr std::uint64_t kSaveEvery = 3;
  const std::string state = folder + "/feed.state";
  forebay::Feeder feeder(forebay::load_options(folder + "/feed.toml"));
  feeder.restore_if_present(state);
  while (feeder.next_epoch()) {
    while (auto batch = feeder.next()) {
      journal.add({batch->step(), batch->epoch(), batch->batch(), batch->use_index(), hash_of(*batch)});
      batch.reset();
      if (feeder.steps() % kSaveEvery == 0) feeder.save(state);
      if (feeder.steps() % (3 * kSaveEvery) != 0) continue;
      feeder.finish_saves();
      journal.head().durable = feeder.steps();
    }
  }
  feeder.save(state);
  feeder.finish_saves();
  journal.head().durable = feeder.steps();
  feeder.close();
  const forebay::Summary summary = feeder.summary();
  journal.head().summary_steps = summary.steps;
  journal.head().summary_fresh = summary.fresh;
  journal.head().dropped_records = summary.dropped_records;
  journal.head().ended = 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  Journal journal(std::string(argv[1]) + "/served.bin");
  try {
    run(argv[1], journal);
    return 0;
  } catch (const forebay::Error& error) {
    std::fprintf(stderr, "forebay::Error: %s\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "std::exception: %s\n", error.what());
    return 4;
  }
}
