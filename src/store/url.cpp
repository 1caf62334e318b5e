#include "url.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <forebay/error.hpp>

#include "base/text.hpp"

namespace forebay::store {
namespace {

constexpr std::array<std::string_view, 4> kSchemes{"https://", "http://", "s3://", "gs://"};

bool is_unreserved(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

}  // namespace

bool is_url(std::string_view path) noexcept {
  return !path.starts_with('/') && std::ranges::any_of(kSchemes, [&](std::string_view scheme) {
    return equals_ignoring_case(path.substr(0, scheme.size()), scheme);
  });
}

bool is_bucket(std::string_view url) noexcept { return url.starts_with("s3://") || url.starts_with("gs://"); }

bool is_prefix(std::string_view url) noexcept {
  if (url.ends_with('/')) return true;
  if (!is_bucket(url)) return false;
  const std::string_view place = url.substr(url.find("://") + 3);
  const auto slash = place.rfind('/');
  return slash == std::string_view::npos || place.find('.', slash) == std::string_view::npos;
}

ObjectName object_name(const std::string& url) {
  const auto colon = url.find("://");
  const auto begin = colon + 3;
  const auto slash = std::min(url.find('/', begin), url.size());
  ObjectName place{.scheme = url.substr(0, colon), .host = url.substr(begin, slash - begin), .key = {}};
  if (slash < url.size()) place.key = url.substr(slash + 1);
  // The text itself is not repeated: it may be the secret.
  if (place.host.find('@') != std::string::npos) {
    throw ConfigError(
        "a URL with a user's name or password in it would be written to logs and indexes; leave them out");
  }
  if (std::ranges::any_of(place.scheme, [](char c) { return c >= 'A' && c <= 'Z'; }))
    throw ConfigError(printable(place.scheme) + "://...: write the scheme of a URL in small letters, such as s3://");
  if (place.host.empty()) throw ConfigError("\"" + printable(url) + "\" names no host or bucket");
  // It becomes a part of a host's name. A pattern ("{a,b}") is taken apart later.
  const bool is_good = std::ranges::all_of(
      place.host, [](char c) { return (is_unreserved(c) && c != '~') || c == '{' || c == '}' || c == ','; });
  if (is_bucket(url) && !is_good) {
    throw ConfigError("\"" + printable(place.scheme + "://" + place.host) +
                      "\": the name of a bucket has letters, digits, '.', '-' and '_' alone");
  }
  if (!is_bucket(url) && url.find_first_of("?#", begin) != std::string::npos) {
    throw ConfigError(
        "a URL with a query (\"?\") or a fragment (\"#\"): a signature in it would be written to logs and indexes; "
        "give the path alone, and what follows \"?\" in the environment variable FOREBAY_URL_QUERY");
  }
  return place;
}

std::string percent_encoded(std::string_view text, std::string_view kept) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    if (is_unreserved(c) || kept.find(c) != std::string_view::npos) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', kDigits[byte >> 4U], kDigits[byte & 15U]};
    }
  }
  return encoded;
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* const digits = text.data() + i + 1;
    const bool is_encoded =
        text[i] == '%' && i + 2 < text.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    decoded += is_encoded ? static_cast<char>(byte) : text[i] == '+' ? ' ' : text[i];
    if (is_encoded) i += 2;
  }
  return decoded;
}

std::string xml_element(const std::string& text, const std::string& name) {
  const auto begin = text.find("<" + name + ">");
  const auto end = text.find("</" + name + ">");
  const bool is_there = begin != std::string::npos && end != std::string::npos && begin < end;
  return is_there ? text.substr(begin + name.size() + 2, end - begin - name.size() - 2) : "";
}

}  // namespace forebay::store
