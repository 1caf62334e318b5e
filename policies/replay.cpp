#include <filesystem>
#include <system_error>
#include <utility>

#include <forebay/error.hpp>
#include <forebay/policy.hpp>

#include "measure/recording.hpp"

namespace forebay {
namespace {

// Does at each step what was recorded for it. A step that was fresh waits for its batch, however long that took in the
// recorded run. The feeder ends the run where the recording ends; beyond it the answer is reuse, which never waits.
class Replay final : public Policy {
 public:
  explicit Replay(DecisionRuns fresh) : fresh_(std::move(fresh)) {}

  Decision decide(const Signals& signals) override {
    const bool fresh = signals.step < fresh_.size() ? cursor_.is_fresh(fresh_, signals.step) : signals.depth > 0;
    return fresh ? Decision::fresh : Decision::reuse;
  }
  void served(Decision /*decision*/, const Signals& /*signals*/) override {}

 private:
  DecisionRuns fresh_;
  DecisionRuns::Cursor cursor_;
};

}  // namespace

// `recording` is a file: the feeder has replaced the folder by its rank's file. Given a folder, takes rank 0's file.
std::unique_ptr<Policy> make_replay_policy(const PolicyOptions& options) {
  if (options.recording.empty()) {
    throw ConfigError(R"(policy.name = "replay" needs policy.recording: the telemetry.dir of the run to repeat)");
  }
  std::filesystem::path file = options.recording;
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) file = recording_file(file, 0);
  return std::make_unique<Replay>(read_recording(file).fresh);
}

}  // namespace forebay
