#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

// One request over HTTP and its reply. Each thread keeps its connections open for the next one.
namespace forebay::store {

// Whether this build, and this machine, can make requests; else why not and what to do, as ConfigError.
void require_http();

struct Request {
  std::string url;
  std::vector<std::string> headers = {};
  const char* method = "GET";
  long limit_s = 0;        // 0: as long as bytes come
  bool is_direct = false;  // past a proxy
};

// What a reply says. Texts are "" where it does not.
struct Reply {
  long status = 0;
  std::string etag;
  std::string modified;
  std::string range;
  std::string encoding;
  std::string transfer;
  std::string retry_after;
  std::string region;
  std::string date;
  std::string location;
  std::optional<std::uint64_t> length;
  std::string text;  // the beginning of a body that is not what was asked for
};

// Takes the body of a reply with status 200 or 206.
class Body {
 public:
  Body() = default;
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;
  virtual ~Body() = default;
  // At least once, with no bytes if there are none. False: it has enough, the connection may end. May throw.
  virtual bool take(const Reply& reply, std::span<const std::byte> bytes) = 0;
};

// Throws what the body throws; SampleError, transient, if there is no whole reply; ConfigError for what only a user can
// change (a certificate, a build without HTTP), without a name.
[[nodiscard]] Reply perform(const Request& request, Body& body);

}  // namespace forebay::store
