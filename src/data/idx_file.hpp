#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_io.hpp"
#include "container_bytes.hpp"

namespace forebay::data {

// An idx file of bytes, the format of MNIST: two zero bytes, a type, the number of dimensions, each dimension as a
// big-endian 32-bit number, then the values, with the last dimension varying fastest.
struct IdxHeader {
  std::vector<std::uint32_t> dimensions;
  std::uint64_t payload = 0;  // bytes of values, the product of the dimensions

  // Bytes before the values.
  [[nodiscard]] std::size_t size() const noexcept { return 4 + 4 * dimensions.size(); }
  friend bool operator==(const IdxHeader&, const IdxHeader&) = default;
};

// An open idx file. Its first bytes, not its name, tell whether it is compressed. One thread at a time.
class IdxFile {
 public:
  // Opens the file and reads its header. Throws SampleError with byte offsets, without the name.
  explicit IdxFile(const std::string& path);

  [[nodiscard]] const IdxHeader& header() const noexcept { return header_; }
  [[nodiscard]] const OpenFile& file() const noexcept { return file_; }
  [[nodiscard]] bool is_compressed() const noexcept { return is_compressed_; }
  [[nodiscard]] std::size_t trailing() const noexcept { return source_->trailing(); }

  // Returns all values. Allocates memory only as they arrive, so that a false header costs nothing. Throws SampleError
  // if there are fewer or more than the header says, or if a checksum of the compression fails. May be called once.
  [[nodiscard]] std::vector<std::byte> load();
  // REQUIRES: not compressed. Throws SampleError unless the file has exactly the size that its header says.
  void check_size() const;

 private:
  [[nodiscard]] IdxHeader read_header();
  [[nodiscard]] std::vector<std::byte> load_payload();

  OpenFile file_;
  bool is_compressed_ = false;
  std::unique_ptr<ByteSource> source_;
  IdxHeader header_;
};

}  // namespace forebay::data
