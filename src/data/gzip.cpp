#include "gzip.hpp"

#include <zlib.h>
#include <algorithm>
#include <array>
#include <vector>

#include "base/limits.hpp"
#include "base/retry.hpp"

namespace forebay::data {
namespace {

Error without_memory() { return out_of_memory("to decompress a file"); }

// Decompresses a gzip file piece by piece, all of its members one after the other (RFC 1952, 2.2),
// on the thread that reads. Errors name the byte of the compressed file.
class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(const OpenFile& file) : file_(file), input_(kChunk) {
    // zlib: added to the window's bits, it accepts gzip's header alone.
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

  // Bytes behind the last member, such as padding of tapes.
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

  // Z_BUF_ERROR only means that input or room has run out.
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

  // Anything else behind a member is ignored, as gzip does.
  [[nodiscard]] bool next_member_follows() const {
    std::array<std::byte, 2> head{};
    if (file_.size - consumed() < head.size()) return false;
    read_at_patiently(file_, consumed(), head);
    return starts_as_gzip(head);
  }

  const OpenFile& file_;
  std::vector<std::byte> input_;
  std::size_t loaded_ = 0;  // bytes of the file that were put into input_
  z_stream stream_{};
  bool ended_ = false;
};

// Images shrink to a fourth or a tenth; only malicious files shrink to less than a hundredth.
constexpr std::uint64_t kLargestInflated = std::uint64_t{16} << 30U;
constexpr std::uint64_t kInflatedAnyhow = std::uint64_t{256} << 20U;
// Chosen: 64 times the file, but 256 MiB at least, as small files of labels shrink a lot, and 16
// GiB at most, as it is kept in memory.
constexpr std::uint64_t kMostInflated = 64;

}  // namespace

// Without overflow for any size.
std::uint64_t largest_inflated(std::uint64_t file_bytes) {
  return std::clamp(file_bytes > kLargestInflated ? kLargestInflated : kMostInflated * file_bytes, kInflatedAnyhow,
                    kLargestInflated);
}

bool starts_as_gzip(std::span<const std::byte> head) noexcept {
  return head.size() >= 2 && head[0] == std::byte{0x1F} && head[1] == std::byte{0x8B};
}

std::unique_ptr<ByteSource> open_gzip(const OpenFile& file) { return std::make_unique<GzipSource>(file); }

}  // namespace forebay::data
