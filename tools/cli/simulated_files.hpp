#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>

#include "measure/console_log.hpp"
#include "measure/run_files.hpp"
#include "read/requests.hpp"
#include "simulate/simulation.hpp"

namespace forebay::cli {

// Writes the files of a simulated run: its recorded decisions, which policy "replay" can repeat on
// real data, and its steps and intervals in virtual time.
class SimulatedFiles {
 public:
  // The files go to `dir`, which is created; files of an earlier run there are removed. `options`:
  // the configuration of the simulated run, including its policy and mode. The recording gets the
  // fingerprint of `dataset`. `step_s`: seconds per unit of simulated time. Throws ConfigError
  // naming telemetry.dir.
  SimulatedFiles(Options options, const Dataset& dataset, const std::string& dir, std::uint64_t ranks, double step_s);
  ~SimulatedFiles();
  SimulatedFiles(const SimulatedFiles&) = delete;
  SimulatedFiles& operator=(const SimulatedFiles&) = delete;

  // To be called as a StepObserver.
  void add(std::uint64_t rank, double asked, const simulate::ServedStep& served);
  // Writes what is left. Throws Error naming `dir` if any lines were lost.
  void finish();

 private:
  class RankFiles;

  const read::WorkerTotals no_work_;
  const Options options_;
  const std::string dir_;
  const double step_s_;
  std::uint64_t batches_ = 1;  // of an epoch
  measure::DirectoryLock lock_;
  measure::ConsoleLog console_;
  std::vector<std::unique_ptr<RankFiles>> ranks_;
  std::uint64_t fresh_ = 0;  // of all ranks
  std::uint64_t most_uses_ = 0;
};

}  // namespace forebay::cli
