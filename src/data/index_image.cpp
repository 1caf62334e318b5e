#include "index_image.hpp"

#include <array>
#include <forebay/error.hpp>

#include "base/file_io.hpp"

namespace forebay {

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

void IndexImage::read(std::uint64_t offset, std::span<std::byte> to) const {
  require_within(offset, to.size());
  content_->copy(offset, to);
}

std::vector<std::byte> IndexImage::content(std::uint64_t offset, std::uint64_t bytes) const {
  require_within(offset, bytes);
  std::vector<std::byte> part(bytes);
  content_->copy(offset, part);
  return part;
}

std::string IndexImage::text(std::uint64_t offset, std::uint64_t bytes) const {
  require_within(offset, bytes);
  std::string text(bytes, '\0');
  content_->copy(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

void IndexImage::require(bool holds, std::string_view what) const {
  if (!holds) throw damaged_index(origin(), what);
}

void IndexImage::require_within(std::uint64_t offset, std::uint64_t bytes) const {
  require(offset <= content_bytes() && bytes <= content_bytes() - offset, "a part of it reaches past its end");
}

std::vector<std::byte> IndexedDataset::serialize() const {
  std::vector<std::byte> bytes(image_->bytes());
  image_->read_unchecked(0, bytes);
  return bytes;
}

const IndexImage* image_of(const Dataset& dataset) noexcept {
  const auto* const indexed = dynamic_cast<const IndexedDataset*>(&dataset);
  return indexed == nullptr ? nullptr : &indexed->image();
}

}  // namespace forebay
