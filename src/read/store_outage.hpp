#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.hpp"

namespace forebay::read {

// Tracks reads that fail and are retried. A failing store is treated like a slow one: its samples are not bad, and
// readers wait for it as long as for any read. Logs once that reads fail, and once that they have recovered. Any
// thread.
class StoreOutage {
 public:
  using Tell = std::function<void(const std::string& line)>;

  // `limit_s`: how long the reads of one sample may fail, in time for which the process runs; 0 = no limit. `time` must
  // outlive this; null = no limit. `tell` logs a line.
  StoreOutage(double limit_s, const RunningTime* time, Tell tell);

  // The reads of one sample, from the first that fails to the one that succeeds.
  class Trial {
   public:
    explicit Trial(StoreOutage& outage) noexcept : outage_(outage) {}
    ~Trial() {
      if (failures_ > 0) outage_.leave();
    }
    Trial(const Trial&) = delete;
    Trial& operator=(const Trial&) = delete;

    // Reports a read that failed for a possibly temporary reason. `name`: the name of what is read. Throws
    // WatchdogError once reads have failed for too long. `reads`: this rank's successful reads so far.
    void failed(const std::string& name, std::string_view reason, std::uint64_t reads);
    // A read succeeded, or its sample is no longer wanted.
    void succeeded() noexcept;

   private:
    StoreOutage& outage_;
    std::uint64_t failures_ = 0;
    std::uint64_t reads_before_ = 0;
    std::chrono::steady_clock::time_point since_;
    std::chrono::system_clock::time_point date_;
    RunningTime::Duration mark_{0};
  };

  // "reads have failed for 12.3 s: NAME: cannot read: Stale file handle"; "" if no read is failing
  // and no logged outage is still open.
  [[nodiscard]] std::string report() const;

 private:
  void enter(std::chrono::steady_clock::time_point since, std::uint64_t reads);
  void leave() noexcept;
  // `since`: when the sample's reads began to fail.
  void note(const std::string& name, std::string_view reason, std::chrono::steady_clock::time_point since,
            std::uint64_t reads);
  void recovered();

  const double limit_s_;
  const RunningTime* const time_;
  const Tell tell_;
  mutable std::mutex mutex_;
  std::uint64_t failing_ = 0;       // samples whose last read failed
  std::uint64_t failures_ = 0;      // since the first of them
  std::uint64_t reads_before_ = 0;  // successful ones, then
  bool is_told_ = false;
  std::chrono::steady_clock::time_point since_;
  std::string last_;  // name and reason
};

}  // namespace forebay::read
