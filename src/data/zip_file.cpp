// Reads ZIP archives, as NumPy writes them (.npz): the directory at the end, then members, stored
// or deflated. Field names and offsets follow PKWARE's APPNOTE 6.3, sections 4.3 and 4.5.
//
// The constructor finds the end record and, from it, the directory, and checks every entry. It
// refuses sizes that deflate cannot reach and members that overlap, so that afterwards memory can
// be allocated by the size of a member. read() reads a member into the caller's memory, and
// verifies its CRC-32 if it reads the whole. It can also read just the beginning, such as an
// array's header.
//
// Encryption, methods other than deflate, and archives in several files are not supported. Zip64
// is, because large arrays need it. After construction nothing changes, so any thread may read.

#include "zip_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <forebay/error.hpp>
#include <limits>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "file_nature.hpp"

namespace forebay::data {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kDirectoryEntry = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kWideEnd = 0x06064b50;
constexpr std::uint32_t kWideLocator = 0x07064b50;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kZipEntryBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kWideEndBytes = 56;
constexpr std::size_t kLocatorBytes = 20;
constexpr std::size_t kLongestComment = 65535;
constexpr std::uint16_t kWideExtra = 1;
constexpr std::uint16_t kEncrypted = 1 | 1U << 6U | 1U << 13U;
constexpr std::uint32_t kElsewhere = 0xffffffff;  // the number is in a Zip64 field
// Chosen: a larger directory is damage, or not that of a dataset.
constexpr std::uint64_t kLargestDirectory = std::uint64_t{64} << 20U;
constexpr std::uint64_t kMostInflation = 1032;  // the limit of deflate

// Little-endian, at any alignment.
std::uint64_t number_at(std::span<const std::byte> bytes, std::size_t at, std::size_t size) noexcept {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < size; ++i) number |= std::to_integer<std::uint64_t>(bytes[at + i]) << 8 * i;
  return number;
}

SampleError zip_refusal(std::uint64_t at, const std::string& what) {
  return SampleError("zip: byte " + std::to_string(at) + ": " + what);
}
SampleError member_refusal(const ZipMember& member, const std::string& what) {
  return SampleError("zip: member \"" + printable(member.name) + "\" at byte " + std::to_string(member.header) + ": " +
                     what);
}

// Reads from an entry's extra field the numbers that did not fit into 32 bits. The Zip64 field
// (4.5.3) has only those of the numbers that are 0xffffffff in the entry, in this order.
void widen(std::span<const std::byte> extra, bool has_offset, ZipMember& member) {
  while (extra.size() >= 4) {
    const auto size = static_cast<std::size_t>(number_at(extra, 2, 2));
    if (size > extra.size() - 4) break;
    std::span<const std::byte> rest = extra.subspan(4, size);
    const bool is_wide = number_at(extra, 0, 2) == kWideExtra;
    extra = extra.subspan(4 + size);
    if (!is_wide) continue;
    const auto take = [&](std::uint64_t& number) {
      if (number != kElsewhere) return;
      if (rest.size() < 8) throw member_refusal(member, "damaged: its Zip64 field is too short");
      number = number_at(rest, 0, 8);
      rest = rest.subspan(8);
    };
    take(member.bytes);
    take(member.packed);
    if (has_offset) take(member.header);
    return;
  }
}

// Callers allocate memory by the size that the directory claims for a member, so impossible sizes
// are refused before anything is read.
void require_possible_size(const ZipMember& member) {
  if ((member.flags & kEncrypted) != 0) return;  // refused when it is read
  const auto sizes = [&](const char* between) {
    return std::to_string(member.packed) + between + std::to_string(member.bytes);
  };
  if (member.method == 0 && member.packed != member.bytes) {
    throw member_refusal(member, "damaged: " + sizes(" stored bytes are to be "));
  }
  if (member.method == Z_DEFLATED && member.bytes / kMostInflation > member.packed) {
    throw member_refusal(member, sizes(" bytes cannot be ") + " inflated");
  }
}

// Owns the memory of inflate. Negative MAX_WBITS means raw deflate, because ZIP does not have
// zlib's header.
struct Inflater {
  z_stream stream{};

  Inflater() {
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw out_of_memory("to inflate a member of a zip file");
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
};

}  // namespace

bool starts_as_zip(std::span<const std::byte> head) noexcept {
  return head.size() >= 4 && number_at(head, 0, 4) == kLocalHeader;
}

ZipFile::ZipFile(const OpenFile& file) : file_(file) { read_members(find_directory()); }

// Few archives have a comment, and some datasets have one archive per sample. So the longest
// possible comment is read only if the end record is not at the very end.
ZipFile::Directory ZipFile::find_directory() const {
  for (const std::size_t bytes : {kEndBytes, kEndBytes + kLongestComment}) {
    if (const auto place = find_directory(std::min(file_.size, bytes))) return *place;
  }
  std::vector<std::byte> head(std::min<std::size_t>(file_.size, 512));
  read_at(file_, 0, head);
  throw zip_refusal(file_.size, "the archive ends without its directory, probably cut short" + nature_as_cause(head));
}

// Searches backwards for the end record: the one whose comment fills the rest of the file.
std::optional<ZipFile::Directory> ZipFile::find_directory(std::size_t bytes) const {
  const std::uint64_t begin = file_.size - bytes;
  std::vector<std::byte> tail(bytes);
  read_at(file_, begin, tail);
  // The signature may also occur in a comment or in data, so only a record whose comment ends with
  // the file counts.
  for (std::size_t i = 0; i + kEndBytes <= bytes; ++i) {
    const std::size_t at = bytes - kEndBytes - i;
    const auto end = std::span(tail).subspan(at);
    if (number_at(end, 0, 4) != kEnd || number_at(end, 20, 2) != i) continue;
    Directory place{.begin = number_at(end, 16, 4), .bytes = number_at(end, 12, 4), .members = number_at(end, 10, 2)};
    const bool is_wide = place.begin == kElsewhere || place.bytes == kElsewhere || place.members == 0xffff;
    if (is_wide) place = wide_directory(begin + at);
    const std::uint64_t part = number_at(end, 4, 2);
    if ((part != 0 && !(is_wide && part == 0xffff)) || number_at(end, 8, 2) != number_at(end, 10, 2)) {
      throw zip_refusal(begin + at, "an archive in several parts");
    }
    if (place.begin > begin + at || place.bytes > begin + at - place.begin || place.bytes > kLargestDirectory ||
        place.members > place.bytes / kZipEntryBytes) {
      throw zip_refusal(begin + at, "damaged: a directory of " + std::to_string(place.members) + " members in " +
                                        std::to_string(place.bytes) + " bytes at byte " + std::to_string(place.begin));
    }
    return place;
  }
  return std::nullopt;
}

// The Zip64 locator is directly before the end record, and says where the Zip64 end record is.
ZipFile::Directory ZipFile::wide_directory(std::uint64_t end) const {
  std::array<std::byte, kLocatorBytes> locator{};
  std::array<std::byte, kWideEndBytes> wide{};
  const auto damaged = [&] { return zip_refusal(end, "damaged: its Zip64 directory is not where it must be"); };
  if (end < kLocatorBytes) throw damaged();
  read_at(file_, end - kLocatorBytes, locator);
  const std::uint64_t at = number_at(locator, 8, 8);
  if (number_at(locator, 0, 4) != kWideLocator || at > end || end - at < kWideEndBytes) throw damaged();
  read_at(file_, at, wide);
  if (number_at(wide, 0, 4) != kWideEnd) throw damaged();
  return {.begin = number_at(wide, 48, 8), .bytes = number_at(wide, 40, 8), .members = number_at(wide, 32, 8)};
}

// Also keeps the directory as it is, for the hashes of an index.
void ZipFile::read_members(const Directory& place) {
  begin_of_directory_ = place.begin;
  directory_.resize(place.bytes);
  read_at(file_, place.begin, directory_);
  std::span<const std::byte> rest = directory_;
  for (std::uint64_t i = 0; i < place.members; ++i) {
    const std::uint64_t at = place.begin + place.bytes - rest.size();
    if (rest.size() < kZipEntryBytes || number_at(rest, 0, 4) != kDirectoryEntry) {
      throw zip_refusal(at, "damaged: entry " + std::to_string(i) + " of the directory is none");
    }
    const auto name = static_cast<std::size_t>(number_at(rest, 28, 2));
    const auto extra = static_cast<std::size_t>(number_at(rest, 30, 2));
    const auto all = kZipEntryBytes + name + extra + static_cast<std::size_t>(number_at(rest, 32, 2));
    if (all > rest.size()) throw zip_refusal(at, "damaged: entry " + std::to_string(i) + " reaches past the directory");
    ZipMember member{.name = {reinterpret_cast<const char*>(rest.data()) + kZipEntryBytes, name},
                     .header = number_at(rest, 42, 4),
                     .packed = number_at(rest, 20, 4),
                     .bytes = number_at(rest, 24, 4),
                     .sum = static_cast<std::uint32_t>(number_at(rest, 16, 4)),
                     .method = static_cast<std::uint16_t>(number_at(rest, 10, 2)),
                     .flags = static_cast<std::uint16_t>(number_at(rest, 8, 2))};
    widen(rest.subspan(kZipEntryBytes + name, extra), true, member);
    require_possible_size(member);
    members_.push_back(std::move(member));
    rest = rest.subspan(all);
  }
  // Zip bombs consist of members that share bytes.
  std::vector<const ZipMember*> by_place;
  for (const ZipMember& member : members_) by_place.push_back(&member);
  std::ranges::sort(by_place, {}, &ZipMember::header);
  for (std::size_t i = 0; i < by_place.size(); ++i) {
    const ZipMember& member = *by_place[i];
    const std::uint64_t end = i + 1 < by_place.size() ? by_place[i + 1]->header : place.begin;
    const std::uint64_t headers = kLocalBytes + member.name.size();
    if (member.header > end || end - member.header < headers || end - member.header - headers < member.packed) {
      throw member_refusal(member, "its " + std::to_string(member.packed) +
                                       " bytes overlap another member or the directory at byte " + std::to_string(end));
    }
  }
}

// Separate from the constructor, because unreadable members do no harm if nobody wants them.
void ZipFile::require_readable(const ZipMember& member) {
  if ((member.flags & kEncrypted) != 0) throw member_refusal(member, "it is encrypted");
  if (member.method != 0 && member.method != Z_DEFLATED) {
    throw member_refusal(member,
                         "compressed by method " + std::to_string(member.method) + "; stored and deflated are read");
  }
}

// The local header has an extra field of its own, whose length may differ from the directory's.
std::uint64_t ZipFile::contents_at(const ZipMember& member) const {
  require_readable(member);
  std::array<std::byte, kLocalBytes> header{};
  read_at(file_, member.header, header);
  const std::uint64_t name = number_at(header, 26, 2);
  const std::uint64_t begin = member.header + kLocalBytes + name + number_at(header, 28, 2);
  if (number_at(header, 0, 4) != kLocalHeader || name != member.name.size()) {
    throw member_refusal(member, "damaged: its header is not what the directory says");
  }
  const bool fits = begin <= begin_of_directory_ && member.packed <= begin_of_directory_ - begin;
  if (!fits) throw member_refusal(member, "damaged: it reaches past byte " + std::to_string(begin_of_directory_));
  return begin;
}

std::uint64_t ZipFile::stored_at(const ZipMember& member) const {
  if (member.method != 0) throw member_refusal(member, "it is compressed");
  return contents_at(member);
}

// A part (to.size() < bytes) has no checksum to compare.
void ZipFile::read(const ZipMember& member, std::span<std::byte> to) const {
  if (member.method == 0) {
    read_at(file_, stored_at(member), to);
  } else {
    inflate(member, contents_at(member), to);
  }
  if (to.size() < member.bytes) return;
  const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(to.data()), to.size());
  if (sum != member.sum) throw member_refusal(member, "damaged: its checksum is wrong");
}

// If the whole member is wanted, inflating continues into `beyond` until the stream ends, to detect
// a member that is longer than the directory says.
void ZipFile::inflate(const ZipMember& member, std::uint64_t at, std::span<std::byte> to) const {
  constexpr std::size_t kInput = std::size_t{256} << 10U;
  Inflater inflater;
  z_stream& stream = inflater.stream;
  std::vector<std::byte> input(static_cast<std::size_t>(std::min<std::uint64_t>(kInput, member.packed)));
  std::uint64_t left = member.packed;
  std::size_t filled = 0;
  const bool is_all = to.size() == member.bytes;
  std::array<std::byte, 1> beyond{};  // receives any contents beyond what the directory says
  int result = Z_OK;
  while (result == Z_OK && (filled < to.size() || is_all)) {
    if (stream.avail_in == 0 && left > 0) {
      const auto piece = std::span(input).first(static_cast<std::size_t>(std::min<std::uint64_t>(input.size(), left)));
      read_at(file_, at + (member.packed - left), piece);
      left -= piece.size();
      stream.next_in = reinterpret_cast<Bytef*>(piece.data());
      stream.avail_in = static_cast<uInt>(piece.size());
    }
    const auto place = filled < to.size() ? to.subspan(filled) : std::span<std::byte>(beyond);
    const std::size_t room = std::min<std::size_t>(place.size(), std::numeric_limits<uInt>::max());
    stream.next_out = reinterpret_cast<Bytef*>(place.data());
    stream.avail_out = static_cast<uInt>(room);
    result = ::inflate(&stream, Z_NO_FLUSH);
    const std::size_t made = room - stream.avail_out;
    if (filled == to.size() && made > 0) throw member_refusal(member, "damaged: it is longer than the directory says");
    filled += made;
  }
  if (filled == to.size() && (result == Z_STREAM_END || !is_all)) return;
  throw member_refusal(member, "damaged: of its " + std::to_string(member.bytes) + " bytes " + std::to_string(filled) +
                                   " can be inflated" +
                                   (stream.msg == nullptr ? "" : std::string(" (") + stream.msg + ")"));
}

}  // namespace forebay::data
