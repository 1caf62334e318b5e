// Keys are looked for when the first request is signed, and by one thread: others wait for it, as they could not read
// anyway. Then they are asked for again at three quarters of their life, without the lock. A service that does not
// answer at that moment costs one reader its time, because there is a quarter left, and it is asked every ten seconds.

#include "credentials.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <forebay/error.hpp>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "base/text.hpp"
#include "http.hpp"
#include "url.hpp"

// What programs and services answer holds secrets: no message repeats any of it.
namespace forebay::store {
namespace {

using Clock = std::chrono::system_clock;
constexpr long kMetadata_s = 2;  // nobody there does not answer at all
constexpr long kService_s = 15;

std::string file_of(const char* variable, const char* name) {
  const std::string given = environment(variable);
  return given.empty() ? environment("HOME") + "/.aws/" + name : given;
}

// The section of a file, whose sections are called "NAME", or "profile NAME" in `config`. Nested settings are left out.
void add_section(const std::string& file, const std::string& name, Profile& profile) {
  std::ifstream lines(file);
  std::string line;
  bool is_in_it = false;
  while (std::getline(lines, line)) {
    const std::string_view text = without_blanks(line);
    if (text.empty() || text.starts_with('#') || text.starts_with(';')) continue;
    if (text.starts_with('[') && text.ends_with(']')) {
      std::string_view section = without_blanks(text.substr(1, text.size() - 2));
      if (section.starts_with("profile ")) section = without_blanks(section.substr(8));
      is_in_it = section == name;
      continue;
    }
    const auto equals = text.find('=');
    if (!is_in_it || equals == std::string_view::npos || line.front() == ' ' || line.front() == '\t') continue;
    profile.emplace(without_blanks(text.substr(0, equals)), without_blanks(text.substr(equals + 1)));
  }
}

// "2026-11-25T19:00:00Z", with or without fractions.
Clock::time_point time_in(const std::string& text) {
  std::tm time{};
  constexpr int kFar = 2200 - 1900;  // "9999-12-31" is more than a time_point holds
  const bool is_read = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time) != nullptr;
  if (!is_read || time.tm_year > kFar) return Clock::time_point::max();
  return Clock::from_time_t(::timegm(&time));
}

Keys keys_in(const std::string& text, const std::string& from, const char* token = "Token") {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto member = [&](const char* name) -> std::string {
    const bool is_there = json.is_object() && json.contains(name) && json[name].is_string();
    return is_there ? json[name].get<std::string>() : "";
  };
  Keys keys{.id = member("AccessKeyId"), .secret = member("SecretAccessKey"), .token = member(token)};
  if (keys.id.empty() || keys.secret.empty()) throw ConfigError(from + " gave no keys");
  if (const std::string expires = member("Expiration"); !expires.empty()) keys.expires = time_in(expires);
  return keys;
}

struct TextBody final : Body {
  std::string text;
  bool take(const Reply& /*reply*/, std::span<const std::byte> bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return text.size() < (std::size_t{1} << 20U);
  }
};

// What a service says with status 200; nothing if it refuses. One that is busy is asked again later.
std::optional<std::string> ask(const Request& request, bool may_be_missing = false) {
  TextBody body;
  Reply reply;
  try {
    reply = perform(request, body);
  } catch (const SampleError&) {
    if (!may_be_missing) throw;
    return std::nullopt;
  }
  if (reply.status == 429 || reply.status >= 500) {
    throw SampleError("the service of credentials answers " + std::to_string(reply.status),
                      SampleError::Kind::transient);
  }
  if (reply.status != 200) return std::nullopt;
  return std::move(body.text);
}

Keys keys_of_process(const std::string& command) {
  const std::string from = "credential_process of the AWS profile";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "re"), ::pclose);
  std::string text;
  std::array<char, 4096> piece{};
  while (pipe) {
    const std::size_t got = std::fread(piece.data(), 1, piece.size(), pipe.get());
    if (got == 0) break;
    text.append(piece.data(), got);
  }
  return keys_in(text, from, "SessionToken");
}

std::string text_of_file(const std::string& file) {
  std::ifstream stream(file);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  return std::string(without_blanks(text));
}

Keys keys_of_web_identity(const std::string& token_file, const std::string& role) {
  const std::string region = environment("AWS_REGION");
  const std::string endpoint = environment("AWS_ENDPOINT_URL_STS");
  const std::string host =
      !endpoint.empty() ? endpoint : "https://sts." + (region.empty() ? "" : region + ".") + "amazonaws.com";
  const std::string session = environment("AWS_ROLE_SESSION_NAME");
  const auto reply =  // a form, because servers and proxies write URLs to their logs
      ask({.url = host + "/",
           .method = "POST",
           .form = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=" + percent_encoded(role) +
                   "&RoleSessionName=" + percent_encoded(session.empty() ? "forebay" : session) +
                   "&WebIdentityToken=" + percent_encoded(text_of_file(token_file)),
           .limit_s = kService_s});
  if (!reply || xml_element(*reply, "AccessKeyId").empty()) {
    throw ConfigError("the web identity in AWS_WEB_IDENTITY_TOKEN_FILE gets no keys of the role in AWS_ROLE_ARN");
  }
  return {.id = xml_element(*reply, "AccessKeyId"),
          .secret = xml_element(*reply, "SecretAccessKey"),
          .token = xml_element(*reply, "SessionToken"),
          .expires = time_in(xml_element(*reply, "Expiration"))};
}

Keys keys_of_container(const std::string& uri) {
  Request request{.url = uri, .limit_s = kService_s, .is_direct = true};
  const std::string file = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  const std::string token = file.empty() ? environment("AWS_CONTAINER_AUTHORIZATION_TOKEN") : text_of_file(file);
  if (!token.empty()) request.headers.push_back("Authorization: " + token);
  const auto reply = ask(request);
  if (!reply) throw ConfigError("the container's service of credentials (AWS_CONTAINER_CREDENTIALS_...) refuses");
  return keys_in(*reply, "the container's service of credentials");
}

// Nothing on machines without a service of metadata, which most are.
Keys keys_of_machine() {
  if (environment("AWS_EC2_METADATA_DISABLED") == "true") return {};
  const std::string given = environment("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  const std::string base = (given.empty() ? "http://169.254.169.254" : given) + "/latest/";
  const auto token = ask({.url = base + "api/token",
                          .headers = {"X-aws-ec2-metadata-token-ttl-seconds: 21600", "Content-Length: 0"},
                          .method = "PUT",
                          .limit_s = kMetadata_s,
                          .is_direct = true},
                         true);
  if (!token) return {};
  Request request{.url = base + "meta-data/iam/security-credentials/",
                  .headers = {"X-aws-ec2-metadata-token: " + *token},
                  .limit_s = kMetadata_s,
                  .is_direct = true};
  const auto role = ask(request);
  if (!role || role->empty()) return {};  // the machine has none
  request.url += role->substr(0, role->find('\n'));
  const auto reply = ask(request);
  if (!reply) throw SampleError("the machine's service of metadata gives no keys", SampleError::Kind::transient);
  return keys_in(*reply, "the machine's service of metadata");
}

}  // namespace

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Profile read_profile() {
  const std::string given = environment("AWS_PROFILE");
  const std::string name = given.empty() ? "default" : given;
  Profile profile;
  add_section(file_of("AWS_SHARED_CREDENTIALS_FILE", "credentials"), name, profile);
  add_section(file_of("AWS_CONFIG_FILE", "config"), name, profile);
  if (profile.empty() && !given.empty()) {
    throw ConfigError("AWS_PROFILE = \"" + printable(given) +
                      "\": ~/.aws/credentials and ~/.aws/config have no such profile");
  }
  return profile;
}

bool is_unsigned_wanted() {
  const std::string given = environment("AWS_NO_SIGN_REQUEST");
  return !given.empty() && given != "0" && given != "NO";
}

Keys find_keys() {
  if (is_unsigned_wanted()) return {};
  Keys keys{.id = environment("AWS_ACCESS_KEY_ID"),
            .secret = environment("AWS_SECRET_ACCESS_KEY"),
            .token = environment("AWS_SESSION_TOKEN")};
  if (keys.id.empty() != keys.secret.empty()) {
    throw ConfigError("of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY one is set and the other is not");
  }
  if (!keys.id.empty()) return keys;
  const Profile profile = read_profile();
  const auto value = [&](const char* name) {
    const auto found = profile.find(name);
    return found == profile.end() ? std::string() : found->second;
  };
  if (!value("aws_access_key_id").empty()) {
    return {.id = value("aws_access_key_id"),
            .secret = value("aws_secret_access_key"),
            .token = value("aws_session_token")};
  }
  if (!value("credential_process").empty()) return keys_of_process(value("credential_process"));
  const std::string token_file = environment("AWS_WEB_IDENTITY_TOKEN_FILE");
  const std::string role = environment("AWS_ROLE_ARN");
  if (!token_file.empty() && !role.empty()) return keys_of_web_identity(token_file, role);
  const std::string uri = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  const std::string relative = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  if (!uri.empty()) return keys_of_container(uri);
  if (!relative.empty()) return keys_of_container("http://169.254.170.2" + relative);
  if (profile.contains("sso_session") || profile.contains("sso_start_url") || profile.contains("role_arn")) {
    throw ConfigError(
        "the AWS profile signs in by SSO or takes a role, which Forebay does not do itself: run the job with the keys "
        "of `aws configure export-credentials --format env`, or set credential_process in the profile");
  }
  return keys_of_machine();
}

namespace {

constexpr std::chrono::seconds kBetweenAttempts(10);

bool is_same(const Keys& one, const Keys& other) { return one.id == other.id && one.token == other.token; }

// Where keys came from before, more will: whatever it says, it only fails for now.
Keys find_keys_after(const Keys& old) {
  try {
    Keys found = find_keys();
    if (old.id.empty() || !found.id.empty()) return found;
  } catch (const ConfigError& error) {
    if (old.id.empty()) throw;
    throw SampleError(error.what(), SampleError::Kind::transient);
  }
  throw SampleError("the keys that expire are not given again", SampleError::Kind::transient);
}

}  // namespace

Credentials& Credentials::of_process() {
  static auto& credentials = *new Credentials;  // never destroyed, as threads of a feeder outlive exit()
  return credentials;
}

void Credentials::take(Keys found, Clock::time_point now) {
  keys_ = std::move(found);
  is_found_ = true;
  renew_at_ = Clock::time_point::max();
  if (keys_.expires == Clock::time_point::max()) return;
  const auto life = keys_.expires - now;
  std::minstd_rand random(std::random_device{}());
  renew_at_ = now + std::max<Clock::duration>(life / 100 * std::uniform_int_distribution<int>(65, 75)(random),
                                              kBetweenAttempts);
}

Keys Credentials::keys(Clock::time_point now) {
  std::unique_lock lock(mutex_);
  if (!is_found_ || now >= keys_.expires) {
    take(find_keys_after(keys_), now);
  } else if (now >= renew_at_) {
    renew_at_ = now + kBetweenAttempts;
    Keys old = keys_;
    lock.unlock();
    try {
      Keys found = find_keys_after(old);
      lock.lock();
      take(std::move(found), now);
    } catch (const Error&) {
      return old;
    }
  }
  return keys_;
}

bool Credentials::renew(const Keys& expired) {
  const std::lock_guard lock(mutex_);
  if (is_same(keys_, expired)) take(find_keys_after(keys_), Clock::now());
  if (!is_same(keys_, expired)) return true;
  if (!have_worked_.load(std::memory_order_relaxed)) return false;
  throw SampleError("the keys have expired and nothing gives new ones", SampleError::Kind::transient);
}

}  // namespace forebay::store
