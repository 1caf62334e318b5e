#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <forebay/random.hpp>

namespace forebay::simulate {

// How the work of a source is distributed over time.
enum class SourceKind : std::uint8_t {
  constant,     // every batch takes the mean
  exponential,  // independent, exponentially distributed
  lognormal,    // independent, lognormal with deviation `sigma` of the logarithm
  gamma,        // independent, gamma with coefficient of variation `cv`
  outages,      // constant while on, nothing while off; lengths of on and off are exponentially distributed
  contention,   // constant, `slowdown` times slower in the second part of every period
  trace,        // as recorded, over and over
};

[[nodiscard]] std::string_view to_string(SourceKind kind) noexcept;

// What one rank's producer does. Times are seconds of virtual time.
struct SourceSpec {
  SourceKind kind = SourceKind::constant;
  double mean_s = 1;         // seconds per batch in the long run, outages and contention included
  double sigma = 1;          // lognormal
  double cv = 1;             // gamma
  double on_s = 100;         // outages: mean length of a period with production; contention: first part of a period
  double off_s = 100;        // outages: mean length of an outage; contention: second part of a period
  double slowdown = 4;       // contention
  std::vector<double> work;  // trace: seconds of work per batch; not empty, sum > 0
  bool anywhere = false;     // trace: start at a batch chosen by the seed, not at the first
};

// Models one rank's producer: computes when batches are finished. The n-th batch for a given spec
// and seed takes the same work whenever it is started, so policies can be compared on the same
// source. Outages and contention follow their own clock, independent of the work.
class Source {
 public:
  // Throws ConfigError naming the invalid field.
  Source(std::shared_ptr<const SourceSpec> spec, std::uint64_t seed);

  // When the next batch is finished if its work begins at `start`. REQUIRES: starts do not decrease.
  [[nodiscard]] double finish(double start);

 private:
  [[nodiscard]] double standard_gamma();
  [[nodiscard]] double standard_normal();
  [[nodiscard]] double exponential(double mean);
  // The time at which `work` is done if every second phase runs at `off_pace` (0 = stopped).
  [[nodiscard]] double through_phases(double start, double work, double off_pace);
  void next_phase();

  std::shared_ptr<const SourceSpec> spec_;
  Random random_;
  Random phases_;
  std::size_t recorded_ = 0;  // trace: next batch
  double phase_end_ = 0;
  bool on_ = false;
};

}  // namespace forebay::simulate
