#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/mpi.hpp>

#include "once_case.hpp"

// Running one part of a job on one rank, and what that rank saw.
namespace forebay::testing {

// All ranks that mpirun started. Ranks that have nothing to do wait here without taking a core.
class Stage {
 public:
  // Collective. `world` is duplicated.
  explicit Stage(MPI_Comm world);
  // Collective.
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  // What processes of this stage have left in /dev/shm.
  [[nodiscard]] std::vector<std::string> left_in_shared_memory() const;
  // Collective: every rank's bytes, by rank.
  [[nodiscard]] std::vector<std::string> gather(std::string_view mine);
  // Collective: a communicator of `ranks` ranks, the first being `first`; MPI_COMM_NULL on the others. To be freed.
  [[nodiscard]] MPI_Comm split(std::uint32_t first, std::uint32_t ranks);

 private:
  void wait_for_all();

  MPI_Comm world_ = MPI_COMM_NULL;
  std::unique_ptr<Communicator> communicator_;
  std::uint32_t rank_ = 0;
  std::uint32_t size_ = 1;
  std::vector<std::string> processes_;  // of all ranks
};

struct StepSeen {
  std::uint64_t job_fresh_samples = 0;
  std::uint64_t epochs_completed = 0;
  std::uint64_t fresh_samples = 0;  // that this rank was served
  std::uint64_t use_index = 0;
  std::uint64_t is_padding = 0;  // of a part that is logged
};
struct FreshSeen {
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;
  std::uint64_t step = 0;  // of this part, from 0
};
struct StateSeen {
  std::uint64_t steps = 0;  // of this part, made before
  std::string text;
};

// What one rank saw of one part of a job.
struct Seen {
  std::vector<StepSeen> steps;
  std::vector<FreshSeen> fresh;
  std::vector<StateSeen> states;   // the job goes on from the last one
  std::uint64_t steps_at_end = 0;  // Feeder::steps()
  std::uint64_t epochs_at_end = 0;
  std::uint64_t has_ended = 0;  // next() returned nothing
  std::uint64_t was_stopped = 0;
  std::uint64_t is_logged = 0;  // is_padding of every step is known
  // On the clock that all ranks share; 0 = never.
  std::uint64_t asked_to_stop_ns = 0;
  std::uint64_t closed_ns = 0;
  std::vector<std::string> complaints;

  [[nodiscard]] std::string to_bytes() const;
  [[nodiscard]] static Seen from_bytes(std::string_view bytes);
};

// What a part needs beside its options.
struct Place {
  const OnceCase* job = nullptr;
  std::size_t part = 0;
  std::uint32_t rank = 0;
  MPI_Comm ranks = MPI_COMM_NULL;    // MPI_COMM_NULL: one rank without MPI
  std::optional<std::string> state;  // to go on from
  std::filesystem::path data;        // of a job on a container
  std::filesystem::path logs;        // of a part that is logged
  // Of the state that the part before saved, and of the one that this part saves.
  std::filesystem::path saved;
  std::filesystem::path to_save;
};

// Writes the container of a job on one, to `folder`. Bad samples are pictures that end early: they are indexed, and
// found when they are decoded.
void write_container(const OnceCase& job, const std::filesystem::path& folder);

// Collective over `ranks`. Throws nothing: what goes wrong is a complaint.
[[nodiscard]] Seen run_part(const Place& place);

}  // namespace forebay::testing
