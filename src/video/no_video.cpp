#include "clip_decoder.hpp"
#include "index_video.hpp"

// A build without FFmpeg's headers: a dataset of videos is refused before anything else here is called.
namespace forebay::video {

std::string_view problem_of_videos() {
  return "this build of Forebay reads no videos: build it where FFmpeg's headers are (Debian: libavformat-dev "
         "libswscale-dev), with -DFOREBAY_VIDEO=ON";
}

std::vector<std::byte> index_video(const VideoSource& /*source*/, std::vector<double>* /*shown_at*/) {
  throw SampleError(std::string(problem_of_videos()));
}

struct ClipDecoder::Tools {};

ClipDecoder::ClipDecoder() = default;
ClipDecoder::~ClipDecoder() = default;
ClipDecoder::ClipDecoder(ClipDecoder&&) noexcept = default;
ClipDecoder& ClipDecoder::operator=(ClipDecoder&&) noexcept = default;

ClipDecoder::Facts ClipDecoder::open(std::span<const std::byte> /*bytes*/, std::int64_t /*max_pixels*/) {
  throw SampleError(std::string(problem_of_videos()));
}

void ClipDecoder::decode(std::uint64_t /*start*/, const ClipRule& /*rule*/, Rows /*rows*/, const Take& /*take*/) {
  throw SampleError(std::string(problem_of_videos()));
}

}  // namespace forebay::video
