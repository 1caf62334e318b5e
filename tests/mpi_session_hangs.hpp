#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>

#include <forebay/communicator.hpp>
#include <forebay/error.hpp>
#include <forebay/feeder.hpp>
#include <forebay/mpi.hpp>

#include "memory_dataset.hpp"
#include "support.hpp"

// Scenarios of mpi_session.cpp in which a thread sits in a call that never returns, and the job that they are about.
namespace forebay::testing {

// The job that scenarios with a feeder are about: two samples per batch and rank.
struct Served {
  forebay::Options options = forebay::testing::memory_options(2);
  std::uint64_t samples = 4000;

  explicit Served(double watchdog_s) {
    options.run.steps = 1000;
    options.policy.watchdog_s = forebay::testing::kSanitized ? 2 * watchdog_s : watchdog_s;
  }
  [[nodiscard]] forebay::Feeder feeder(const MpiSession& session, MemoryDataset::Hook before_read = {}) const {
    return {options, session.world(),
            forebay::Parts{.dataset = std::make_shared<MemoryDataset>(samples, std::move(before_read))}};
  }
};

// From the given read on, those of rank 1 never end.
inline int read_for_ever(int argc, char** argv, int from) {
  const MpiSession session(argc, argv);
  std::atomic<int> reads{0};
  const auto hang = [&, is_hanging = session.rank() == 1](std::uint64_t) {
    if (++reads > from && is_hanging) std::this_thread::sleep_for(std::chrono::hours(1));
  };
  try {
    forebay::Feeder feeder = Served(2).feeder(session, hang);
    while (feeder.next()) {
    }
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;
    return 5;
  }
  return 0;
}

// A program that keeps MPI to itself, and so has no session that could end the job.
inline int read_for_ever_without_session(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  int code = 0;
  try {
    const auto ranks = forebay::make_communicator(MPI_COMM_WORLD);
    const Served job(2);
    auto reads = std::make_shared<std::atomic<int>>(0);
    const bool hangs = ranks->rank() == 1;
    forebay::Feeder feeder(job.options, *ranks,
                           forebay::Parts{.dataset = std::make_shared<MemoryDataset>(job.samples, [=](std::uint64_t) {
                                            if (++*reads > 20 && hangs)
                                              std::this_thread::sleep_for(std::chrono::hours(1));
                                          })});
    while (feeder.next()) {
    }
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;
    code = 5;
  }
  MPI_Finalize();
  return code;
}

// Another thread holds the lock of a stream for ever when the session ends the job.
inline int abort_beside_a_read(int argc, char** argv) {
  const MpiSession session(argc, argv);
  if (session.rank() == 1) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) return 3;
    std::FILE* const stream = ::fdopen(ends[0], "r");
    std::thread([stream] {
      char byte = 0;
      (void)std::fread(&byte, 1, 1, stream);
    }).detach();
    // Until the thread has it.
    while (::ftrylockfile(stream) == 0) {
      ::funlockfile(stream);
      std::this_thread::yield();
    }
    throw Error("rank 1's own error");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return 0;
}

}  // namespace forebay::testing
