// A GET request for a name, from the URL that people write to an answer that is the data.
//
// In this order, on the thread that wants the bytes: the name becomes an origin and a path (an endpoint and a style of
// addressing for s3://, which the environment says once in a process); the request is signed for that host and this
// second; it is sent; redirects are followed here and not by libcurl, because a signature is for one host and a query
// with a secret must not travel to another one.
//
// What is no data is one of three things. It may pass (503 and its like): the thread rests and throws a transient
// error, and whoever reads asks again for as long as the run's watchdog allows, as with a file system that fails;
// resting here, with chance, keeps a hundred threads from coming back in the same moment. It is about this object (404,
// 412): a permanent SampleError. Or only a user can change it (a key, a bucket, a region, a clock): ConfigError, which
// ends the run. A refusal that quarantined samples one by one would train on what is left.

#include "requests.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <ctime>
#include <forebay/error.hpp>
#include <random>
#include <typeinfo>
#include <utility>

#include "base/retry.hpp"
#include "base/text.hpp"
#include "credentials.hpp"
#include "objects.hpp"
#include "url.hpp"

namespace forebay::store {
namespace {

using namespace std::chrono_literals;

constexpr int kMostHops = 5;
constexpr std::chrono::milliseconds kLongestWanted = 10s;  // of what Retry-After may ask for
constexpr std::chrono::milliseconds kFirstRest = 50ms;
constexpr std::chrono::milliseconds kLongestRest = 2s;

// Where s3:// is, as AWS's own programs are told.
struct Settings {
  std::string endpoint;
  std::string told_by;  // "AWS_ENDPOINT_URL_S3", or the key of the profile; "" without an endpoint
  std::string region;

  Settings() {
    const Profile profile = read_profile();
    std::string place;  // of what was found last
    const auto first_of = [&](std::initializer_list<const char*> variables, const char* in_profile) {
      for (const char* name : variables) {
        place = name;
        if (std::string value = environment(name); !value.empty()) return value;
      }
      place = std::string(in_profile) + " of the profile";
      const auto found = profile.find(in_profile);
      return found == profile.end() ? std::string() : found->second;
    };
    endpoint = first_of({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, "endpoint_url");
    if (!endpoint.empty()) told_by = place;
    while (endpoint.ends_with('/')) endpoint.pop_back();
    if (!endpoint.empty() && !endpoint.starts_with("http://") && !endpoint.starts_with("https://")) {
      throw ConfigError(told_by + ": it is a URL, as https://host:9000");
    }
    if (!endpoint.empty() && endpoint.find_first_of("/?#@", endpoint.find("://") + 3) != std::string::npos) {
      throw ConfigError(told_by + ": what follows the host, or before \"@\", is not sent; leave it out");
    }
    region = first_of({"AWS_REGION", "AWS_DEFAULT_REGION"}, "region");
    if (region.empty()) region = "us-east-1";
  }
};

const Settings& settings() {
  static const auto& read = *new Settings;  // never destroyed, as threads of a feeder outlive exit()
  return read;
}

// A request as it is sent.
struct Target {
  std::string origin;  // "https://host:9000"
  std::string path;    // from "/" on
  std::string query = {};
  std::string region = {};      // of those that are signed
  std::string other_path = {};  // of an object that the name may mean as well, asked for if there is none at `path`

  [[nodiscard]] std::string url() const { return origin + path + (query.empty() ? "" : "?" + query); }
  // As it is sent: without the scheme's own port.
  [[nodiscard]] std::string host() const {
    const std::string name = origin.substr(origin.find("://") + 3);
    const std::string_view port = origin.starts_with("https") ? ":443" : ":80";
    return name.ends_with(port) ? name.substr(0, name.size() - port.size()) : name;
  }
};

// "" if FOREBAY_URL_QUERY is not set. Throws ConfigError where it could be read on its way.
std::string query_for(const ObjectName& place) {
  std::string query = environment("FOREBAY_URL_QUERY");
  if (query.starts_with('?')) query.erase(0, 1);
  const std::string name = place.host.substr(0, place.host.rfind(':'));
  const bool is_near = name == "localhost" || name == "127.0.0.1" || name == "[::1]";
  if (!query.empty() && place.scheme == "http" && !is_near) {
    throw ConfigError("http://" + printable(place.host) +
                      "/: FOREBAY_URL_QUERY holds a secret and is sent over https:// alone");
  }
  return query;
}

// Whether keys for one host may be sent to another that it names.
bool is_same_owner(const std::string& asked, const std::string& host) {
  const auto is_amazon = [](const std::string& name) {
    return name.ends_with(".amazonaws.com") || name.ends_with(".amazonaws.com.cn");
  };
  return host == asked || (is_amazon(asked) && is_amazon(host));
}

// As a browser sends it: what is encoded already stays as it is. Names in lists may be those of files instead, in which
// "%20" is three characters.
std::string path_of_file(std::string_view key) { return "/" + percent_encoded(key, "/!$&'()*+,;=:@"); }
std::string path_of(std::string_view key) {
  std::string path = "/" + percent_encoded(key, "/%!$&'()*+,;=:@");
  const auto is_digit = [&](std::size_t at) {
    return at < path.size() && std::string_view("0123456789ABCDEFabcdef").find(path[at]) != std::string_view::npos;
  };
  for (auto at = path.find('%'); at != std::string::npos; at = path.find('%', at + 1)) {
    if (!is_digit(at + 1) || !is_digit(at + 2)) path.insert(at + 1, "25");
  }
  return path;
}

Target target_of(const std::string& url) {
  const ObjectName place = object_name(url);
  const std::string key = percent_encoded(place.key, "/");
  if (!is_bucket(url)) {
    Target target{.origin = place.scheme + "://" + place.host, .path = path_of(place.key), .query = query_for(place)};
    target.other_path = path_of_file(place.key);
    if (target.other_path == target.path) target.other_path.clear();
    return target;
  }
  if (place.scheme == "gs") {
    return {.origin = "https://storage.googleapis.com", .path = "/" + place.host + "/" + key, .region = "auto"};
  }
  const Settings& where = settings();
  const bool is_custom = !where.endpoint.empty();
  const std::string domain = "s3." + where.region + ".amazonaws.com" + (where.region.starts_with("cn-") ? ".cn" : "");
  // A certificate for all buckets covers no name with a dot.
  const bool is_in_path =
      environment("FOREBAY_S3_ADDRESSING") != "virtual" && (is_custom || place.host.find('.') != std::string::npos);
  std::string origin = is_custom ? where.endpoint : "https://" + domain;
  if (!is_in_path) origin.insert(origin.find("://") + 3, place.host + ".");
  return {
      .origin = std::move(origin), .path = (is_in_path ? "/" + place.host + "/" : "/") + key, .region = where.region};
}

// Of 5xx, whose upper ones are of proxies, all but what a server will never do.
bool asks_for_time(long status) noexcept {
  constexpr std::array kPassing{408L, 425L, 429L};
  constexpr std::array kNever{501L, 505L};
  const auto is_of = [&](const auto& codes) { return std::ranges::find(codes, status) != codes.end(); };
  return is_of(kPassing) || (status >= 500 && !is_of(kNever));
}

bool is_redirect(long status) noexcept {
  constexpr std::array kRedirects{301L, 302L, 303L, 307L, 308L};
  return std::ranges::find(kRedirects, status) != kRedirects.end();
}

// How often in a row this thread was asked for time.
void rest(const Reply& reply, unsigned times) {
  static thread_local std::minstd_rand random(std::random_device{}());
  std::chrono::milliseconds most = std::min(kFirstRest * (1 << std::min(times, 8U)), kLongestRest);
  std::chrono::milliseconds least = 0ms;
  int seconds = 0;
  const std::string& asked = reply.retry_after;
  if (std::from_chars(asked.data(), asked.data() + asked.size(), seconds).ec == std::errc() && seconds > 0) {
    least = std::min<std::chrono::milliseconds>(std::chrono::seconds(seconds), kLongestWanted);
    most = least + least / 10;
  }
  InterruptCheck::sleep_for(
      std::chrono::milliseconds(std::uniform_int_distribution<std::int64_t>(least.count(), most.count())(random)));
}

std::string answered(const Reply& reply, const std::string& code) {
  return "the store answers " + std::to_string(reply.status) + (code.empty() ? "" : " " + printable(code));
}

// How far this machine's clock is from the server's.
std::string skew_of(const Reply& reply) {
  std::tm time{};
  if (::strptime(reply.date.c_str(), "%a, %d %b %Y %H:%M:%S", &time) == nullptr) return "another time";
  const auto seconds = static_cast<long>(std::time(nullptr) - ::timegm(&time));
  return std::to_string(std::labs(seconds)) + " s " + (seconds > 0 ? "ahead of" : "behind") + " it";
}

// Whether no_proxy seems to name the host of the URL. Only libcurl knows for certain, and says it
// since 8.7; here it decides on the words of an error.
bool is_without_proxy(std::string_view url) {
  const std::string_view host = url.substr(url.find("://") + 3);
  for (const char* variable : {"no_proxy", "NO_PROXY"}) {
    const std::string names = environment(variable);
    for (const std::string_view each : split(names, ',')) {
      const std::string_view name = without_blanks(each);
      if (name == "*" || (!name.empty() && host.find(name) < host.find('/'))) return true;
    }
  }
  return false;
}

[[noreturn]] void refuse(const std::string& url, const Reply& reply, bool is_signed) {
  const std::string code = xml_element(reply.text, "Code");
  const std::string name = printable(url) + ": ";
  const std::string said = answered(reply, code);
  const std::string region = !reply.region.empty() ? reply.region : xml_element(reply.text, "Region");
  const bool is_s3 = is_bucket(url);
  if (code == "NoSuchBucket") throw ConfigError(name + "there is no bucket \"" + object_name(url).host + "\"");
  if (is_s3 && !region.empty() && region != settings().region &&
      (reply.status == 301 || reply.status == 400 || reply.status == 307)) {
    throw ConfigError(name + "the bucket is in the region " + printable(region) +
                      ": set AWS_REGION=" + printable(region) + " (it is " + settings().region + " now)");
  }
  if (code == "RequestTimeTooSkewed") {
    throw ConfigError(name + "the store refuses the time of this machine, whose clock is " + skew_of(reply) +
                      ": set the clock");
  }
  if (code == "SignatureDoesNotMatch" && is_signed) {
    throw ConfigError(name + said +
                      ": the secret key (AWS_SECRET_ACCESS_KEY, or that of the profile) does not belong to "
                      "the key id");
  }
  if (code == "InvalidAccessKeyId") {
    throw ConfigError(name + said + ": the store does not know the key id (AWS_ACCESS_KEY_ID, or that of the profile)");
  }
  if (code == "ExpiredToken") throw ConfigError(name + said + ": the keys have expired and nothing gives new ones");
  if (reply.status == 401 || reply.status == 403) {
    const std::string host = is_s3 ? settings().endpoint : url;  // perhaps with more, which does not matter
    if (!reply.proxy.empty() && !is_without_proxy(host)) {
      throw ConfigError(name + said + ", or the proxy " + reply.proxy +
                        " does (http_proxy): let the host through there, or name it in no_proxy to see what it says");
    }
    if (!is_s3) {
      throw ConfigError(name + said + ": it wants a signature or a login; put a signed query into FOREBAY_URL_QUERY");
    }
    throw ConfigError(name + said +
                      (is_signed ? ": the key may not read it, or it is not there and the key may not list the bucket"
                       : is_unsigned_wanted()
                           ? ": AWS_NO_SIGN_REQUEST is set, so no key was used, and the bucket is not public"
                           : ": no keys were found (environment, ~/.aws, service of the machine) and the bucket "
                             "is not public"));
  }
  if (reply.status == 404 || reply.status == 410) {
    const bool seems_pattern = url.find('*') != std::string::npos;
    throw SampleError("there is no such object (404)" +
                      std::string(seems_pattern ? "; a pattern in a URL has braces alone, as {00..63}" : ""));
  }
  if (reply.status == 407) {  // of https:// it would have been the answer to CONNECT
    throw ConfigError(name +
                      "the proxy (http_proxy) answers 407: give it a name and a password there, or name the host "
                      "in no_proxy");
  }
  if (reply.status == 412) throw is_changed();
  if (code == "RequestTimeout" || asks_for_time(reply.status) || code == "SlowDown") {
    throw SampleError(said, SampleError::Kind::transient);
  }
  if (reply.status < 300 || reply.status >= 400) throw ConfigError(name + said);
  throw ConfigError(name + said +
                    (is_redirect(reply.status) && reply.location.starts_with("http://")
                         ? ", a redirect from https:// to http://, which is not followed"
                         : ", a redirect that leads nowhere"));
}

// Who sends an s3:// URL to a server of its own: the URL does not name it.
std::string by_endpoint(const std::string& url) {
  if (!url.starts_with("s3://") || settings().endpoint.empty()) return {};
  return " (" + settings().told_by + " = " + printable(settings().endpoint) + ")";
}

// "https://host/path?query", as libcurl gives it whatever form it had in the reply, as another
// target for the same data.
bool follow(const Reply& reply, Target& target) {
  const std::string& to = reply.location;
  const bool is_safe = to.starts_with("https://") || (to.starts_with("http://") && !target.origin.starts_with("https"));
  if (!is_redirect(reply.status) || !is_safe) return false;
  const auto slash = std::min(to.find('/', to.find("://") + 3), to.size());
  const auto query = std::min(to.find('?', slash), to.size());
  const std::string path = slash < query ? to.substr(slash, query - slash) : "/";
  if (path != target.path) target.other_path.clear();
  target.origin = to.substr(0, slash);
  target.path = path;
  target.query = query < to.size() ? to.substr(query + 1) : "";
  return true;
}

Reply send(const std::string& url, Target target, const std::vector<std::string>& headers, Body& body) {
  static thread_local Signer signer;
  static thread_local unsigned failures = 0;
  bool is_renewed = false;
  const std::string asked = target.host();
  for (int hop = 0; hop <= kMostHops;) {
    Request request{.url = target.url(), .headers = headers};
    const bool takes_keys = is_bucket(url) && is_same_owner(asked, target.host());
    const Keys keys = takes_keys ? Credentials::of_process().keys() : Keys{};
    if (!keys.id.empty()) {
      auto more = signer.headers(keys, target.region, target.host(), target.path, target.query,
                                 std::chrono::system_clock::now());
      std::ranges::move(more, std::back_inserter(request.headers));
    }
    Reply reply;
    try {
      reply = perform(request, body);
    } catch (const ConfigError& error) {
      const std::string text = error.what() + by_endpoint(url);
      throw ConfigError(text.starts_with(printable(url)) ? text : printable(url) + ": " + text);
    } catch (const SampleError& error) {
      if (typeid(error) != typeid(SampleError) || !error.is_transient()) throw;
      throw SampleError(error.what() + by_endpoint(url), SampleError::Kind::transient);
    }
    if (reply.status == 200 || reply.status == 206 || reply.status == 304 || reply.status == 416) {
      failures = 0;
      if (!keys.id.empty()) Credentials::of_process().have_worked();
      return reply;
    }
    const bool has_expired = !is_renewed && xml_element(reply.text, "Code") == "ExpiredToken";
    if (has_expired && Credentials::of_process().renew(keys)) {
      is_renewed = true;
    } else if (follow(reply, target)) {
      ++hop;
    } else if (reply.status == 404 && !target.other_path.empty()) {
      target.path = std::exchange(target.other_path, {});
    } else {
      if (asks_for_time(reply.status)) rest(reply, failures++);
      refuse(url, reply, !keys.id.empty());
    }
  }
  throw ConfigError(printable(url) + ": the server redirects in a circle (more than five times)");
}

}  // namespace

Reply get(const std::string& url, const std::vector<std::string>& headers, Body& body) {
  return send(url, target_of(url), headers, body);
}

// Two requests of a byte each. An answer that may pass is thrown, because a server that is busy has
// not said that there is no such object.
bool has_two_meanings(const std::string& url) {
  if (is_bucket(url)) return false;
  class Nothing final : public Body {
    bool take(const Reply& /*reply*/, std::span<const std::byte> /*bytes*/) override { return false; }
  } nothing;
  Target target = target_of(url);
  const std::string other = std::exchange(target.other_path, {});
  if (other.empty()) return false;
  const auto is_there = [&] {
    try {
      (void)send(url, target, {"Range: bytes=0-0"}, nothing);
      return true;
    } catch (const SampleError& error) {
      if (error.is_transient()) throw;
      return false;
    } catch (const ConfigError&) {  // a bucket that may not be listed refuses what it does not have
      return false;
    }
  };
  if (!is_there()) return false;
  target.path = other;
  return is_there();
}

Reply get_list(const std::string& url, const std::string& query, Body& body) {
  Target target = target_of(url.substr(0, url.find('/', url.find("://") + 3)));
  if (target.path.size() > 1) target.path.pop_back();  // "/bucket"
  target.query = query;
  return send(url, std::move(target), {}, body);
}

}  // namespace forebay::store
