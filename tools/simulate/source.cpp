// Synthetic and recorded sources: how long each batch takes to produce. mean_s is the mean time per
// batch for every distribution, so that R means the same for all of them.

#include "source.hpp"

#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <utility>

#include <forebay/error.hpp>

namespace forebay::simulate {
namespace {

constexpr std::uint64_t kPhaseKey = 1;

void require(bool holds, const char* what) {
  if (!holds) throw ConfigError(std::string("simulated source: ") + what);
}

void check(const SourceSpec& spec) {
  const bool phased = spec.kind == SourceKind::outages || spec.kind == SourceKind::contention;
  require(spec.kind == SourceKind::trace || (std::isfinite(spec.mean_s) && spec.mean_s > 0),
          "the seconds per batch must be above 0");
  require(spec.kind != SourceKind::lognormal || (spec.sigma >= 0 && spec.sigma <= 5), "sigma must be in [0, 5]");
  require(spec.kind != SourceKind::gamma || (spec.cv > 0 && spec.cv <= 10), "cv must be in (0, 10]");
  require(!phased || (spec.on_s > 0 && spec.off_s >= 0), "on must be above 0 and off at least 0");
  require(spec.kind != SourceKind::contention || spec.slowdown >= 1, "slowdown must be at least 1");
  require(spec.kind != SourceKind::trace || std::reduce(spec.work.begin(), spec.work.end()) > 0,
          "the trace has no production in it");
}

}  // namespace

std::string_view to_string(SourceKind kind) noexcept {
  switch (kind) {
    case SourceKind::constant: return "constant";
    case SourceKind::exponential: return "exponential";
    case SourceKind::lognormal: return "lognormal";
    case SourceKind::gamma: return "gamma";
    case SourceKind::outages: return "outages";
    case SourceKind::contention: return "contention";
    case SourceKind::trace: return "trace";
  }
  return "?";
}

Source::Source(std::shared_ptr<const SourceSpec> spec, std::uint64_t seed)
    : spec_(std::move(spec)), random_(key64(seed)), phases_(key64(seed, kPhaseKey)) {
  check(*spec_);
  // Each rank and seed starts at a random point of a period.
  if (spec_->kind == SourceKind::contention) phase_end_ = -phases_.uniform() * (spec_->on_s + spec_->off_s);
  if (spec_->kind == SourceKind::trace && spec_->anywhere) recorded_ = phases_.below(spec_->work.size());
}

// lognormal: the mean of exp(sigma z) is exp(sigma^2 / 2), so it is divided out. Outages and
// contention: work proceeds at full pace in the first kind of phase, and not at all or more slowly
// in the second; the work per batch is scaled so that mean_s remains the mean.
double Source::finish(double start) {
  const SourceSpec& spec = *spec_;
  switch (spec.kind) {
    case SourceKind::constant: return start + spec.mean_s;
    case SourceKind::exponential: return start + exponential(spec.mean_s);
    case SourceKind::lognormal:
      return start + spec.mean_s * std::exp(spec.sigma * standard_normal() - spec.sigma * spec.sigma / 2);
    case SourceKind::gamma: return start + spec.mean_s * spec.cv * spec.cv * standard_gamma();
    case SourceKind::outages: {
      const double share = spec.on_s / (spec.on_s + spec.off_s);
      return through_phases(start, spec.mean_s * share, 0);
    }
    case SourceKind::contention: {
      const double done = spec.on_s + spec.off_s / spec.slowdown;
      return through_phases(start, spec.mean_s * done / (spec.on_s + spec.off_s), 1 / spec.slowdown);
    }
    case SourceKind::trace: {
      const double work = spec.work[recorded_];
      recorded_ = recorded_ + 1 == spec.work.size() ? 0 : recorded_ + 1;
      return start + work;
    }
  }
  return start;
}

// Phases of outages have exponentially distributed lengths, those of contention fixed ones.
void Source::next_phase() {
  on_ = !on_;
  const double mean = on_ ? spec_->on_s : spec_->off_s;
  phase_end_ += spec_->kind == SourceKind::outages ? -mean * std::log1p(-phases_.uniform()) : mean;
}

double Source::through_phases(double start, double work, double off_pace) {
  double now = start;
  for (;;) {
    while (phase_end_ <= now) next_phase();
    const double pace = on_ ? 1 : off_pace;
    const double possible = (phase_end_ - now) * pace;
    if (work <= possible && pace > 0) return now + work / pace;
    work -= possible;
    now = phase_end_;
  }
}

// log1p(-u) is finite, as uniform() is below 1.
double Source::exponential(double mean) { return -mean * std::log1p(-random_.uniform()); }

double Source::standard_normal() {
  // Box and Muller, 1958. The second number of the pair is dropped, so that no state is needed for
  // it.
  const double radius = std::sqrt(-2 * std::log1p(-random_.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random_.uniform());
}

// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000; shape 1 / cv^2, scale 1.
double Source::standard_gamma() {
  const double shape = 1 / (spec_->cv * spec_->cv);
  // For shapes below 1: draw with shape + 1, times a power of a uniform number.
  const double boost = shape < 1 ? std::pow(1 - random_.uniform(), 1 / shape) : 1;
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = standard_normal();
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    const double u = 1 - random_.uniform();
    if (std::log(u) < x * x / 2 + d - d * v + d * std::log(v)) return boost * d * v;
  }
}

}  // namespace forebay::simulate
