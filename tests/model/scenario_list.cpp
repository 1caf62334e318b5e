#include "scenario.hpp"

#include <array>

namespace forebay::model {

std::span<const Scenario> scenarios() {
  static constexpr std::array kAll = {
      Scenario{"one after the other", one_after_the_other},
      Scenario{"two decoders", two_decoders},
      Scenario{"leases elsewhere", leases_elsewhere},
      Scenario{"growing", growing},
      Scenario{"planning", planning},
      Scenario{"looking ahead", looking_ahead},
      Scenario{"reusing", reusing},
      Scenario{"busy decoders", busy_decoders},
      Scenario{"stopping", stopping},
      Scenario{"blocked time", blocked_time},
      Scenario{"streams", streams},
      Scenario{"uses together", uses_together},
      Scenario{"tensors", tensors},
      Scenario{"run ahead", run_ahead},
      Scenario{"failing device", failing_device},
      Scenario{"waiting", waiting},
      Scenario{"taking turns", taking_turns},
      Scenario{"signalling", signalling},
      Scenario{"records", records},
  };
  return kAll;
}

}  // namespace forebay::model
