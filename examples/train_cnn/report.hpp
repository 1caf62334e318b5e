#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <forebay/mpi.hpp>
#include <forebay/summary.hpp>

namespace train_cnn {

// Held-out accuracy of the weights after some time.
struct CurvePoint {
  double trained_s = 0;
  std::uint64_t steps = 0;
  double accuracy = 0;
};

// What a run has to tell. Times in seconds, of this rank.
struct Report {
  std::string policy;
  std::size_t classes = 0;
  std::uint64_t seed = 0;
  std::vector<double> epoch_accuracy;    // held-out, at the end of each epoch
  std::int64_t held_out = 0;             // samples that an accuracy is of
  std::vector<CurvePoint> curve;         // held-out, over the run
  std::optional<double> final_accuracy;  // held-out, of the weights the run ended with; none after a signal
  double eval_s = 0;                     // in evaluations; Forebay sees it as compute
  double allreduce_s = 0;                // in MPI_Allreduce, most of it waiting for a slower rank; compute as well
};

// Every rank's summary, in the order of ranks, on rank 0; empty elsewhere. Collective.
[[nodiscard]] std::vector<forebay::Summary> gather(const forebay::Summary& mine, MPI_Comm comm);

// Writes the report with the job's summary under "job". Throws forebay::Error naming the file.
void write_json(const std::string& file, const Report& report, std::span<const forebay::Summary> ranks);

}  // namespace train_cnn
