// Reads the headers of tar archives, member by member, without their contents: POSIX ustar and pax,
// and GNU tar's long names, base-256 numbers and sparse files.
//
// next() reads headers until one belongs to a member. A long name ('L'), a long link ('K') and pax
// headers ('x' for the next member, 'g' for all that follow) precede it as members of their own.
// The caller gets the member's name, its kind and where its contents are. A block of zeros ends the
// archive; only problem_of_end() looks at what follows.
//
// A header with a wrong checksum ends the file, because without its length nothing says where the
// next header is.

#include "tar_file.hpp"

#include <algorithm>
#include <charconv>

#include "base/text.hpp"

namespace forebay::data {
namespace {

constexpr std::size_t kTarBlock = 512;

// Offsets of header fields. POSIX.1-1988 has name 0, mode 100, uid 108, gid 116, size 124, mtime
// 136, checksum 148, type 156, link 157, magic 257, prefix 345.
constexpr std::size_t kTarSize = 124;
constexpr std::size_t kTarSum = 148;
constexpr std::size_t kTarType = 156;
constexpr std::size_t kTarMagic = 257;
constexpr std::size_t kTarPrefix = 345;

bool is_zero(std::span<const char> block) noexcept {
  return std::ranges::all_of(block, [](char c) { return c == 0; });
}

// Whether the header's checksum is right, with its own field counted as blanks. Some programs add
// signed bytes, so both sums are accepted.
bool has_sum(std::span<const char> block) noexcept {
  std::int64_t of_unsigned = 0;
  std::int64_t of_signed = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i) {
    const char c = i >= kTarSum && i < kTarSum + 8 ? ' ' : block[i];
    of_unsigned += static_cast<unsigned char>(c);
    of_signed += static_cast<signed char>(c);
  }
  std::int64_t sum = 0;
  std::size_t at = kTarSum;
  while (at < kTarSum + 8 && block[at] == ' ') ++at;
  const auto [end, error] = std::from_chars(block.data() + at, block.data() + kTarSum + 8, sum, 8);
  return error == std::errc() && (sum == of_unsigned || sum == of_signed);
}

}  // namespace

// Recognised by the checksum, because archives from before POSIX have no magic number.
bool starts_as_tar(std::span<const std::byte> head) noexcept {
  if (head.size() < kTarBlock) return false;
  const std::span block(reinterpret_cast<const char*>(head.data()), kTarBlock);
  return !is_zero(block) && has_sum(block);
}

// The text of a field. One that fills its field has no terminating NUL.
std::string TarReader::field(std::size_t at, std::size_t length) const {
  const std::string_view text(block_.data() + at, length);
  return std::string(text.substr(0, text.find('\0')));
}

// Octal digits, perhaps with blanks around them, or, if the highest bit is set, a number in base
// 256, as GNU tar writes large ones. An empty field, which some programs leave, is 0.
std::uint64_t TarReader::number(std::size_t at, std::size_t length) const {
  const auto fail = [&] { return at_byte(begins_ + at, "the size of a tar member is no number"); };
  if ((static_cast<unsigned char>(block_[at]) & 0x80U) != 0) {
    std::uint64_t value = static_cast<unsigned char>(block_[at]) & 0x7FU;
    for (std::size_t i = 1; i < length; ++i) {
      if (value >> 55U != 0) throw fail();  // too large, or negative
      value = (value << 8U) | static_cast<unsigned char>(block_[at + i]);
    }
    return value;
  }
  const std::string text = field(at, length);
  const auto first = std::min(text.find_first_not_of(' '), text.size());
  const auto last = std::min(text.find(' ', first), text.size());
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + first, text.data() + last, value, 8);
  const bool is_empty = first == text.size();
  if (!is_empty && (error != std::errc() || end != text.data() + last)) throw fail();
  return value;
}

// In order of precedence: GNU's long name, pax's path, the header's own name. GNU's magic is "ustar
// " with a blank, and its headers have other fields where ustar has the prefix.
std::string TarReader::name() const {
  using namespace std::string_view_literals;
  if (!long_name_.empty()) return long_name_;
  if (const std::string* path = header("path")) return *path;
  const std::string name = field(0, 100);
  const bool is_ustar = std::string_view(block_.data() + kTarMagic, 6) == "ustar\0"sv;
  const std::string prefix = is_ustar ? field(kTarPrefix, 155) : "";
  return prefix.empty() ? name : prefix + "/" + name;
}

// One block of zeros is enough to stop: GNU tar writes two, other programs one.
bool TarReader::read_header() {
  begins_ = position_;
  if (position_ >= bytes_.size()) return false;
  if (!bytes_.has(position_, kTarBlock)) throw at_byte(position_, "it ends within the header of a tar member");
  const std::string_view block = bytes_.text({.offset = position_, .length = kTarBlock});
  std::ranges::copy(block, block_.begin());
  if (is_zero(block_)) return false;
  if (!has_sum(block_)) throw at_byte(position_, "no header of a tar member: its checksum is wrong");
  position_ += kTarBlock;
  return true;
}

// Contents are padded to whole blocks.
Extent TarReader::take(std::uint64_t length) {
  const Extent contents{.offset = position_, .length = length};
  if (!bytes_.has(position_, length)) {
    throw at_byte(begins_, "it ends within a tar member of " + std::to_string(length) + " bytes");
  }
  position_ += (length + kTarBlock - 1) / kTarBlock * kTarBlock;
  return contents;
}

// In GNU tar's old format, the header of a sparse file is followed by blocks with the rest of its
// map.
void TarReader::skip_sparse_maps() {
  constexpr std::size_t kIsContinued = 482;
  constexpr std::size_t kMapIsContinued = 504;
  for (bool is_continued = block_[kIsContinued] != 0; is_continued; position_ += kTarBlock) {
    is_continued = bytes_.at(position_ + kMapIsContinued, 1)[0] != std::byte{0};
  }
}

// Parses lines of "LENGTH KEY=VALUE", where LENGTH is that of the whole line. Zeros may follow
// them.
TarReader::Headers TarReader::parse(std::string_view text, std::uint64_t at) {
  Headers headers;
  while (!text.empty() && text.front() != '\0') {
    std::size_t length = 0;
    const auto [blank, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto begin = static_cast<std::size_t>(blank - text.data()) + 1;
    const std::size_t equals = text.find('=');
    if (error != std::errc() || length > text.size() || begin >= length || *blank != ' ' || equals < begin ||
        equals >= length || text[length - 1] != '\n') {
      throw at_byte(at, "a pax header that is none");
    }
    headers[std::string(text.substr(begin, equals - begin))] = text.substr(equals + 1, length - equals - 2);
    text = text.substr(length);
  }
  return headers;
}

// A member's own headers take precedence over global ones.
const std::string* TarReader::header(std::string_view key) const {
  for (const Headers* headers : {&headers_, &global_headers_}) {
    const auto found = headers->find(key);
    if (found != headers->end()) return &found->second;
  }
  return nullptr;
}

// Whether the member is sparse, in GNU tar's format or in one of the three versions for pax.
bool TarReader::is_sparse(char type) const {
  constexpr std::string_view kSparse = "GNU.sparse.";
  const auto has_one = [&](const Headers& headers) {
    const auto found = headers.lower_bound(kSparse);
    return found != headers.end() && found->first.starts_with(kSparse);
  };
  return type == 'S' || has_one(headers_) || has_one(global_headers_);
}

// A damaged pax header makes the next member unusable, because it may have given that another name
// or size. The position in the archive is still known.
bool TarReader::next(TarMember& member) {
  constexpr std::uint64_t kLongestHeader = std::uint64_t{1} << 20U;
  long_name_.clear();
  headers_.clear();
  problem_.clear();
  while (read_header()) {
    const char type = block_[kTarType];
    const auto text = [&] {
      const Extent extent = take(number(kTarSize, 12));
      if (extent.length > kLongestHeader) throw at_byte(begins_, "a header of a tar member has more than 1 MiB");
      return bytes_.text(extent);
    };
    if (type == 'L') {
      const std::string_view name = text();
      long_name_ = name.substr(0, name.find('\0'));
    } else if (type == 'K') {
      (void)text();
    } else if (type == 'x' || type == 'X') {
      const std::string_view lines = text();
      try {
        headers_ = parse(lines, begins_);
      } catch (const SampleError& error) {
        problem_ = error.what();
      }
    } else if (type == 'g') {
      for (auto& [key, value] : parse(text(), begins_)) global_headers_[key] = value;
    } else {
      std::uint64_t size = number(kTarSize, 12);
      if (const std::string* given = header("size")) {
        const auto stated = parse_number<std::uint64_t>(*given);
        if (!stated) throw at_byte(begins_, "the size of a tar member is no number");
        size = *stated;
      }
      // Links, devices, folders and FIFOs have no contents, whatever size they claim.
      const bool has_no_contents = type >= '1' && type <= '6';
      const bool is_link = type == '1' || type == '2';
      const bool is_file = type == '0' || type == '\0' || type == '7';
      member.name = name();
      member.header = begins_;
      member.problem = problem_;
      member.kind = is_file && !member.name.ends_with('/') ? TarMember::Kind::file
                    : is_link                              ? TarMember::Kind::link
                                                           : TarMember::Kind::other;
      if (type == 'S') skip_sparse_maps();
      if (is_sparse(type)) member.kind = TarMember::Kind::sparse;
      member.contents = take(has_no_contents ? 0 : size);
      return true;
    }
  }
  if (!problem_.empty()) throw SampleError(problem_);
  return false;
}

// Archives joined by `cat` are a common mistake: all but the first would silently be lost.
std::string TarReader::problem_of_end() {
  if (begins_ >= bytes_.size()) {
    return "byte " + std::to_string(bytes_.size()) +
           ": no block of zeros marks the end of the archive; it may have been cut off between two members";
  }
  constexpr std::uint64_t kEndPiece = std::uint64_t{64} << 10U;
  for (std::uint64_t at = begins_; at < bytes_.size(); at += kEndPiece) {
    const auto piece = bytes_.at(at, static_cast<std::size_t>(std::min(kEndPiece, bytes_.size() - at)));
    const auto found = std::ranges::find_if(piece, [](std::byte byte) { return byte != std::byte{0}; });
    if (found == piece.end()) continue;
    const std::uint64_t block = (at + static_cast<std::uint64_t>(found - piece.begin())) / kTarBlock * kTarBlock;
    const std::uint64_t left = bytes_.size() - block;
    const bool is_archive = left >= kTarBlock && starts_as_tar(bytes_.at(block, kTarBlock));
    return "byte " + std::to_string(block) + ": " + std::to_string(left) +
           " bytes after the end of the archive are not read" +
           (is_archive
                ? "; another archive begins there. Give the archives as files of their own, or join them with tar "
                  "--concatenate"
                : "");
  }
  return {};
}

}  // namespace forebay::data
