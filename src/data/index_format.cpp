// The bytes of a serialized index; index_format.hpp describes its parts. seal_index writes header,
// sums, record, content and state into one vector, in this order. Header and sums are filled in
// last, when everything that they cover is there.
//
// An index is opened by its header: the header's own checksum is verified before any size in it is
// believed. Then the sizes must add up to exactly the size of the file, and the sums and the record
// are verified against the header. index_image.cpp verifies content and state when they are used.

#include "index_format.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <forebay/error.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "file_nature.hpp"

namespace forebay::data {
namespace {

constexpr std::array<char, 8> kMagic{'F', 'o', 'r', 'e', 'b', 'a', 'y', 'I'};
// Raised whenever the meaning of the bytes changes. Older indexes are not read: the error says to
// delete the file, and it is built again.
constexpr std::uint32_t kVersion = 12;

// Written as it is in memory. It must have no padding, as the assertion checks, because the
// checksum would otherwise cover indeterminate bytes.
struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t chunk_bytes = kIndexChunk;
  std::uint64_t record_bytes = 0;
  std::uint64_t content_bytes = 0;
  std::uint64_t state_bytes = 0;
  std::uint64_t record_sum = 0;   // XXH3-64 of the record
  std::uint64_t state_sum = 0;    // and of the state
  std::uint64_t fingerprint = 0;  // XXH3-64 of the chunks' checksums, seeded with content_bytes
  std::uint64_t header_sum = 0;   // XXH3-64 of the header up to here
};
static_assert(std::has_unique_object_representations_v<Header> && sizeof(Header) == kIndexHeader);

std::uint64_t sum_of(const Header& header) { return XXH3_64bits(&header, offsetof(Header, header_sum)); }

// Seeded with the size, so that contents of different sizes differ even if the sums of their chunks
// are equal.
std::uint64_t fingerprint_of(std::span<const std::byte> sums, std::uint64_t content_bytes) {
  return XXH3_64bits_withSeed(sums.data(), sums.size(), content_bytes);
}

std::size_t chunks_of(std::size_t content_bytes) {
  return content_bytes / kIndexChunk + (content_bytes % kIndexChunk != 0 ? 1 : 0);
}

// The structured binding must name every member, so a new one cannot be forgotten: it would not
// compile.
template <typename Codec, typename Record>
void code_record(Codec& codec, Record& record) {
  auto& [origin, root, skipped, counts, modified, spreads] = record;
  codec(origin.format, origin.path, origin.labels, origin.classes, origin.difficult, origin.samples, origin.fields,
        origin.source_hash);
  auto& [frames, stride, start, every, short_videos, segment, unit] = origin.clip;
  codec(frames, stride, start, every, short_videos, segment, unit);
  codec(root, skipped, counts.images, counts.annotations, counts.objects, modified, spreads);
}

}  // namespace

std::span<const std::byte> IndexReader::take(std::uint64_t bytes) {
  if (bytes > bytes_.size()) throw damaged_index(origin_, "it ends too early");
  const auto taken = bytes_.first(bytes);
  bytes_ = bytes_.subspan(bytes);
  return taken;
}

// A byte other than 0 and 1 in a bool is undefined behaviour, so it is not copied into one.
void IndexReader::get(bool& flag) {
  std::uint8_t value = 0;
  get(value);
  if (value > 1) throw damaged_index(origin_, "a flag is neither 0 nor 1");
  flag = value == 1;
}

void IndexReader::get(std::string& text) {
  std::uint64_t size = 0;
  get(size);
  const auto bytes = take(size);
  text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void IndexReader::expect_end() const {
  if (!bytes_.empty()) throw damaged_index(origin_, "bytes are left over");
}

Error damaged_index(std::string_view origin, std::string_view what) {
  Error error(std::string(origin).append(": a damaged index: ").append(what) + "; delete it to have it built again");
  return error;
}

std::uint64_t chunk_sum(std::span<const std::byte> chunk) noexcept { return XXH3_64bits(chunk.data(), chunk.size()); }

// The caller promises `content_bytes` before anything is written, so that the vector gets its final
// size at once: growing an index of gigabytes would need twice the memory for a moment.
std::vector<std::byte> seal_index(const IndexRecord& record, std::size_t content_bytes,
                                  const std::function<void(IndexWriter&)>& write, std::span<const std::byte> state) {
  IndexWriter record_writer;
  code_record(record_writer, record);
  const std::vector<std::byte> record_bytes = record_writer.take();
  Header header;
  header.record_bytes = record_bytes.size();
  header.content_bytes = content_bytes;
  header.state_bytes = state.size();
  header.record_sum = chunk_sum(record_bytes);
  header.state_sum = chunk_sum(state);

  const std::size_t sums_bytes = chunks_of(content_bytes) * sizeof(std::uint64_t);
  const std::size_t content_at = sizeof(header) + sums_bytes + record_bytes.size();
  std::vector<std::byte> bytes;
  bytes.reserve(content_at + content_bytes + state.size());
  bytes.resize(sizeof(header) + sums_bytes);
  bytes.insert(bytes.end(), record_bytes.begin(), record_bytes.end());
  IndexWriter writer(std::move(bytes));
  write(writer);
  bytes = writer.take();
  if (bytes.size() != content_at + content_bytes) throw Error("an index was written with another size than promised");

  bytes.insert(bytes.end(), state.begin(), state.end());

  const auto content = std::span<const std::byte>(bytes).subspan(content_at, content_bytes);
  const auto sums = std::span(bytes).subspan(sizeof(header), sums_bytes);
  for (std::size_t chunk = 0; chunk < chunks_of(content_bytes); ++chunk) {
    const std::size_t begin = chunk * kIndexChunk;
    const std::uint64_t sum = chunk_sum(content.subspan(begin, std::min(kIndexChunk, content_bytes - begin)));
    std::memcpy(sums.data() + chunk * sizeof(sum), &sum, sizeof(sum));
  }
  header.fingerprint = fingerprint_of(sums, content_bytes);
  header.header_sum = sum_of(header);
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

// Compares only the magic number: an index of another version is an index, too, and gets its own
// message.
bool begins_as_index(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

// Each part is subtracted from what is left rather than summed, because a sum of damaged sizes
// could overflow to the right result.
IndexLayout read_index_layout(std::span<const std::byte> begin, std::size_t size, std::string_view origin) {
  if (!begins_as_index(begin)) throw Error(std::string(origin) + ": not an index of Forebay" + nature_as_cause(begin));
  Header header;
  if (begin.size() < sizeof(header)) throw damaged_index(origin, "it ends inside its header");
  std::memcpy(&header, begin.data(), sizeof(header));
  if (header.version != kVersion) {
    throw Error(std::string(origin) + ": an index of version " + std::to_string(header.version) +
                ", this Forebay reads version " + std::to_string(kVersion) + "; delete it to have it built again");
  }
  if (header.header_sum != sum_of(header) || header.chunk_bytes != kIndexChunk) {
    throw damaged_index(
        origin, "the checksum of its header, bytes 0 to " + std::to_string(sizeof(header) - 1) + ", does not match");
  }
  const std::size_t sums_bytes = chunks_of(header.content_bytes) * sizeof(std::uint64_t);
  std::size_t left = size - sizeof(header);
  const bool sizes_fit = std::ranges::all_of(std::array<std::uint64_t, 4>{header.content_bytes, header.record_bytes,
                                                                          sums_bytes, header.state_bytes},
                                             [&](std::uint64_t part) {
                                               const bool fits = part <= left;
                                               left -= fits ? part : 0;
                                               return fits;
                                             }) &&
                         left == 0;
  if (!sizes_fit) {
    throw damaged_index(origin, "it has " + std::to_string(size) + " bytes, which is not what its header says");
  }
  IndexLayout layout;
  layout.sums_at = sizeof(header);
  layout.sums_bytes = sums_bytes;
  layout.record_at = layout.sums_at + sums_bytes;
  layout.record_bytes = header.record_bytes;
  layout.content_at = layout.record_at + layout.record_bytes;
  layout.content_bytes = header.content_bytes;
  layout.state_at = layout.content_at + layout.content_bytes;
  layout.state_bytes = header.state_bytes;
  layout.record_sum = header.record_sum;
  layout.state_sum = header.state_sum;
  layout.fingerprint = header.fingerprint;
  layout.identity = header.header_sum;
  return layout;
}

IndexRecord read_index_record(const IndexLayout& layout, std::span<const std::byte> sums,
                              std::span<const std::byte> record, std::string_view origin) {
  if (fingerprint_of(sums, layout.content_bytes) != layout.fingerprint || chunk_sum(record) != layout.record_sum) {
    throw damaged_index(origin, "between bytes " + std::to_string(layout.sums_at) + " and " +
                                    std::to_string(layout.content_at - 1) + " its checksum does not match");
  }
  IndexReader reader(record, origin);
  IndexRecord read;
  code_record(reader, read);
  reader.expect_end();
  return read;
}

}  // namespace forebay::data
