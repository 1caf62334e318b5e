// One transfer by libcurl's easy interface, on the calling thread.
//
// libcurl calls take_header() for each line, then take_bytes() for each piece of the body. Neither may throw through C:
// what they or the body throw is kept, the transfer ends, and perform() throws it. The headers of an answer that is
// followed by another one (100 Continue) are forgotten when the next status line comes.
//
// A stall is what gives less than 1 kB/s for 15 s: shorter than the watchdog of a run, longer than a store that is
// busy. What drips a little faster ends after 20 s, for the same reason, and the time that its bytes take at 100 kB/s.

#include <curl/curl.h>
#include <dlfcn.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <forebay/error.hpp>
#include <memory>
#include <string_view>

#include "base/retry.hpp"
#include "base/text.hpp"
#include "http.hpp"

// A transfer runs on the thread that wants its bytes, which go from libcurl's buffer to where they are wanted. libcurl
// is loaded when the first URL is read: a program that reads files alone does not need it, and a wheel does not carry
// it and its twenty libraries. (decisions/0041)
namespace forebay::store {
namespace {

constexpr long kSlowest = 1024;  // bytes per second over
constexpr long kStalled_s = 15;  // so long is no transfer any more
constexpr long kConnect_s = 10;
constexpr long kLongest_s = 20;          // and as long as this takes:
constexpr long kSlowestWhole = 100'000;  // bytes per second
constexpr long kBuffer = 256L << 10U;
constexpr std::size_t kLongestText = std::size_t{64} << 10U;

struct Curl {
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_reset) easy_reset = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_perform) easy_perform = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
  std::string problem;

  Curl() {
    void* library = nullptr;
    for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
      if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    }
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      return function != nullptr;
    };
    const bool is_there = library != nullptr && find(global_init, "curl_global_init") &&
                          find(easy_init, "curl_easy_init") && find(easy_cleanup, "curl_easy_cleanup") &&
                          find(easy_reset, "curl_easy_reset") && find(easy_setopt, "curl_easy_setopt") &&
                          find(easy_perform, "curl_easy_perform") && find(easy_getinfo, "curl_easy_getinfo") &&
                          find(easy_strerror, "curl_easy_strerror") && find(slist_append, "curl_slist_append") &&
                          find(slist_free_all, "curl_slist_free_all");
    if (!is_there) {
      problem = "no URL can be read: libcurl.so.4 is not on this machine; install it (Debian: libcurl4)";
    } else if (global_init(CURL_GLOBAL_ALL) != CURLE_OK) {
      problem = "no URL can be read: libcurl does not start";
    }
  }
};

const Curl& curl() {
  static const auto& loaded = *new Curl;  // never destroyed, as threads of a feeder outlive exit()
  return loaded;
}

// Where certificates are, as the user says, and in which variable; "": as libcurl was built.
std::pair<std::string, const char*> certificates() {
  for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    if (const char* given = std::getenv(name); given != nullptr && *given != '\0') return {given, name};
  }
  return {};
}

// libcurl has one code for all of it, and each library of TLS its own words.
std::string advice_for_certificate(std::string_view cause) {
  const auto says = [&](std::string_view words) { return cause.find(words) != std::string_view::npos; };
  if (says(" expired") || says(" not yet valid")) return "renew it on the server, or set this machine's clock";
  if (says(" match")) return "ask for it by a name that its certificate has";
  const auto [file, variable] = certificates();
  return "name a file of the authorities that you trust in AWS_CA_BUNDLE or SSL_CERT_FILE" +
         (file.empty() ? ", or install ca-certificates"
                       : " (now " + std::string(variable) + " = " + printable(file) + ")");
}

// A thread's connections. A child of a fork must not use those of its parent.
struct Connection {
  CURL* handle = nullptr;
  ::pid_t process = 0;

  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    if (handle != nullptr && process == ::getpid()) curl().easy_cleanup(handle);
  }
  CURL* get() {
    if (handle == nullptr || process != ::getpid()) {
      handle = curl().easy_init();
      process = ::getpid();
    }
    if (handle == nullptr) throw SampleError("no memory for a connection", SampleError::Kind::transient);
    return handle;
  }
};

struct Transfer {
  Body& body;
  Reply reply;
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  bool has_enough = false;
  std::exception_ptr thrown;
};

bool is_named(std::string_view line, std::string_view name) noexcept {
  return line.size() > name.size() && line[name.size()] == ':' &&
         std::ranges::equal(line.substr(0, name.size()), name,
                            [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

std::size_t take_header(char* bytes, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(bytes, size * count);
  try {
    Reply& reply = transfer.reply;
    if (line.starts_with("HTTP/")) {  // of the last reply only, after redirects
      reply = {};
      const auto blank = std::min(line.find(' ') + 1, line.size());
      (void)std::from_chars(line.data() + blank, line.data() + line.size(), reply.status);
      return line.size();
    }
    const std::array<std::pair<std::string_view, std::string*>, 9> texts{{{"etag", &reply.etag},
                                                                          {"last-modified", &reply.modified},
                                                                          {"content-range", &reply.range},
                                                                          {"content-encoding", &reply.encoding},
                                                                          {"transfer-encoding", &reply.transfer},
                                                                          {"retry-after", &reply.retry_after},
                                                                          {"x-amz-bucket-region", &reply.region},
                                                                          {"date", &reply.date},
                                                                          {"location", &reply.location}}};
    for (const auto& [name, text] : texts) {
      if (is_named(line, name)) *text = without_blanks(line.substr(name.size() + 1));
    }
    constexpr std::string_view kLength = "content-length";
    if (is_named(line, kLength)) {
      const std::string_view text = without_blanks(line.substr(kLength.size() + 1));
      std::uint64_t length = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
      if (error == std::errc()) reply.length = length;
    }
    return line.size();
  } catch (...) {
    transfer.thrown = std::current_exception();
    return 0;
  }
}

bool is_wanted(const Reply& reply) noexcept { return reply.status == 200 || reply.status == 206; }

std::size_t take_bytes(char* bytes, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::size_t length = size * count;
  try {
    if (!is_wanted(transfer.reply)) {
      transfer.reply.text.append(bytes,
                                 std::min(length, kLongestText - std::min(kLongestText, transfer.reply.text.size())));
      return length;
    }
    transfer.has_enough = !transfer.body.take(transfer.reply, std::as_bytes(std::span(bytes, length)));
    return transfer.has_enough ? 0 : length;
  } catch (...) {
    transfer.thrown = std::current_exception();
    return 0;
  }
}

// Not 0 ends a transfer that gives bytes, and so few that a reader would be lost to it, or that nobody wants any more.
// Called at least once a second, also while nothing comes.
int is_endless(void* user, curl_off_t total, curl_off_t now, curl_off_t /*sent*/, curl_off_t /*to_send*/) {
  auto& transfer = *static_cast<Transfer*>(user);
  try {
    InterruptCheck::poll();
  } catch (...) {
    transfer.thrown = std::current_exception();
    return 1;
  }
  const std::chrono::seconds limit(kLongest_s + std::max(total, now) / kSlowestWhole);
  return std::chrono::steady_clock::now() - transfer.begun > limit ? 1 : 0;
}

// "host:3128", without a user's name and password; "" if none of the variables names one.
std::string proxy_name(std::initializer_list<const char*> variables) {
  for (const char* name : variables) {
    const char* const given = std::getenv(name);
    if (given == nullptr || *given == '\0') continue;
    const std::string_view text = given;
    const auto user = text.rfind('@');
    const auto scheme = text.find("://");
    return printable(text.substr(user != std::string_view::npos     ? user + 1
                                 : scheme != std::string_view::npos ? scheme + 3
                                                                    : 0));
  }
  return {};
}

// Whether a handshake failed because the server does not speak TLS, in the words of OpenSSL, GnuTLS
// and NSS.
bool is_without_tls(std::string_view cause) {
  return std::ranges::any_of(
      std::array<std::string_view, 3>{"wrong version number", "unexpected TLS packet", "maximum permissible length"},
      [&](std::string_view words) { return cause.find(words) != std::string_view::npos; });
}

// What libcurl says of a proxy may have its password.
[[noreturn]] void no_reply(CURLcode code, std::string_view detail, long proxy_status) {
  if (proxy_status >= 300) {
    const std::string text = "the proxy " + proxy_name({"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}) +
                             " (https_proxy) answers " + std::to_string(proxy_status) + " to CONNECT";
    if (proxy_status >= 500) throw SampleError(text, SampleError::Kind::transient);
    throw ConfigError(text + "; let it through there, or name the host in no_proxy");
  }
  const bool is_told = !detail.empty() && detail.find("roxy") == std::string_view::npos;
  const std::string cause(is_told ? detail : curl().easy_strerror(code));
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      throw ConfigError("the server's certificate is not trusted (" + printable(cause) +
                        "): " + advice_for_certificate(cause));
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT: throw ConfigError("the URL cannot be asked for: " + printable(cause));
    case CURLE_OUT_OF_MEMORY: throw std::bad_alloc();
    case CURLE_ABORTED_BY_CALLBACK:
      throw SampleError("the server gave less than 100 kB/s for more than " + std::to_string(kLongest_s) + " s",
                        SampleError::Kind::transient);
    case CURLE_OPERATION_TIMEDOUT:
      throw SampleError(
          "the server gave less than 1 kB/s for " + std::to_string(kStalled_s) + " s, or took no connection",
          SampleError::Kind::transient);
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      throw SampleError(
          printable(cause) + ": is the name right, and is there a network or a proxy (http_proxy, https_proxy)?",
          SampleError::Kind::transient);
    case CURLE_COULDNT_CONNECT:
      throw SampleError(
          printable(cause) + ": does the server run, and is there a route or a proxy (http_proxy, https_proxy)?",
          SampleError::Kind::transient);
    case CURLE_SSL_CONNECT_ERROR:
      if (is_without_tls(cause))
        throw ConfigError("the server answers without TLS: ask for it with http://, or by another port");
      [[fallthrough]];
    default: throw SampleError("the connection failed: " + printable(cause), SampleError::Kind::transient);
  }
}

}  // namespace

void require_http() {
  if (!curl().problem.empty()) throw ConfigError(curl().problem);
}

Reply perform(const Request& request, Body& body) {
  require_http();
  const Curl& library = curl();
  static thread_local Connection connection;
  CURL* const handle = connection.get();
  library.easy_reset(handle);  // keeps connections and names of hosts

  Transfer transfer{.body = body, .reply = {}, .thrown = {}};
  std::array<char, CURL_ERROR_SIZE> detail{};
  curl_slist* list = nullptr;
  for (const std::string& header : request.headers) list = library.slist_append(list, header.c_str());
  const std::unique_ptr<curl_slist, decltype(library.slist_free_all)> headers(list, library.slist_free_all);
  const auto set = [&](CURLoption option, auto value) { (void)library.easy_setopt(handle, option, value); };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_HTTPHEADER, headers.get());
  if (!request.form.empty()) set(CURLOPT_COPYPOSTFIELDS, request.form.c_str());
  set(CURLOPT_CUSTOMREQUEST, request.method);
  set(CURLOPT_WRITEFUNCTION, &take_bytes);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  set(CURLOPT_HEADERFUNCTION, &take_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
  set(CURLOPT_ERRORBUFFER, detail.data());
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));  // a connection for each thread is quicker
  set(CURLOPT_BUFFERSIZE, kBuffer);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_CONNECTTIMEOUT, request.limit_s > 0 ? request.limit_s : kConnect_s);
  set(CURLOPT_TIMEOUT, request.limit_s);
  set(CURLOPT_LOW_SPEED_LIMIT, kSlowest);
  set(CURLOPT_LOW_SPEED_TIME, kStalled_s);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &is_endless);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(&transfer));
  if (request.is_direct) set(CURLOPT_NOPROXY, "*");
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  if (const std::string bundle = certificates().first; !bundle.empty()) {
    for (const auto whose : {CURLOPT_CAINFO, CURLOPT_PROXY_CAINFO}) set(whose, bundle.c_str());
  }

  const CURLcode code = library.easy_perform(handle);
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  if (code != CURLE_OK && !transfer.has_enough) {
    long proxy_status = 0;
    (void)library.easy_getinfo(handle, CURLINFO_HTTP_CONNECTCODE, &proxy_status);
    no_reply(code, detail.data(), proxy_status);
  }
  if (!transfer.has_enough && is_wanted(transfer.reply)) (void)body.take(transfer.reply, {});
  const char* location = nullptr;  // whatever form it has in the reply
  (void)library.easy_getinfo(handle, CURLINFO_REDIRECT_URL, &location);
  if (location != nullptr) transfer.reply.location = location;
  const bool refuses = transfer.reply.status == 401 || transfer.reply.status == 403;
  if (refuses && !request.is_direct && request.url.starts_with("http://")) {
    transfer.reply.proxy = proxy_name({"http_proxy", "all_proxy", "ALL_PROXY"});
  }
  return std::move(transfer.reply);
}

}  // namespace forebay::store
