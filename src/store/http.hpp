#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

// An HTTP request and its reply. Each thread keeps its connections open for the next request.
namespace forebay::store {

// Throws ConfigError, which says why and what to do, if this build or machine cannot make requests.
void require_http();

struct Request {
  std::string url;
  std::vector<std::string> headers = {};
  const char* method = "GET";
  std::string form = {};   // the body of a POST: "name=value&..."
  long limit_s = 0;        // 0: as long as bytes arrive
  bool is_direct = false;  // bypasses any proxy
};

// The headers of a reply; missing ones are "".
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
  std::string location;  // absolute
  std::string proxy;     // that the environment names for http://, if it was asked so and refuses: "host:3128"
  std::optional<std::uint64_t> length;
  std::string text;  // the beginning of a body that is not the requested data
};

// Receives the body of a reply with status 200 or 206.
class Body {
 public:
  Body() = default;
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;
  virtual ~Body() = default;
  // Called at least once, with no bytes for an empty body. False: it needs no more, and the connection may be closed.
  // May throw.
  virtual bool take(const Reply& reply, std::span<const std::byte> bytes) = 0;
};

// Throws what the body throws; a transient SampleError if the reply is incomplete; ConfigError, which does not name the
// object, for what only the user can change (a certificate, a build without HTTP).
[[nodiscard]] Reply perform(const Request& request, Body& body);

}  // namespace forebay::store
