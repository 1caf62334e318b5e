#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "signature.hpp"

// Keys for S3, from the same places as for AWS's own programs: the environment, the profile in ~/.aws (keys, or a
// credential_process), a web identity, a container's URI, the machine's metadata (IMDSv2).
namespace forebay::store {

// The settings of one profile, named by AWS_PROFILE, in the files `credentials` and `config` of ~/.aws.
using Profile = std::map<std::string, std::string>;
[[nodiscard]] Profile read_profile();

// The value of an environment variable, "" if it is not set.
[[nodiscard]] std::string environment(const char* name);

// Whether AWS_NO_SIGN_REQUEST asks for requests without keys.
[[nodiscard]] bool is_unsigned_wanted();

// Throws ConfigError, which says what is wrong without showing secrets. Returns keys without an id if there are none:
// requests are then not signed.
[[nodiscard]] Keys find_keys();

// The process's keys. Any thread.
class Credentials {
 public:
  static Credentials& of_process();

  using Clock = std::chrono::system_clock;

  // Renews them at 65 to 75 % of their lifetime, at random so that not all ranks do it at once, on one thread, while
  // others continue with the current keys. Keys that cannot be renewed are used until they expire; after that, while
  // their provider fails, throws a transient SampleError.
  [[nodiscard]] Keys keys(Clock::time_point now = Clock::now());
  // To be called if the store says that these have expired. Throws likewise if there are no others; returns false if
  // they never worked.
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
