#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/error.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/file_io.hpp"
#include "store/cache_entry.hpp"
#include "store/list_page.hpp"
#include "store/url.hpp"
#include "support.hpp"
#include "targets.hpp"

using namespace forebay::store;

// Entries of the cache of remote objects, and URLs of stores and their answers.
namespace forebay::fuzz {
namespace {

constexpr std::size_t kHead = CacheEntry::kBlock;
constexpr std::size_t kSum = 8;  // where a head has the checksum of what follows it

struct Folder {
  testing::TemporaryDirectory place;
  FileDescriptor opened{::open(place.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
};

void write_entry(const Folder& folder, std::string_view bytes) {
  std::ofstream(folder.place.path() / "entry", std::ios::binary) << bytes;
}

// Reads at most `most` blocks from `first` on, into memory of exactly their size. Returns how many
// are good.
std::ptrdiff_t look_at(const CacheEntry& entry, std::uint64_t first, std::uint64_t most) {
  const auto count = static_cast<std::size_t>(std::min(entry.blocks() - first, most));
  const std::uint64_t left = entry.object().bytes - first * CacheEntry::kBlock;
  std::vector<std::byte> bytes(std::min<std::uint64_t>(left, count * CacheEntry::kBlock));
  std::vector<bool> is_good;
  if (entry.read(first, {bytes}, entry.sums(first, count), is_good) != 0) return 0;
  return std::ranges::count(is_good, true);
}

}  // namespace

// The entry with the checksum of its head corrected.
bool use_cache_entry(std::string_view input) {
  static const Folder folder;
  std::string bytes(input);
  if (bytes.size() < kHead) bytes.resize(kHead);
  const std::uint64_t sum = XXH3_64bits(bytes.data() + kSum + sizeof sum, kHead - kSum - sizeof sum);
  std::memcpy(bytes.data() + kSum, &sum, sizeof sum);
  write_entry(folder, bytes);
  const auto entry = CacheEntry::open(folder.opened.get(), "entry");
  if (!entry) return false;
  (void)look_at(*entry, 0, 3);
  (void)look_at(*entry, entry->blocks() - 1, 1);
  if (entry->object().bytes > std::uint64_t{1} << 20U) return true;
  std::vector<std::byte> block(std::min<std::uint64_t>(entry->object().bytes, CacheEntry::kBlock), std::byte{7});
  if (entry->write(0, {block}) != 0 || look_at(*entry, 0, 1) < 1)
    throw std::logic_error("a block that was written is bad");
  return true;
}

std::vector<std::string> cache_entry_seeds() {
  const Folder folder;
  const KeptObject object{.name = "s3://bucket/key", .version = "\"etag\"", .identity = 7, .bytes = 5000};
  std::vector<std::byte> block(CacheEntry::kBlock, std::byte{1});
  (void)CacheEntry::make(folder.opened.get(), "entry", object).write(0, {block});
  std::ifstream file(folder.place.path() / "entry", std::ios::binary);
  return {std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>())};
}

// A path that may be a URL, and the short answer of a store.
bool use_url(std::string_view input) {
  const std::string text(input);
  if (percent_decoded(percent_encoded(text)) != text) throw std::logic_error("another text after encoding");
  (void)percent_decoded(text);
  const std::string inner = xml_element(text, "Code");
  if (text.find(inner) == std::string::npos) throw std::logic_error("an element that is not there");
  if (!is_url(text)) return !inner.empty();
  try {
    const ObjectName name = object_name(text);
    const std::string again = name.scheme + "://" + name.host + (name.key.empty() ? "" : "/" + name.key);
    if (again != text && again + "/" != text) throw std::logic_error("a URL that has other parts than its own");
  } catch (const ConfigError&) {
    return false;
  }
  (void)is_prefix(text);
  return true;
}

std::vector<std::string> url_seeds() {
  return {"s3://bucket/a/b.jpg", "gs://bucket/{a,b}/", "https://host:8080/a%20b+c",
          "<Error><Code>NoSuchKey</Code></Error>"};
}

// A page of a bucket's list.
bool use_list_page(std::string_view input) {
  std::size_t bytes = 0;
  const auto page = read_list_page(input, "a/", [&](std::string_view name) {
    if (name.empty()) throw std::logic_error("an object without a name");
    bytes += name.size();
  });
  // Each of the five entities of XML is longer than its text.
  if (bytes > input.size()) throw std::logic_error("names of more bytes than the list has");
  if (page && !page->goes_on && !page->token.empty()) throw std::logic_error("a page behind the last one");
  return page.has_value();
}

std::vector<std::string> list_page_seeds() {
  return {
      "<?xml version=\"1.0\"?><ListBucketResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>1/+=</NextContinuationToken><Contents><Key>a/b%20c.jpg</Key></Contents>"
      "<CommonPrefixes><Prefix>a/d/</Prefix></CommonPrefixes></ListBucketResult>",
      "<ListBucketResult><Contents><Key>a/&amp;&#x41;</Key></Contents></ListBucketResult>"};
}

}  // namespace forebay::fuzz
