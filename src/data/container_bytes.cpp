// Reads the bytes of containers (tar, TFRecord, RecordIO, LMDB, npz) while an index is built:
// windows of a plain file (ContainerBytes), and the content of a gzip file as a stream (GzipSource)
// or as a whole (inflate). It also recognises gzip files and images by their first bytes.
//
// A builder reads headers and labels and skips the images between them, so a plain file is read in
// small windows. A gzip file allows no skipping, so its content is decompressed and kept in memory;
// its size is limited, because a malicious file could inflate to more than the memory there is. One
// thread at a time per object.

#include "container_bytes.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <vector>

#include <zlib.h>

#include "base/limits.hpp"
#include "base/retry.hpp"

namespace forebay::data {
namespace {

Error without_memory() { return out_of_memory("to decompress a file"); }

// Decompresses a gzip file piece by piece, one member after the other (RFC 1952, 2.2), on the
// calling thread. Errors name the byte of the compressed file.
class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(const OpenFile& file) : file_(file), input_(kChunk) {
    // Added to the window's bits, it makes zlib accept only gzip headers.
    constexpr int kGzipOnly = 16;
    if (::inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK) throw without_memory();
  }
  ~GzipSource() override { ::inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  std::size_t read(std::span<std::byte> bytes) override {
    std::size_t done = 0;
    while (done < bytes.size() && !ended_) {
      if (stream_.avail_in == 0) refill();
      const std::size_t room = std::min<std::size_t>(bytes.size() - done, kChunk);
      stream_.next_out = reinterpret_cast<Bytef*>(bytes.data() + done);
      stream_.avail_out = static_cast<uInt>(room);
      step(::inflate(&stream_, Z_NO_FLUSH));
      done += room - stream_.avail_out;
    }
    return done;
  }

  // Bytes after the last member, such as tape padding.
  [[nodiscard]] std::size_t trailing() const noexcept override { return ended_ ? file_.size - consumed() : 0; }

 private:
  static constexpr std::size_t kChunk = std::size_t{256} << 10U;

  [[nodiscard]] std::size_t consumed() const noexcept { return loaded_ - stream_.avail_in; }

  void refill() {
    const std::size_t size = std::min(kChunk, file_.size - loaded_);
    if (size == 0) {
      throw SampleError("byte " + std::to_string(loaded_) + ": the compressed data is cut off");
    }
    read_at_patiently(file_, loaded_, std::span(input_).first(size));
    loaded_ += size;
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(size);
  }

  // Z_BUF_ERROR only means that the input or the room for output is used up.
  void step(int result) {
    if (result == Z_STREAM_END) {
      ended_ = !next_member_follows();
      if (!ended_ && ::inflateReset(&stream_) != Z_OK) throw without_memory();
    } else if (result == Z_MEM_ERROR) {
      throw without_memory();
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      throw SampleError("byte " + std::to_string(consumed()) + ": the compressed data is damaged (" +
                        (stream_.msg == nullptr ? "not a gzip stream" : stream_.msg) + ")");
    }
  }

  // Anything else after a member is ignored, as gzip does.
  [[nodiscard]] bool next_member_follows() const {
    std::array<std::byte, 2> head{};
    if (file_.size - consumed() < head.size()) return false;
    read_at_patiently(file_, consumed(), head);
    return starts_as_gzip(head);
  }

  const OpenFile& file_;
  std::vector<std::byte> input_;
  std::size_t loaded_ = 0;  // bytes of the file read into input_ so far
  z_stream stream_{};
  bool ended_ = false;
};

// The most that a compressed file may inflate to. Images shrink to a fourth or a tenth; only
// malicious files shrink to less than a hundredth. Chosen: 64 times the file, but at least 256 MiB,
// because small files of labels shrink a lot, and at most 16 GiB, because the content is kept in
// memory.
constexpr std::uint64_t kLargestInflated = std::uint64_t{16} << 30U;
constexpr std::uint64_t kInflatedAnyhow = std::uint64_t{256} << 20U;
constexpr std::uint64_t kMostInflated = 64;

}  // namespace

// The comparison keeps the product from overflowing.
std::uint64_t largest_inflated(std::uint64_t file_bytes) {
  return std::clamp(file_bytes > kLargestInflated ? kLargestInflated : kMostInflated * file_bytes, kInflatedAnyhow,
                    kLargestInflated);
}

bool starts_as_gzip(std::span<const std::byte> head) noexcept {
  return head.size() >= 2 && head[0] == std::byte{0x1F} && head[1] == std::byte{0x8B};
}

std::unique_ptr<ByteSource> open_gzip(const OpenFile& file) { return std::make_unique<GzipSource>(file); }

// In a window of 4 KiB, headers of neighbouring records of a few hundred bytes come with one read,
// and little is read in vain if images of 100 kB lie between them. After an error the window is
// emptied, because it may be half filled.
std::span<const std::byte> ContainerBytes::at(std::uint64_t offset, std::size_t length) {
  // Each window of a remote object is a request, so it is larger: often it also covers the label
  // beside the next header.
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

// Looks at the first two bytes, 1f 8b (RFC 1952), and not at the name, because ".tgz" and others
// are common, too.
bool is_gzip(const OpenFile& file) {
  std::array<std::byte, 2> head{};
  if (file.size < head.size()) return false;
  read_at_patiently(file, 0, head);
  return starts_as_gzip(head);
}

// Uses one buffer that doubles, because gzip does not say how large its content is (its last four
// bytes do, but modulo 2^32, and only for the last member). What comes before damage is kept,
// because the records there are intact.
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
