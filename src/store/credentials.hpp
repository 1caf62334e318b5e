#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "signature.hpp"

// Keys for S3, from where AWS's own programs take them: the environment, the profile in ~/.aws
// (keys, or a credential_process), a web identity, a container's URI, the machine's metadata (IMDSv2).
namespace forebay::store {

// One profile of ~/.aws, as AWS_PROFILE names it: what `credentials` and `config` say of it.
using Profile = std::map<std::string, std::string>;
[[nodiscard]] Profile read_profile();

// The value of an environment variable, "" if it is not set.
[[nodiscard]] std::string environment(const char* name);

// Throws ConfigError, naming what is wrong, but for a secret. Keys without an id if there are none: requests are then
// not signed.
[[nodiscard]] Keys find_keys();

// The process's keys. Any thread.
class Credentials {
 public:
  static Credentials& of_process();

  using Clock = std::chrono::system_clock;

  // Asks again at three quarters of their life, earlier by chance so that not all ranks do at once, by one thread:
  // others go on with what there is. Keys that cannot be renewed are used until they expire; then, and while what gave
  // them fails, SampleError, transient.
  [[nodiscard]] Keys keys(Clock::time_point now = Clock::now());
  // The store says that these have expired. Throws the same if nothing gives others; false: and they never worked.
  [[nodiscard]] bool renew(const Keys& expired);
  // The store took them.
  void have_worked() noexcept { have_worked_.store(true, std::memory_order_relaxed); }

 private:
  std::mutex mutex_;
  bool is_found_ = false;
  Keys keys_;
  Clock::time_point renew_at_;
  std::atomic<bool> have_worked_{false};

  void take(Keys found, Clock::time_point now);
};

}  // namespace forebay::store
