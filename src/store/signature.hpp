#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "sha256.hpp"

// Signatures of S3 requests: AWS Signature Version 4 for a GET without a body.
namespace forebay::store {

// A user's credentials. Without an id, requests are not signed.
struct Keys {
  std::string id;
  std::string secret;
  std::string token;  // for keys that expire
  std::chrono::system_clock::time_point expires = std::chrono::system_clock::time_point::max();
};

// Signs requests, and caches the day's signing key, which makes a signature about 3 times cheaper. One thread at a
// time.
class Signer {
 public:
  // The headers to add to the request. `path` and `query` are as sent, with the query's keys in order.
  [[nodiscard]] std::vector<std::string> headers(const Keys& keys, const std::string& region, const std::string& host,
                                                 const std::string& path, const std::string& query,
                                                 std::chrono::system_clock::time_point now);

 private:
  std::string kept_for_;  // secret, day and region
  Digest key_{};
};

}  // namespace forebay::store
