#pragma once

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

  // Asks again at three quarters of their life, earlier by chance so that not all ranks do at once. Keys that cannot be
  // renewed are used until they expire.
  [[nodiscard]] Keys keys();
  // The store says that these have expired.
  void renew(const Keys& expired);

 private:
  std::mutex mutex_;
  bool is_found_ = false;
  Keys keys_;
  std::chrono::system_clock::time_point renew_at_;

  void find();
};

}  // namespace forebay::store
