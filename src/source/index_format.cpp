#include "index_format.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <forebay/error.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay {
namespace {

constexpr std::array<char, 8> kMagic{'F', 'o', 'r', 'e', 'b', 'a', 'y', 'I'};
// Raised whenever the meaning of the bytes changes.
constexpr std::uint32_t kVersion = 1;

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t reserved = 0;
  std::uint64_t record_bytes = 0;
  std::uint64_t content_bytes = 0;
  std::uint64_t checksum = 0;  // XXH3-64 of all that follows, seeded with the sizes' sum
};
static_assert(std::has_unique_object_representations_v<Header> && sizeof(Header) == 40);

std::uint64_t checksum(const Header& header, std::span<const std::byte> rest) {
  const std::uint64_t seed = header.record_bytes * 31 + header.content_bytes;
  return XXH3_64bits_withSeed(rest.data(), rest.size(), seed);
}

void write_record(IndexWriter& writer, const IndexRecord& record) {
  writer.text(record.origin.format);
  writer.text(record.origin.path);
  writer.text(record.origin.labels);
  writer.texts(record.origin.classes);
  writer.value<std::uint8_t>(record.origin.difficult ? 1 : 0);
  writer.value(record.origin.source_hash);
  writer.text(record.root);
  writer.value<std::uint64_t>(record.skipped.size());
  for (const auto& [path, reason, bad] : record.skipped) {
    writer.text(path);
    writer.text(reason);
    writer.value<std::uint8_t>(bad ? 1 : 0);
  }
  writer.value(record.counts.images);
  writer.value(record.counts.annotations);
  writer.value(record.counts.objects);
}

IndexRecord read_record(IndexReader reader) {
  IndexRecord record;
  record.origin.format = reader.text();
  record.origin.path = reader.text();
  record.origin.labels = reader.text();
  record.origin.classes = reader.texts();
  record.origin.difficult = reader.flag();
  record.origin.source_hash = reader.value<std::uint64_t>();
  record.root = reader.text();
  // Grows as entries are found, because a damaged count must not decide how much is allocated.
  for (auto left = reader.value<std::uint64_t>(); left > 0; --left) {
    std::string path = reader.text();
    std::string reason = reader.text();
    record.skipped.push_back({.path = std::move(path), .reason = std::move(reason), .bad = reader.flag()});
  }
  record.counts.images = reader.value<std::uint64_t>();
  record.counts.annotations = reader.value<std::uint64_t>();
  record.counts.objects = reader.value<std::uint64_t>();
  reader.expect_end();
  return record;
}

bool begins_as_index(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof(Header) && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

}  // namespace

void IndexWriter::text(std::string_view text) {
  value<std::uint64_t>(text.size());
  const auto bytes = std::as_bytes(std::span(text));
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void IndexWriter::texts(const std::vector<std::string>& texts) {
  value<std::uint64_t>(texts.size());
  for (const auto& each : texts) text(each);
}

std::span<const std::byte> IndexReader::take(std::size_t bytes) {
  require_index(bytes <= bytes_.size(), "it ends too early");
  const auto taken = bytes_.first(bytes);
  bytes_ = bytes_.subspan(bytes);
  return taken;
}

std::size_t IndexReader::counted(std::size_t size) {
  const auto count = value<std::uint64_t>();
  require_index(count <= bytes_.size() / size, "a count is larger than what follows");
  return count;
}

bool IndexReader::flag() {
  const auto flag = value<std::uint8_t>();
  require_index(flag <= 1, "a flag is neither 0 nor 1");
  return flag == 1;
}

std::string IndexReader::text() {
  const auto bytes = take(counted(1));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string> IndexReader::texts() {
  const auto count = counted(sizeof(std::uint64_t));
  std::vector<std::string> texts;
  texts.reserve(count);
  for (std::size_t i = 0; i < count; ++i) texts.push_back(text());
  return texts;
}

void IndexReader::expect_end() const { require_index(bytes_.empty(), "more follows than it should"); }

void require_index(bool holds, const char* what) {
  if (!holds) throw Error(std::string("a damaged index: ") + what + "; delete it to have it built again");
}

std::vector<std::byte> seal_index(const IndexRecord& record, std::span<const std::byte> content) {
  IndexWriter writer;
  write_record(writer, record);
  std::vector<std::byte> rest = writer.take();
  Header header;
  header.record_bytes = rest.size();
  header.content_bytes = content.size();
  rest.insert(rest.end(), content.begin(), content.end());
  header.checksum = checksum(header, rest);

  std::vector<std::byte> bytes(sizeof(header) + rest.size());
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::ranges::copy(rest, bytes.begin() + sizeof(header));
  return bytes;
}

OpenedIndex open_index(std::span<const std::byte> bytes) {
  if (!begins_as_index(bytes)) throw Error("not an index of Forebay");
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kVersion) {
    throw Error("an index of version " + std::to_string(header.version) + ", this Forebay reads version " +
                std::to_string(kVersion) + "; delete it to have it built again");
  }
  const auto rest = bytes.subspan(sizeof header);
  const bool sizes_fit =
      header.record_bytes <= rest.size() && header.content_bytes == rest.size() - header.record_bytes;
  require_index(sizes_fit && header.reserved == 0, "its size is not what its header says");
  require_index(checksum(header, rest) == header.checksum, "its checksum does not match");
  return {.record = read_record(IndexReader(rest.first(header.record_bytes))),
          .content = rest.subspan(header.record_bytes)};
}

std::span<const std::byte> index_content(std::span<const std::byte> bytes) noexcept {
  if (!begins_as_index(bytes)) return bytes;
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header.content_bytes <= bytes.size() ? bytes.last(header.content_bytes) : bytes;
}

}  // namespace forebay
