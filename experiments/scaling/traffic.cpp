// What one rank says to MPI, counted in front of it: calls and bytes of a feeder's start, of its steps, of a save and
// of its end, with its processor time and its memory. Run under mpirun; rank 0 prints one JSON object of all ranks'
// sums.
//   bench_traffic STEPS one|all     ... and then one rank or all of them ask for a stop
#include <malloc.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/feeder.hpp>
#include <forebay/mpi.hpp>

#include "memory_dataset.hpp"

namespace {

struct Traffic {
  std::uint64_t collectives = 0;
  std::uint64_t bytes = 0;  // that this rank contributes, and a gather's results
  std::uint64_t words = 0;  // messages to single ranks
};

// MPI's functions have no object to keep it in.
Traffic& traffic() {
  static Traffic counted;
  return counted;
}

void count(std::int64_t values, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  ++traffic().collectives;
  traffic().bytes += static_cast<std::uint64_t>(values) * static_cast<std::uint64_t>(size);
}

int size_of(MPI_Comm comm) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  return size;
}

}  // namespace

extern "C" {
int MPI_Iallreduce(const void* in, void* out, int values, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  count(values, type);
  return PMPI_Iallreduce(in, out, values, type, op, comm, request);
}
int MPI_Allreduce(const void* in, void* out, int values, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  count(values, type);
  return PMPI_Allreduce(in, out, values, type, op, comm);
}
int MPI_Bcast(void* bytes, int values, MPI_Datatype type, int root, MPI_Comm comm) {
  count(values, type);
  return PMPI_Bcast(bytes, values, type, root, comm);
}
int MPI_Iallgather(const void* in, int sent, MPI_Datatype sent_type, void* out, int received,
                   MPI_Datatype received_type, MPI_Comm comm, MPI_Request* request) {
  count(std::int64_t{sent} * size_of(comm), sent_type);
  return PMPI_Iallgather(in, sent, sent_type, out, received, received_type, comm, request);
}
int MPI_Iallgatherv(const void* in, int sent, MPI_Datatype sent_type, void* out, const int counts[],
                    const int offsets[], MPI_Datatype received_type, MPI_Comm comm, MPI_Request* request) {
  std::int64_t all = 0;
  for (int rank = 0; rank < size_of(comm); ++rank) all += counts[rank];
  count(all, received_type);
  return PMPI_Iallgatherv(in, sent, sent_type, out, counts, offsets, received_type, comm, request);
}
int MPI_Isend(const void* bytes, int values, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  ++traffic().words;
  return PMPI_Isend(bytes, values, type, to, tag, comm, request);
}
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* copy) {
  ++traffic().collectives;
  return PMPI_Comm_dup(comm, copy);
}
int MPI_Comm_split_type(MPI_Comm comm, int kind, int key, MPI_Info info, MPI_Comm* part) {
  ++traffic().collectives;
  return PMPI_Comm_split_type(comm, kind, key, info, part);
}
}

namespace {

double processor_s() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double heap_bytes() {
  const auto heap = ::mallinfo2();
  return static_cast<double>(heap.uordblks + heap.hblkhd);
}

// What happened since the last look, in the sum of all ranks, behind a name.
class Phases {
 public:
  void end(const char* name) {
    const Traffic now = traffic();
    const double processor = processor_s();
    double sums[5] = {static_cast<double>(now.collectives - before_.collectives),
                      static_cast<double>(now.bytes - before_.bytes), static_cast<double>(now.words - before_.words),
                      processor - processor_before_, heap_bytes() - heap_before_};
    PMPI_Allreduce(MPI_IN_PLACE, static_cast<double*>(sums), 5, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    char text[256];
    std::snprintf(text, sizeof text,
                  "%s\"%s\": {\"collectives\": %.0f, \"bytes\": %.0f, \"words\": %.0f, \"cpu_s\": %.6f, "
                  "\"heap_bytes\": %.0f}",
                  text_.empty() ? "" : ", ", name, sums[0], sums[1], sums[2], sums[3], sums[4]);
    text_ += text;
    before_ = traffic();
    processor_before_ = processor_s();
  }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  Traffic before_ = traffic();
  double processor_before_ = processor_s();
  double heap_before_ = heap_bytes();  // of the beginning
  std::string text_;
};

// The trainer's all-reduce is none of Forebay's.
void make_steps(forebay::Feeder& feeder, std::int64_t count) {
  char gradient = 0;
  for (std::int64_t step = 0; step < count; ++step) {
    if (!feeder.next()) throw std::runtime_error("the run ended early");
    PMPI_Allreduce(MPI_IN_PLACE, &gradient, 1, MPI_CHAR, MPI_BOR, MPI_COMM_WORLD);
  }
}

void run(const forebay::MpiSession& mpi, std::int64_t steps, bool all_stop) {
  forebay::Options options = forebay::testing::memory_options(4);
  options.workers.io = 1;
  options.workers.decode = 1;
  options.policy.name = "greedy";
  options.run.epochs = 1'000'000;
  forebay::Parts parts;
  parts.dataset = std::make_shared<forebay::testing::MemoryDataset>(1 << 20);
  Phases phases;
  forebay::Feeder feeder(options, mpi.world(), std::move(parts));
  phases.end("start");
  make_steps(feeder, steps);
  phases.end("steps");
  (void)feeder.state();
  phases.end("state");
  if (all_stop || mpi.rank() == mpi.size() - 1) feeder.request_stop();
  while (feeder.next()) continue;
  phases.end("stop");
  feeder.close();
  phases.end("close");
  if (mpi.rank() == 0) {
    std::printf("{\"ranks\": %d, \"steps\": %lld, %s}\n", mpi.size(), static_cast<long long>(steps),
                phases.text().c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw std::runtime_error("usage: bench_traffic STEPS one|all");
    const forebay::MpiSession mpi(argc, argv);
    run(mpi, std::stoll(argv[1]), std::string_view(argv[2]) == "all");
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
