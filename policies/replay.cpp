#include <filesystem>
#include <system_error>
#include <utility>

#include <forebay/error.hpp>
#include <forebay/policy.hpp>

#include "measure/recording.hpp"

namespace forebay {
namespace {

// Does at each step what was recorded of it. A step that was fresh waits for its batch, however long that took then.
// The feeder ends the run where the recording ends; whoever else asks beyond it gets what never waits.
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

// `recording` is a file here, which the feeder has made of the folder for its rank; of a folder it is rank 0's.
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
