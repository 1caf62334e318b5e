#include "index_content.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <forebay/error.hpp>

#include "base/file_io.hpp"

namespace forebay {
namespace {

class IndexInMemory final : public IndexContent {
 public:
  IndexInMemory(IndexBytes bytes, const IndexLayout& layout, IndexRecord record, std::string origin)
      : IndexContent(layout, std::move(record), std::move(origin)),
        bytes_(std::move(bytes)),
        content_(bytes_.bytes.subspan(layout.content_at)),
        checked_(std::make_unique<std::atomic<bool>[]>(chunks())) {}

  void copy(std::uint64_t offset, std::span<std::byte> to) const override {
    if (to.empty()) return;
    for (std::size_t chunk = offset / kIndexChunk; chunk <= (offset + to.size() - 1) / kIndexChunk; ++chunk) {
      // Relaxed: the bytes never change, the flag only saves work.
      if (!checked_[chunk].load(std::memory_order_relaxed)) check_chunk(chunk);
    }
    std::memcpy(to.data(), content_.data() + offset, to.size());
  }
  void copy_unchecked(std::uint64_t at, std::span<std::byte> to) const override {
    std::ranges::copy(bytes_.bytes.subspan(at, to.size()), to.begin());
  }
  void check() const override {
    for (std::size_t chunk = 0; chunk < chunks(); ++chunk) check_chunk(chunk);
  }
  [[nodiscard]] bool is_on_disk() const noexcept override { return false; }

 private:
  void check_chunk(std::size_t chunk) const {
    const std::size_t begin = chunk * kIndexChunk;
    const auto bytes = content_.subspan(begin, chunk_size(chunk));
    std::uint64_t expected = 0;
    std::memcpy(&expected, bytes_.bytes.data() + layout().sums_at + chunk * sizeof(expected), sizeof(expected));
    if (chunk_sum(bytes) != expected) {
      throw damaged_index(origin(), "the checksum of " + place(begin, bytes.size()) + " does not match");
    }
    checked_[chunk].store(true, std::memory_order_relaxed);
  }

  IndexBytes bytes_;
  std::span<const std::byte> content_;
  std::unique_ptr<std::atomic<bool>[]> checked_;  // by chunk
};

}  // namespace

IndexBytes owned_bytes(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {.bytes = *owner, .owner = owner};
}

std::size_t IndexContent::chunk_size(std::size_t chunk) const noexcept {
  return std::min(kIndexChunk, layout_.content_bytes - chunk * kIndexChunk);
}

std::string IndexContent::place(std::uint64_t offset, std::size_t bytes) const {
  const std::size_t at = layout_.content_at + offset;
  return "bytes " + std::to_string(at) + " to " + std::to_string(at + bytes - 1);
}

std::unique_ptr<IndexContent> index_in_memory(IndexBytes bytes, std::string origin) {
  const auto all = bytes.bytes;
  const IndexLayout layout = read_index_layout(all.first(std::min(all.size(), kIndexHeader)), all.size(), origin);
  IndexRecord record = read_index_record(layout, all.subspan(layout.sums_at, layout.sums_bytes),
                                         all.subspan(layout.record_at, layout.record_bytes), origin);
  return std::make_unique<IndexInMemory>(std::move(bytes), layout, std::move(record), std::move(origin));
}

}  // namespace forebay
