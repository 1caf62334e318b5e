#pragma once

#include <string>
#include <string_view>

// Names of data that lie in a store: http://, https://, s3:// and gs:// (docs/remote.md).
namespace forebay::store {

// Whether a path is the URL of an object, or of all objects below a prefix.
[[nodiscard]] bool is_url(std::string_view path) noexcept;

// Whether a path stands alone, wherever the process is: from "/" on, or a URL.
[[nodiscard]] inline bool is_absolute(std::string_view path) noexcept { return path.starts_with('/') || is_url(path); }

// Of s3:// and gs://, where names have a prefix that can be listed.
[[nodiscard]] bool is_bucket(std::string_view url) noexcept;

// Whether a URL stands for all objects below it: it ends with "/", or its last part has no extension and its store can
// list. That is decided by the name alone, so that it costs no request.
[[nodiscard]] bool is_prefix(std::string_view url) noexcept;

// An object in its store. Throws ConfigError for a URL that has no host or bucket, and for one with a secret in it: a
// user's name, a query. Names are written to logs and indexes.
struct ObjectName {
  std::string scheme;  // "https"
  std::string host;    // or bucket
  std::string key;     // without the first "/"
};
[[nodiscard]] ObjectName object_name(const std::string& url);

// Every byte but letters, digits, "-._~" and those of `kept` as %XX; and back.
[[nodiscard]] std::string percent_encoded(std::string_view text, std::string_view kept = {});
[[nodiscard]] std::string percent_decoded(std::string_view text);

// What stands in the first element of this name in a store's short answers, such as <Code>; "" if there is none.
[[nodiscard]] std::string xml_element(const std::string& text, const std::string& name);

}  // namespace forebay::store
