#include "index_image.hpp"

#include "file_io.hpp"

#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <forebay/error.hpp>
#include <system_error>

namespace forebay {
namespace {

class Mapping {
 public:
  Mapping(void* address, std::size_t bytes) noexcept : address_(address), bytes_(bytes) {}
  ~Mapping() { ::munmap(address_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

 private:
  void* address_;
  std::size_t bytes_;
};

// Brings mapped pages in, so that a store that fails ends in an error here and not in a SIGBUS later. Kernels before
// Linux 5.14 cannot, there nothing happens. False with errno set when the store failed.
bool bring_in(std::span<const std::byte> bytes) noexcept {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t before = reinterpret_cast<std::uintptr_t>(bytes.data()) % page;
  void* const begin = const_cast<std::byte*>(bytes.data() - before);
  while (::madvise(begin, bytes.size() + before, MADV_POPULATE_READ) != 0) {
    if (errno == EFAULT || errno == EIO || errno == EHWPOISON) return false;
    if (errno != EINTR && errno != EAGAIN) return true;
  }
  return true;
}

}  // namespace

IndexBytes owned_bytes(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {.bytes = *owner, .owner = owner, .mapped = false};
}

IndexBytes map_index(const std::string& file) {
  try {
    const OpenFile open = open_regular(file);
    if (open.size == 0) return {};
    void* const address = ::mmap(nullptr, open.size, PROT_READ, MAP_SHARED, open.descriptor.get(), 0);
    if (address == MAP_FAILED) return owned_bytes(load_file(file, SIZE_MAX));
    auto mapping = std::make_shared<const Mapping>(address, open.size);
    return {.bytes = {static_cast<const std::byte*>(address), open.size}, .owner = std::move(mapping), .mapped = true};
  } catch (const SampleError& error) {
    throw Error("index " + file + ": " + error.what());
  }
}

bool is_saved_index(const std::string& file) {
  try {
    std::array<std::byte, 8> head{};
    const OpenFile open = open_regular(file);
    if (open.size < head.size()) return false;
    read_at(open.descriptor, 0, head);
    return begins_as_index(head);
  } catch (const SampleError&) {
    return false;
  }
}

IndexImage::IndexImage(IndexBytes bytes, std::string origin)
    : bytes_(std::move(bytes)),
      origin_(std::move(origin)),
      parts_(parse_index(bytes_.bytes, origin_)),
      record_(read_index_record(parts_, origin_)),
      checked_(std::make_unique<std::atomic<bool>[]>(parts_.sums.size() / sizeof(std::uint64_t))) {}

std::span<const std::byte> IndexImage::content(std::uint64_t offset, std::uint64_t bytes) const {
  require(offset <= parts_.content.size() && bytes <= parts_.content.size() - offset,
          "a part of it reaches past its end");
  if (bytes == 0) return {};
  for (std::size_t chunk = offset / kIndexChunk; chunk <= (offset + bytes - 1) / kIndexChunk; ++chunk) {
    // Relaxed: the bytes never change, the flag only saves work.
    if (!checked_[chunk].load(std::memory_order_relaxed)) check_chunk(chunk);
  }
  return parts_.content.subspan(offset, bytes);
}

void IndexImage::check() const { (void)content(0, content_bytes()); }

void IndexImage::check_chunk(std::size_t chunk) const {
  const std::size_t begin = chunk * kIndexChunk;
  const auto bytes = parts_.content.subspan(begin, std::min(kIndexChunk, parts_.content.size() - begin));
  const std::size_t at = bytes_.bytes.size() - parts_.content.size() + begin;
  const auto where = [&] { return "bytes " + std::to_string(at) + " to " + std::to_string(at + bytes.size() - 1); };
  if (bytes_.mapped && !bring_in(bytes)) {
    throw Error(origin_ + ": cannot read " + where() + ": " + std::generic_category().message(errno));
  }
  std::uint64_t expected = 0;
  std::memcpy(&expected, parts_.sums.data() + chunk * sizeof(expected), sizeof(expected));
  if (chunk_sum(bytes) != expected) throw damaged_index(origin_, "the checksum of " + where() + " does not match");
  checked_[chunk].store(true, std::memory_order_relaxed);
}

void IndexImage::require(bool holds, std::string_view what) const {
  if (!holds) throw damaged_index(origin_, what);
}

std::vector<std::byte> IndexedDataset::serialize() const {
  const auto bytes = image_->bytes();
  return {bytes.begin(), bytes.end()};
}

const IndexImage* image_of(const Dataset& dataset) noexcept {
  const auto* const indexed = dynamic_cast<const IndexedDataset*>(&dataset);
  return indexed == nullptr ? nullptr : &indexed->image();
}

}  // namespace forebay
