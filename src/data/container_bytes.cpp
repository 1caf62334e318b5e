#include "container_bytes.hpp"

#include <algorithm>
#include <new>

#include "base/limits.hpp"
#include "base/retry.hpp"
#include "gzip.hpp"

namespace forebay::data {

// A window of 4 KiB: headers of neighbouring records of a few hundred bytes come with one read, and
// little is read in vain where images of 100 KB lie between them. On an error the window is
// emptied, as it may be half filled.
std::span<const std::byte> ContainerBytes::at(std::uint64_t offset, std::size_t length) {
  // Of an object each is a request, and takes a label that stands beside the next header along.
  const std::size_t window = file_ != nullptr && file_->remote != nullptr ? 16384 : 4096;
  if (!has(offset, length)) {
    throw at_byte(size_, "it ends here, where " + std::to_string(length) + " bytes from byte " +
                             std::to_string(offset) + " are needed");
  }
  if (is_in_memory()) return memory_.subspan(static_cast<std::size_t>(offset), length);
  const bool is_there = offset >= window_begins_ && offset - window_begins_ <= window_.size() &&
                        length <= window_.size() - (offset - window_begins_);
  if (!is_there) {
    window_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(std::max(window, length), size_ - offset)));
    window_begins_ = offset;
    try {
      read_at_patiently(*file_, static_cast<std::size_t>(offset), window_);
    } catch (...) {
      window_.clear();
      throw;
    }
  }
  return std::span(window_).subspan(static_cast<std::size_t>(offset - window_begins_), length);
}

std::string_view ContainerBytes::text(const Extent& extent) {
  const auto bytes = at(extent);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

SampleError at_byte(std::uint64_t offset, std::string_view problem) {
  return SampleError("byte " + std::to_string(offset) + ": " + std::string(problem));
}

// By its first two bytes, 1f 8b (RFC 1952); names are not asked, as ".tgz" and others are common.
bool is_gzip(const OpenFile& file) {
  std::array<std::byte, 2> head{};
  if (file.size < head.size()) return false;
  read_at_patiently(file, 0, head);
  return starts_as_gzip(head);
}

// One buffer that doubles, as gzip does not say how much it holds (its last four bytes do, modulo
// 2^32, and only of the last member). Damage keeps what came before it: the records there are
// sound.
Inflated inflate(const OpenFile& file) {
  constexpr std::size_t kPiece = std::size_t{64} << 10U;
  const std::uint64_t most = largest_inflated(file.size);
  const auto source = open_gzip(file);
  Inflated inflated;
  std::size_t filled = 0;
  try {
    for (std::size_t got = kPiece; got > 0; filled += got) {
      if (filled > most) {
        throw SampleError("it inflates to more than the " + std::to_string(most) +
                          " bytes that an index may hold of it; decompress it");
      }
      if (inflated.bytes.size() < filled + kPiece) inflated.bytes.resize(2 * filled + kPiece);
      try {
        got = source->read(std::span(inflated.bytes).subspan(filled, kPiece));
      } catch (const SampleError& error) {
        if (error.is_transient()) throw;
        inflated.problem = error.what();
        break;
      }
    }
  } catch (const std::bad_alloc&) {
    throw out_of_memory("for what a file of " + std::to_string(file.size) + " bytes inflates to");
  }
  inflated.bytes.resize(filled);
  return inflated;
}

// Signatures from the formats' specifications: JPEG's start of image and first marker, PNG's eight
// bytes, RIFF with WEBP, the two byte orders of TIFF, GIF.
bool starts_as_picture(std::span<const std::byte> head) noexcept {
  const auto starts_with = [&](std::string_view magic, std::size_t from = 0) {
    return head.size() >= from + magic.size() && std::memcmp(head.data() + from, magic.data(), magic.size()) == 0;
  };
  using namespace std::string_view_literals;
  return starts_with("\xFF\xD8\xFF"sv) || starts_with("\x89PNG\r\n\x1A\n"sv) ||
         (starts_with("RIFF"sv) && starts_with("WEBP"sv, 8)) || starts_with("II*\0"sv) || starts_with("MM\0*"sv) ||
         starts_with("GIF8"sv);
}

}  // namespace forebay::data
