// Objects as files that are read by ranges, whole objects, and lists.
//
// A body goes from libcurl's buffer to where it is wanted, piece by piece; nothing is collected in between but heads,
// lists, and whole objects whose size nobody says. Before the first byte is written, the answer's headers are compared
// with what was asked for: the version (ETag), the range, the size, the encoding. So a server that ignores If-Match or
// Range, as some do, gives an error and never the bytes of another place or version.
//
// The ETag itself is known once the first answer of this process has come; until then its hash, which the index has, is
// compared. Both say the same, and so a saved index costs no request.

#include "objects.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <forebay/error.hpp>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/retry.hpp"
#include "base/text.hpp"
#include "list_page.hpp"
#include "requests.hpp"
#include "url.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay::store {
namespace {

constexpr std::size_t kHeadOfObject = std::size_t{64} << 10U;
// A server that answers a range with the whole object has this much thrown away before it, no more.
constexpr std::uint64_t kMostSkipped = std::uint64_t{16} << 20U;

// Without a version, ranges of two objects of one name could be mixed.
std::uint64_t identity_of(const std::string& url, const Reply& reply) {
  const std::string& text = reply.etag.empty() ? reply.modified : reply.etag;
  if (!text.empty()) return XXH3_64bits(text.data(), text.size());
  throw ConfigError(printable(url) +
                    ": the server names no version (ETag or Last-Modified), so a file that changes "
                    "could not be told from the old one; use a server that does");
}

// Compressed on its way, its ranges would be of other bytes. Of a .gz the header says what is stored.
void refuse_encoding(const std::string& url, const Reply& reply) {
  if (reply.encoding.empty() || reply.encoding == "identity") return;
  const bool is_gzip = reply.encoding == "gzip" || reply.encoding == "x-gzip";
  if (is_gzip && (url.ends_with(".gz") || url.ends_with(".tgz"))) return;
  throw ConfigError(printable(url) + ": the server sends it with Content-Encoding: " + printable(reply.encoding) +
                    ", which nobody asked for; have it sent as it is");
}

// "bytes 0-99/1234".
struct ContentRange {
  std::uint64_t begin = 0;
  std::uint64_t last = 0;
  std::optional<std::uint64_t> size;  // nothing: "*"
};
std::optional<ContentRange> content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  const auto parts = split(text.substr(kUnit.size()), '/');
  const auto ends = split(parts.front(), '-');
  const auto begin = parse_number<std::uint64_t>(ends.front());
  const auto last = parse_number<std::uint64_t>(ends.back());
  const auto size = parse_number<std::uint64_t>(parts.back());
  if (parts.size() != 2 || ends.size() != 2 || !begin || !last || (!size && !parts.back().starts_with('*'))) {
    return std::nullopt;
  }
  return ContentRange{.begin = *begin, .last = *last, .size = size};
}

std::string range_header(std::uint64_t begin, std::uint64_t end) {
  return "Range: bytes=" + std::to_string(begin) + "-" + std::to_string(end - 1);
}

// A range of an object, into pieces of memory.
class RangeBody final : public Body {
 public:
  RangeBody(const std::string& url, const Known& known, std::uint64_t begin,
            std::span<const std::span<std::byte>> pieces)
      : url_(url), known_(known), begin_(begin), pieces_(pieces) {
    for (const auto piece : pieces) wanted_ += piece.size();
  }

  [[nodiscard]] std::uint64_t wanted() const noexcept { return wanted_; }
  [[nodiscard]] std::uint64_t filled() const noexcept { return filled_; }

  bool take(const Reply& reply, std::span<const std::byte> bytes) override {
    if (!is_begun_) begin(reply);
    is_begun_ = true;
    const std::size_t skipped = static_cast<std::size_t>(std::min<std::uint64_t>(skip_, bytes.size()));
    skip_ -= skipped;
    bytes = bytes.subspan(skipped);
    if (bytes.size() > wanted_ - filled_) {
      if (is_range_)
        throw SampleError("the store sends more bytes than it was asked for", SampleError::Kind::transient);
      bytes = bytes.first(static_cast<std::size_t>(wanted_ - filled_));
    }
    filled_ += bytes.size();
    while (!bytes.empty()) {
      const std::span<std::byte> place = pieces_[piece_].subspan(in_piece_);
      const std::size_t now = std::min(place.size(), bytes.size());
      if (now > 0) std::memcpy(place.data(), bytes.data(), now);
      bytes = bytes.subspan(now);
      in_piece_ += now;
      if (in_piece_ == pieces_[piece_].size()) ++piece_, in_piece_ = 0;
    }
    return is_range_ || filled_ < wanted_ || begin_ + wanted_ == known_.bytes;
  }

 private:
  void begin(const Reply& reply) {
    refuse_encoding(url_, reply);
    if (identity_of(url_, reply) != known_.identity) throw is_changed();
    is_range_ = reply.status == 206;
    if (is_range_) {
      const auto range = content_range(reply.range);
      if (range && range->size && *range->size != known_.bytes) throw is_changed();
      if (!range || range->begin != begin_ || range->last + 1 != begin_ + wanted_) {
        throw SampleError("the store answers another range than it was asked for (" + printable(reply.range) + ")",
                          SampleError::Kind::transient);
      }
      return;
    }
    if (reply.length && *reply.length != known_.bytes) throw is_changed();
    if (begin_ > kMostSkipped) {
      throw ConfigError(
          printable(url_) +
          ": the server does not serve ranges (it answers 200 to \"Range\"), so each read would cross the "
          "network with all that is before it; use one that does, as nginx, or copy the files");
    }
    skip_ = begin_;
  }

  const std::string& url_;
  const Known& known_;
  const std::uint64_t begin_;
  std::span<const std::span<std::byte>> pieces_;
  std::uint64_t wanted_ = 0;
  std::uint64_t filled_ = 0;
  std::uint64_t skip_ = 0;
  std::size_t piece_ = 0;
  std::size_t in_piece_ = 0;
  bool is_begun_ = false;
  bool is_range_ = false;
};

// An object that is read by ranges.
class ObjectFile final : public RemoteFile {
 public:
  ObjectFile(std::string url, const Known& known, std::string etag, std::vector<std::byte> head)
      : url_(std::move(url)), known_(known), head_(std::move(head)), etag_(std::move(etag)) {}

  [[nodiscard]] const std::string& name() const noexcept override { return url_; }
  [[nodiscard]] std::uint64_t identity() const noexcept override { return known_.identity; }

  void read(std::size_t offset, std::span<const std::span<std::byte>> pieces) const override {
    RangeBody body(url_, known_, offset, pieces);
    const std::uint64_t end = offset + body.wanted();
    if (body.wanted() == 0) return;
    if (end > known_.bytes) throw ended_early(known_.bytes, end);
    if (end <= head_.size()) {
      traffic().from_store += body.wanted();
      for (const auto piece : pieces) {
        std::ranges::copy(std::span(head_).subspan(offset, piece.size()), piece.begin());
        offset += piece.size();
      }
      return;
    }
    std::vector<std::string> headers{range_header(offset, end)};
    if (std::string etag = strong_etag(); !etag.empty()) headers.push_back("If-Match: " + etag);
    const Reply reply = get(url_, headers, body);
    if (reply.status == 416) throw is_changed();
    if (body.filled() < body.wanted()) {
      throw SampleError("the store's answer ended after " + std::to_string(body.filled()) + " of " +
                            std::to_string(body.wanted()) + " bytes",
                        SampleError::Kind::transient);
    }
    keep_etag(reply);
    traffic().from_store += body.wanted();
  }

 private:
  // "W/..." matches nothing in If-Match.
  [[nodiscard]] std::string strong_etag() const {
    const std::lock_guard lock(mutex_);
    return etag_.starts_with('"') ? etag_ : "";
  }
  void keep_etag(const Reply& reply) const {
    const std::lock_guard lock(mutex_);
    if (etag_.empty()) etag_ = reply.etag;
  }

  const std::string url_;
  const Known known_;
  const std::vector<std::byte> head_;
  mutable std::mutex mutex_;
  mutable std::string etag_;  // as its first answer says
};

class HeadBody final : public Body {
 public:
  explicit HeadBody(const std::string& url) : url_(url) {}
  std::vector<std::byte> bytes;

  bool take(const Reply& reply, std::span<const std::byte> more) override {
    refuse_encoding(url_, reply);
    const std::size_t now = std::min(more.size(), kHeadOfObject - bytes.size());
    bytes.insert(bytes.end(), more.begin(), more.begin() + static_cast<std::ptrdiff_t>(now));
    return now == more.size();
  }

 private:
  const std::string& url_;
};

class WholeBody final : public Body {
 public:
  WholeBody(const std::string& url, const std::function<std::span<std::byte>(std::size_t)>& reserve)
      : url_(url), reserve_(reserve) {}

  bool take(const Reply& reply, std::span<const std::byte> bytes) override {
    if (!is_begun_) {
      refuse_encoding(url_, reply);
      if (reply.status == 206) {
        throw SampleError("the store answers a part of what it was asked for whole", SampleError::Kind::transient);
      }
      if (reply.length) {
        begin(*reply.length);
      } else if (reply.transfer.empty()) {
        throw ConfigError(printable(url_) +
                          ": the server says neither how long it is (Content-Length) nor where it ends (chunked), so a "
                          "connection that breaks would look like its end; use a server that does");
      }
    }
    is_begun_ = true;
    if (!is_sized_) {
      if (collected_.size() + bytes.size() > kLargestSampleFile) begin(collected_.size() + bytes.size());
      collected_.insert(collected_.end(), bytes.begin(), bytes.end());
      return true;
    }
    if (bytes.size() > place_.size() - filled_) {
      throw SampleError("the store sends more bytes than it said", SampleError::Kind::transient);
    }
    std::ranges::copy(bytes, place_.begin() + static_cast<std::ptrdiff_t>(filled_));
    filled_ += bytes.size();
    return true;
  }

  // Returns how many bytes there were.
  std::size_t end() {
    if (!is_sized_) {
      begin(collected_.size());
      std::ranges::copy(collected_, place_.begin());
      return place_.size();
    }
    if (filled_ < place_.size()) {
      throw SampleError("the store's answer ended after " + std::to_string(filled_) + " of " +
                            std::to_string(place_.size()) + " bytes",
                        SampleError::Kind::transient);
    }
    return place_.size();
  }

 private:
  void begin(std::uint64_t size) {
    if (size == 0) throw SampleError("is empty");
    if (size > kLargestSampleFile) {
      throw SampleError("has " + std::to_string(size) + " bytes, more than the 1 GiB that a sample may have");
    }
    place_ = reserve_(static_cast<std::size_t>(size));
    is_sized_ = true;
  }

  const std::string& url_;
  const std::function<std::span<std::byte>(std::size_t)>& reserve_;
  bool is_begun_ = false;
  bool is_sized_ = false;
  std::span<std::byte> place_;
  std::size_t filled_ = 0;
  std::vector<std::byte> collected_;  // where the store does not say how many bytes there are
};

class ListBody final : public Body {
 public:
  std::string text;
  bool take(const Reply& /*reply*/, std::span<const std::byte> bytes) override {
    constexpr std::size_t kLongestPage = std::size_t{64} << 20U;
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.size() > kLongestPage) throw SampleError("the store's list has more than 64 MiB in a page");
    return true;
  }
};

OpenFile opened(std::string url, const Known& known, std::string etag, std::vector<std::byte> head) {
  OpenFile file;
  file.size = static_cast<std::size_t>(known.bytes);
  file.remote = std::make_shared<const ObjectFile>(std::move(url), known, std::move(etag), std::move(head));
  return file;
}

}  // namespace

// Per thread rather than per store: readers add it to the totals of their own run, even if two runs share a dataset,
// and know for each read whether it went to the store.
Traffic& traffic() noexcept {
  static thread_local Traffic counted;
  return counted;
}

Traffic take_traffic() noexcept { return std::exchange(traffic(), {}); }

SampleError is_changed() { return SampleError("is not the file that its index was made from; index the data again"); }

OpenFile open_object(const std::string& url) {
  HeadBody body(url);
  const Reply reply = get(url, {range_header(0, kHeadOfObject)}, body);
  if (reply.status == 416) return opened(url, {}, reply.etag, {});  // no bytes
  Known known{.bytes = 0, .identity = identity_of(url, reply)};
  if (reply.status == 206) {
    const auto range = content_range(reply.range);
    if (!range || !range->size || range->begin != 0) {
      throw SampleError("the store does not say how large it is (Content-Range: " + printable(reply.range) + ")",
                        SampleError::Kind::transient);
    }
    known.bytes = *range->size;
  } else if (reply.length) {
    known.bytes = *reply.length;
  } else {
    throw ConfigError(printable(url) +
                      ": the server says neither how large it is nor serves ranges of it; use one that does");
  }
  if (body.bytes.size() != std::min<std::uint64_t>(known.bytes, kHeadOfObject)) {
    throw SampleError("the store's answer ended after " + std::to_string(body.bytes.size()) + " bytes",
                      SampleError::Kind::transient);
  }
  return opened(url, known, reply.etag, std::move(body.bytes));
}

OpenFile open_object(const std::string& url, const Known& known) { return opened(url, known, {}, {}); }

// A weak ETag ("W/...") and a time may be those of other bytes, too: an older file that is put back is "not modified".
std::optional<std::string> read_object(const std::string& url,
                                       const std::function<std::span<std::byte>(std::size_t)>& reserve,
                                       const std::string& version) {
  WholeBody body(url, reserve);
  std::vector<std::string> headers;
  if (!version.empty()) headers.push_back("If-None-Match: " + version);
  const Reply reply = get(url, headers, body);
  if (reply.status == 304) {
    // Else there would be nothing to take in its place.
    if (!version.empty()) return std::nullopt;
    throw SampleError("the store says that nothing has changed (304), which was not asked",
                      SampleError::Kind::transient);
  }
  traffic().from_store += body.end();
  return reply.etag.starts_with('"') ? reply.etag : "";
}

void list_objects(const std::string& prefix, bool is_deep, const std::function<void(std::string_view)>& found) {
  const std::string below = object_name(prefix).key;
  std::string token;
  std::unordered_set<std::string> seen;  // a token that comes again would list for ever
  do {
    std::string query;
    if (!token.empty()) query = "continuation-token=" + percent_encoded(token) + "&";
    if (!is_deep) query += "delimiter=%2F&";
    query += "encoding-type=url&list-type=2&prefix=" + percent_encoded(below);
    const std::string page = read_patiently(prefix, [&] {
      ListBody body;
      (void)get_list(prefix, query, body);
      return std::move(body.text);
    });
    const std::optional<ListPage> read = read_list_page(page, below, found);
    if (!read) {
      throw ConfigError(printable(prefix) +
                        ": what answers there is no S3: its list of objects is no ListBucketResult");
    }
    if (read->goes_on && (read->token.empty() || !seen.insert(read->token).second)) {
      throw ConfigError(printable(prefix) + ": the list of the bucket \"" + object_name(prefix).host +
                        "\" has more objects and the store does not say how to get them (NextContinuationToken); "
                        "it does not speak ListObjectsV2 as Amazon's S3 does");
    }
    token = read->token;
  } while (!token.empty());
}

}  // namespace forebay::store
