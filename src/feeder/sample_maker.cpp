#include "sample_maker.hpp"

#include <algorithm>

#include <forebay/error.hpp>

#include "decode/raw_sample.hpp"

namespace forebay {
namespace {

Box around(const Box& a, const Box& b) noexcept {
  return {std::min(a.left, b.left), std::min(a.top, b.top), std::max(a.right, b.right), std::max(a.bottom, b.bottom)};
}

}  // namespace

SampleMaker::SampleMaker(const TransformOptions& options, std::uint64_t seed, bool eval)
    : transform_(options, seed, eval),
      jpeg_{.exif = options.exif, .max_pixels = options.max_pixels},
      decode_(options.decode) {}

std::int32_t SampleMaker::shrink_of(const Transform::View& view) const noexcept {
  return decode_ == Decode::scaled ? transform_.shrink_of(view) : 1;
}

void SampleMaker::make(std::span<const std::byte> bytes, const Sample& sample, std::uint64_t epoch,
                       std::uint64_t position, std::span<std::byte> out, Bench& bench) const {
  if (sample.encoding == Encoding::raw) {
    decode_raw(bytes, sample.width, sample.height, sample.channels, bench.image);
    transform_.apply(bench.image, sample.box, epoch, position, out, bench.scratch);
    return;
  }
  const ImageSize size = bench.decoder.open(bytes, jpeg_);
  const Transform::View view = transform_.view(size.width, size.height, sample.box, epoch, position);
  const Box whole{0, 0, size.width, size.height};
  bench.decoder.decode(decode_ == Decode::full ? whole : view.region, shrink_of(view), bench.image);
  transform_.render(bench.image, view, out, bench.scratch);
}

bool SampleMaker::make_together(std::span<const std::byte> bytes, std::span<const Member> members, Bench& bench) const {
  // Scaled decodes differ from view to view, and raw pixels cost nothing to decode.
  const auto is_raw = [](const Member& member) { return member.sample.encoding == Encoding::raw; };
  if (decode_ == Decode::scaled || std::ranges::any_of(members, is_raw)) return false;
  try {
    const ImageSize size = bench.decoder.open(bytes, jpeg_);
    const auto view_of = [&](const Member& member) {
      return transform_.view(size.width, size.height, member.sample.box, member.epoch, member.position);
    };
    Box region = view_of(members.front()).region;
    for (const Member& member : members) region = around(region, view_of(member).region);
    bench.decoder.decode(decode_ == Decode::full ? Box{0, 0, size.width, size.height} : region, 1, bench.image);
    for (const Member& member : members) transform_.render(bench.image, view_of(member), member.out, bench.scratch);
    return true;
  } catch (const SampleError&) {
    return false;
  }
}

}  // namespace forebay
