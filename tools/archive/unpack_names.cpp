#include "unpack_names.hpp"

#include <algorithm>
#include <span>

#include "data/pack_shard.hpp"

namespace forebay::archive {
namespace {

constexpr std::string_view kRecord = "[record ";
constexpr std::string_view kObject = "#object ";

std::uint64_t hash_of_name(std::string_view name) { return data::hash128(std::as_bytes(std::span(name))).low; }

}  // namespace

// Parts of 255 bytes are the limit of common file systems; ".." and absolute paths become parts
// below the folder, or vanish.
std::string safe_name(std::string_view name) {
  constexpr std::size_t kLongestPart = 255;
  constexpr std::size_t kLongest = 3000;
  if (name.size() > kLongest || name.find('\0') != std::string_view::npos) return {};
  std::string safe;
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('/'));
    name.remove_prefix(std::min(name.size(), part.size() + 1));
    if (part.size() > kLongestPart) return {};
    if (!part.empty() && part != "." && part != "..") safe.append(safe.empty() ? "" : "/").append(part);
  }
  return safe;
}

// Names in the set are those of messages: "x.tar[record 5, n01/a]" becomes "x.tar/n01/a.jpg",
// "x.jpg#object 2" is of "x.jpg".
std::string unpacked_name(std::string_view key, std::string_view ending) {
  if (const auto object = key.rfind(kObject); object != std::string_view::npos) {
    const std::string_view number = key.substr(object + kObject.size());
    const bool is_number = !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_number) key = key.substr(0, object);
  }
  const auto record = key.find(kRecord);
  if (record == std::string_view::npos || !key.ends_with(']')) return std::string(key);
  const std::string_view container = key.substr(0, record);
  std::string_view number = key.substr(record + kRecord.size());
  number.remove_suffix(1);
  std::string name;
  if (const auto comma = number.find(", "); comma != std::string_view::npos) {
    name = number.substr(comma + 2);
  } else {
    constexpr std::size_t kDigits = 8;
    name = std::string(number.size() < kDigits ? kDigits - number.size() : 0, '0') + std::string(number);
  }
  return std::string(container) + "/" + name + (name.ends_with(ending) ? "" : std::string(ending));
}

void Turns::Turn::wait() {
  std::unique_lock lock(turns_.mutex_);
  turns_.moved_.wait(lock, [this] { return turns_.next_ == number_; });
}

// Waits for its turn first: numbers are passed on one by one.
void Turns::Turn::pass() {
  if (has_passed_) return;
  wait();
  {
    const std::lock_guard lock(turns_.mutex_);
    ++turns_.next_;
  }
  turns_.moved_.notify_all();
  has_passed_ = true;
}

// A name cannot be both a folder and a file.
bool UnpackNames::claim_folder(std::string_view name) {
  for (std::size_t end = name.find('/'); end != std::string_view::npos; end = name.find('/', end + 1)) {
    if (files_.contains(hash_of_name(name.substr(0, end)))) return false;
  }
  if (files_.contains(hash_of_name(name))) return false;
  for (std::size_t end = name.find('/'); end != std::string_view::npos; end = name.find('/', end + 1)) {
    folders_.insert(hash_of_name(name.substr(0, end)));
  }
  folders_.insert(hash_of_name(name));
  return true;
}

// 64 bits of a hash stand for names and bytes.
UnpackNames::Claim UnpackNames::claim(std::string_view name, std::uint64_t bytes) {
  const std::uint64_t hash = hash_of_name(name);
  if (const auto found = files_.find(hash); found != files_.end()) {
    return found->second == bytes ? Claim::is_same : Claim::is_taken;
  }
  if (folders_.contains(hash)) return Claim::is_taken;
  const auto slash = name.rfind('/');
  if (slash != std::string_view::npos && !claim_folder(name.substr(0, slash))) return Claim::is_taken;
  files_.emplace(hash, bytes);
  return Claim::is_free;
}

}  // namespace forebay::archive
