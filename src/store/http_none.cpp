#include <forebay/error.hpp>

#include "http.hpp"

// A build without libcurl's headers.
namespace forebay::store {

void require_http() {
  throw ConfigError(
      "this build of Forebay reads no URL: build it where libcurl's headers are (Debian: libcurl4-openssl-dev), with "
      "-DFOREBAY_HTTP=ON");
}

Reply perform(const Request& /*request*/, Body& /*body*/) {
  require_http();
  return {};
}

}  // namespace forebay::store
