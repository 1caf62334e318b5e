// An idx file: two zero bytes, the type of elements, the number of dimensions, each dimension as a
// big-endian number of 32 bits, then the elements (yann.lecun.com/exdb/mnist). Plain or compressed
// by gzip. Only unsigned bytes are read, because images and labels of MNIST-like datasets have no
// other type.
//
// The constructor reads the header. check_size() requires a plain file to have exactly the size
// that follows from it. load() reads all elements, which is the only way to check a compressed
// file.

#include "idx_file.hpp"

#include <algorithm>
#include <array>
#include <new>

#include "base/limits.hpp"
#include "base/retry.hpp"
#include "base/text.hpp"
#include "container_bytes.hpp"
#include "file_nature.hpp"
#include "store/files.hpp"

namespace forebay::data {
namespace {

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(const OpenFile& file) : file_(file) {}

  std::size_t read(std::span<std::byte> bytes) override {
    const std::size_t size = std::min(bytes.size(), file_.size - position_);
    read_at_patiently(file_, position_, bytes.first(size));
    position_ += size;
    return size;
  }

 private:
  const OpenFile& file_;
  std::size_t position_ = 0;
};

std::string in_hex(std::byte value) { return "0x" + forebay::hex(std::to_integer<unsigned>(value), 2); }

std::string type_name(std::byte type) {
  switch (std::to_integer<unsigned>(type)) {
    case 0x09: return "signed bytes";
    case 0x0B: return "16-bit integers";
    case 0x0C: return "32-bit integers";
    case 0x0D: return "32-bit floats";
    case 0x0E: return "64-bit floats";
    default: return "not an idx type";
  }
}

// Each byte gets its own message: the usual mistakes are a little-endian header and 32-bit labels.
void check_magic(std::span<const std::byte, 4> magic) {
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) {
    const bool swapped = magic[2] == std::byte{0} && magic[3] == std::byte{0};
    throw SampleError("byte 0: " + in_hex(magic[0]) + " " + in_hex(magic[1]) + " where an idx file has two zero bytes" +
                      (swapped ? "; its header is little endian" : ""));
  }
  if (magic[2] != std::byte{0x08}) {
    throw SampleError("byte 2: type " + in_hex(magic[2]) + " (" + type_name(magic[2]) +
                      ") where 0x08, unsigned bytes, is expected");
  }
  if (magic[3] == std::byte{0} || magic[3] > std::byte{4}) {
    throw SampleError("byte 3: " + std::to_string(std::to_integer<unsigned>(magic[3])) +
                      " dimensions where 1 to 4 are expected");
  }
}

std::string in_words(const IdxHeader& header) { return joined(header.dimensions, " x "); }

}  // namespace

IdxFile::IdxFile(const std::string& path) : file_(store::open_patiently(path)) {
  std::array<std::byte, 2> head{};
  if (file_.size >= head.size()) read_at_patiently(file_, 0, head);
  refuse_foreign(path);
  is_compressed_ = starts_as_gzip(head);
  source_ = is_compressed_ ? open_gzip(file_) : std::make_unique<PlainSource>(file_);
  header_ = read_header();
}

// The product of the dimensions is bounded by 2^62, so that sizes can be added to it without
// overflow.
IdxHeader IdxFile::read_header() {
  const auto fill = [this](std::span<std::byte> bytes, std::size_t offset) {
    const std::size_t got = source_->read(bytes);
    if (got < bytes.size()) {
      throw SampleError("byte " + std::to_string(offset + got) + ": it ends inside the idx header");
    }
  };
  std::array<std::byte, 4> magic{};
  fill(magic, 0);
  check_magic(magic);

  IdxHeader header;
  std::uint64_t payload = 1;
  bool overflows = false;
  for (std::size_t i = 0; i < std::to_integer<std::size_t>(magic[3]); ++i) {
    std::array<std::byte, 4> bytes{};
    fill(bytes, header.size());
    std::uint32_t dimension = 0;
    for (const auto byte : bytes) dimension = (dimension << 8U) | std::to_integer<std::uint32_t>(byte);
    header.dimensions.push_back(dimension);
    overflows = __builtin_mul_overflow(payload, std::uint64_t{dimension}, &payload) || overflows;
  }
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 62U;
  if (overflows || payload > kLargest) {
    throw SampleError("byte 4: " + in_words(header) + " values are more than any file holds");
  }
  header.payload = payload;
  return header;
}

void IdxFile::check_size() const {
  const std::uint64_t expected = header_.size() + header_.payload;
  if (file_.size == expected) return;
  const bool is_short = file_.size < expected;
  throw SampleError("byte " + std::to_string(is_short ? file_.size : expected) + ": it " +
                    (is_short ? "ends" : "continues") + " here, but its header (" + in_words(header_) + ") makes it " +
                    std::to_string(expected) + " bytes long");
}

std::vector<std::byte> IdxFile::load() {
  if (!is_compressed_) check_size();
  if (is_compressed_ && header_.payload > largest_inflated(file_.size)) {
    throw SampleError("byte 4: " + in_words(header_) + " values are too many to inflate from " +
                      std::to_string(file_.size) + " bytes; decompress the file first");
  }
  try {
    return load_payload();
  } catch (const std::bad_alloc&) {
    throw out_of_memory("for the " + in_words(header_) + " values of an IDX file");
  }
}

// The memory grows with what has been read, because a header may promise far more than there is.
std::vector<std::byte> IdxFile::load_payload() {
  constexpr std::size_t kFirst = std::size_t{1} << 20U;
  const auto payload = static_cast<std::size_t>(header_.payload);
  std::vector<std::byte> values;
  std::size_t filled = 0;
  while (filled < payload) {
    values.resize(std::min(payload, std::max(kFirst, 2 * filled)));
    const std::size_t got = source_->read(std::span(values).subspan(filled));
    filled += got;
    if (filled < values.size()) {
      throw SampleError("its contents end at byte " + std::to_string(header_.size() + filled) + ", but its header (" +
                        in_words(header_) + ") promises " + std::to_string(header_.size() + payload) + " bytes");
    }
  }
  // Reading past the end also makes the decompressor verify its checksum.
  std::array<std::byte, 1> extra{};
  if (source_->read(extra) != 0) {
    throw SampleError("its contents go on after byte " + std::to_string(header_.size() + payload) +
                      ", where its header (" + in_words(header_) + ") says that they end");
  }
  return values;
}

}  // namespace forebay::data
