#pragma once

#include <string>
#include <string_view>

// Names of data in a store: http://, https://, s3:// and gs:// (docs/remote.md).
namespace forebay::store {

// Whether a path is the URL of an object, or of all objects below a prefix.
[[nodiscard]] bool is_url(std::string_view path) noexcept;

// Whether a path does not depend on the working directory: one that begins with "/", or a URL.
[[nodiscard]] inline bool is_absolute(std::string_view path) noexcept { return path.starts_with('/') || is_url(path); }

// Whether a URL begins with s3:// or gs://, whose names can be listed by prefix.
[[nodiscard]] bool is_bucket(std::string_view url) noexcept;

// Whether a URL stands for all objects below it: it ends with "/", or its last part has no extension and its store can
// list. Decided by the name alone, so that it costs no request.
[[nodiscard]] bool is_prefix(std::string_view url) noexcept;

// An object in its store. Throws ConfigError for a URL without a host or bucket, and for one that contains a secret (a
// user name, a query), because names are written to logs and indexes.
struct ObjectName {
  std::string scheme;  // "https"
  std::string host;    // or bucket
  std::string key;     // without the first "/"
};
[[nodiscard]] ObjectName object_name(const std::string& url);

// Encodes every byte except letters, digits, "-._~" and those in `kept` as %XX; and the inverse.
[[nodiscard]] std::string percent_encoded(std::string_view text, std::string_view kept = {});
[[nodiscard]] std::string percent_decoded(std::string_view text);

// The text of the first element of this name, such as <Code>, in a store's short answers; "" if there is none.
[[nodiscard]] std::string xml_element(const std::string& text, const std::string& name);

}  // namespace forebay::store
