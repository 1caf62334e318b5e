#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include <forebay/error.hpp>
#include <forebay/policy.hpp>

#include "measure/recording.hpp"

namespace forebay::policies {
namespace {

// Makes the recorded decision at each step. A step that was fresh waits for its batch, however long
// it waited in the recorded run. The feeder ends the run where the recording ends; after that the
// answer is reuse, which never waits.
class Replay final : public Policy {
 public:
  // How to treat steps that were padding. A feeder makes the same decision again, and serves
  // padding itself where it must. The simulator has no padding, and must not serve a fresh batch
  // there.
  enum class Padding : std::uint8_t { as_decided, as_reuse };

  Replay(measure::Recording recording, Padding padding) : recording_(std::move(recording)), padding_(padding) {}

  Decision decide(const Signals& signals) override { return is_fresh(signals) ? Decision::fresh : Decision::reuse; }
  void served(Decision /*decision*/, const Signals& /*signals*/) override {}

 private:
  [[nodiscard]] bool is_fresh(const Signals& signals) noexcept {
    if (signals.step >= recording_.fresh.size()) return signals.depth > 0;
    if (!decided_.is_set(recording_.fresh, signals.step)) return false;
    return padding_ == Padding::as_decided || !padded_.is_set(recording_.padded, signals.step);
  }

  measure::Recording recording_;
  Padding padding_;
  measure::DecisionRuns::Cursor decided_;
  measure::DecisionRuns::Cursor padded_;
};

}  // namespace

// `recording` is a file when the feeder asks, which replaces the folder by its rank's file. The
// simulator passes the folder, and gets rank 0's recording.
std::unique_ptr<Policy> make_replay_policy(const PolicyOptions& options) {
  if (options.recording.empty()) {
    throw ConfigError(R"(policy.name = "replay" needs policy.recording: the telemetry.dir of the run to repeat)");
  }
  std::filesystem::path file = options.recording;
  std::error_code ignored;
  const bool is_simulated = std::filesystem::is_directory(file, ignored);
  if (is_simulated) file = measure::recording_file(file, 0);
  return std::make_unique<Replay>(measure::read_recording(file),
                                  is_simulated ? Replay::Padding::as_reuse : Replay::Padding::as_decided);
}

}  // namespace forebay::policies
