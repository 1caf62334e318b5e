#include "png_inflater.hpp"

namespace forebay::make {

PngInflater::PngInflater() = default;
PngInflater::~PngInflater() = default;
void PngInflater::End::operator()(libdeflate_decompressor* /*decompressor*/) const noexcept {}

bool PngInflater::decode(std::span<const std::byte> /*file*/, const PngShape& /*shape*/,
                         std::span<std::uint8_t> /*out*/) {
  return false;
}

}  // namespace forebay::make
