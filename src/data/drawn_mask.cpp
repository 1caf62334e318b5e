#include "drawn_mask.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace forebay::data {
namespace {

// Its first byte begins neither UTF-8 text nor a file of any format that masks come in.
constexpr std::string_view kDrawnSignature =
    "\x8F"
    "FBMASK\n";

void append_bytes(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

std::span<const std::byte> drawn_mask_signature() noexcept { return std::as_bytes(std::span(kDrawnSignature)); }

bool is_drawn_mask(std::span<const std::byte> bytes) noexcept {
  const auto signature = drawn_mask_signature();
  return bytes.size() >= signature.size() && std::ranges::equal(bytes.first(signature.size()), signature);
}

// Counted in steps of the finer grid, which bounds the work and the memory of drawing it.
std::int64_t MaskShape::outline() const noexcept {
  std::int64_t steps = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t next = i + 1 == x.size() ? 0 : i + 1;
    steps += std::max(std::abs(x[next] - x[i]), std::abs(y[next] - y[i]));
  }
  return steps;
}

// Writes signature and size. add() then appends a value, the number of bytes of its shapes, and the
// shapes. They are drawn in this order.
MaskDrawing::MaskDrawing(std::int32_t width, std::int32_t height) {
  PackWriter writer;
  writer(width, height);
  append_bytes(bytes_, drawn_mask_signature());
  append_bytes(bytes_, writer.bytes());
}

void MaskDrawing::add(std::uint8_t value, std::span<const std::byte> shapes) {
  PackWriter writer;
  writer(value, shapes.size());
  append_bytes(bytes_, writer.bytes());
  append_bytes(bytes_, shapes);
}

}  // namespace forebay::data
