#include "signature.hpp"

#include <ctime>

namespace forebay::store {
namespace {

// "20261125T190000Z".
std::string stamp_of(std::chrono::system_clock::time_point now) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm time{};
  ::gmtime_r(&seconds, &time);
  std::array<char, 20> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &time)};
}

}  // namespace

std::vector<std::string> Signer::headers(const Keys& keys, const std::string& region, const std::string& host,
                                         const std::string& path, const std::string& query,
                                         std::chrono::system_clock::time_point now) {
  // The SHA-256 of no bytes.
  static constexpr const char* kNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  const std::string stamp = stamp_of(now);
  const std::string day = stamp.substr(0, 8);
  std::string wanted = keys.secret;
  wanted.append("\n").append(day).append(region);
  if (kept_for_ != wanted) {
    const Digest of_day = hmac_sha256("AWS4" + keys.secret, day);
    const Digest of_region = hmac_sha256(view(of_day), region);
    const Digest of_service = hmac_sha256(view(of_region), "s3");
    key_ = hmac_sha256(view(of_service), "aws4_request");
    kept_for_ = std::move(wanted);
  }
  const std::string scope = day + "/" + region + "/s3/aws4_request";
  const std::string names =
      std::string("host;x-amz-content-sha256;x-amz-date") + (keys.token.empty() ? "" : ";x-amz-security-token");
  std::string request = "GET\n" + path + "\n" + query + "\nhost:" + host + "\nx-amz-content-sha256:" + kNothing +
                        "\nx-amz-date:" + stamp + "\n";
  if (!keys.token.empty()) request += "x-amz-security-token:" + keys.token + "\n";
  request += "\n" + names + "\n" + kNothing;
  const std::string to_sign = "AWS4-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + hex(sha256(request));
  std::vector<std::string> headers{"x-amz-date: " + stamp, std::string("x-amz-content-sha256: ") + kNothing,
                                   "Authorization: AWS4-HMAC-SHA256 Credential=" + keys.id + "/" + scope +
                                       ", SignedHeaders=" + names +
                                       ", Signature=" + hex(hmac_sha256(view(key_), to_sign))};
  if (!keys.token.empty()) headers.push_back("x-amz-security-token: " + keys.token);
  return headers;
}

}  // namespace forebay::store
