#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <optional>
#include <vector>

#include <forebay/error.hpp>

#include "fuzz_main.hpp"
#include "jpeg_damage.hpp"
#include "jpeg_plain_files.hpp"
#include "pack/jpeg_packer.hpp"
#include "pack/packed_coefficients.hpp"
#include "pack/plain_header.hpp"

// Damaged JPEG files, which are packed to what unpacks to them or not at all; and damaged packed files, which are
// refused or give some coefficients, the same by all kernels. Meant to run under AddressSanitizer.
namespace {

using namespace forebay;
using forebay::testing::JpegBytes;

constexpr std::int32_t kMostMcus = 400;

struct Counts {
  std::uint64_t packed = 0;
  std::uint64_t unpacked = 0;
  std::uint64_t refused = 0;
  std::uint64_t wrong = 0;
};

class Fuzzer {
 public:
  explicit Fuzzer(std::uint64_t seed) : random_(seed) {
    for (const JpegBytes& file : files_) packed_.push_back(packer_.pack(file).value());
    for (const PackKernels& kernels : supported_pack_kernels()) readers_.emplace_back(kernels);
  }

  void run_once() {
    if (random_.below(4) == 0) {
      JpegBytes file = files_[random_.below(files_.size())];
      testing::damage(file, random_);
      const auto bytes = packer_.pack(file);
      if (!bytes) return;
      ++counts_.packed;
      if (packer_.unpack(*bytes) != file) ++counts_.wrong;
      return;
    }
    JpegBytes bytes = packed_[random_.below(packed_.size())];
    for (std::uint64_t n = 1 + random_.below(4); n > 0 && bytes.size() > 12; --n) damage(bytes);
    // Whoever means harm computes the checksum too.
    if (bytes.size() > 12 && random_.below(8) != 0) set_checksum(bytes);
    bytes.shrink_to_fit();
    try {
      (void)packer_.unpack(bytes);
      ++counts_.unpacked;
    } catch (const SampleError&) {
      ++counts_.refused;
    }
    if (!agree(bytes)) ++counts_.wrong;
  }

  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  // Behind the key of its tables.
  void damage(JpegBytes& bytes) {
    const std::size_t at = 8 + random_.below(bytes.size() - 8);
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random_.below(6)) {
      case 0: bytes.erase(place, bytes.end()); return;
      case 1: bytes.insert(place, testing::any_byte(random_)); return;
      case 2: bytes.erase(place); return;
      case 3: *place = testing::any_byte(random_); return;
      default: *place ^= static_cast<std::byte>(1U << random_.below(8));
    }
  }

  bool agree(const JpegBytes& bytes) {
    try {
      parts_.open(bytes, tables_);
    } catch (const SampleError&) {
      return true;
    }
    const auto header = PlainHeader::read(parts_.header());
    if (!header || header->frame.mcus_across > kMostMcus || header->frame.mcus_down > kMostMcus) return true;
    const JpegFrame& frame = header->frame;
    const auto left = testing::below(random_, frame.mcus_across);
    const McuRegion region{left, testing::below(random_, frame.mcus_down),
                           left + 1 + testing::below(random_, frame.mcus_across - left), frame.mcus_down};
    std::optional<std::uint64_t> first;
    for (PackedCoefficients& reader : readers_) {
      const std::uint64_t sum = sum_of(reader, frame, region);
      if (first && *first != sum) return false;
      first = sum;
    }
    return true;
  }

  std::uint64_t sum_of(PackedCoefficients& reader, const JpegFrame& frame, const McuRegion& region) {
    std::uint64_t sum = 0;
    try {
      reader.open(parts_, frame);
      for (std::int32_t y = region.top; y < region.bottom; ++y) {
        row_.reset(frame, frame.components, region);
        (void)reader.read(y, row_);
        for (std::size_t k = 0; k < frame.components; ++k) {
          const std::int16_t* const blocks = row_.blocks(k, 0);
          for (std::size_t i = 0; i < row_.stride(k) * kBlockSize; ++i) {
            sum = sum * 31 + static_cast<std::uint16_t>(blocks[i]);
          }
        }
      }
    } catch (const SampleError&) {
      return 1;
    }
    return sum;
  }

  Random random_;
  std::vector<JpegBytes> files_ = testing::plain_files({{8, 8}, {17, 9}, {64, 20}, {150, 90}});
  PackTables tables_ = testing::tables_for(files_);
  JpegPacker packer_{tables_};
  std::vector<JpegBytes> packed_;
  std::deque<PackedCoefficients> readers_;
  PackedJpeg parts_;
  CoefficientRow row_;
  Counts counts_;
};

}  // namespace

int main(int argc, char** argv) {
  return fuzz_main(argc, argv, "fuzz_pack", [](std::uint64_t executions, std::uint64_t seed) {
    Fuzzer fuzzer(seed);
    for (std::uint64_t i = 0; i < executions; ++i) fuzzer.run_once();
    const Counts& counts = fuzzer.counts();
    std::printf("%llu damaged files packed; of damaged packed files %llu unpacked, %llu refused; %llu wrong\n",
                static_cast<unsigned long long>(counts.packed), static_cast<unsigned long long>(counts.unpacked),
                static_cast<unsigned long long>(counts.refused), static_cast<unsigned long long>(counts.wrong));
    return counts.wrong;
  });
}
