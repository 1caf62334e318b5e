#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/error.hpp>

#include "targets.hpp"
#include "test.hpp"
#include "video/clip_decoder.hpp"
#include "video/index_video.hpp"
#include "video_support.hpp"

using namespace forebay::video;

// Videos as they are indexed, and clips as a decoder gets them from a reader. libavcodec itself is
// not instrumented.
namespace forebay::fuzz {
namespace {

constexpr ClipRule kRule{.frames = 3, .stride = 2};

std::vector<std::byte> index_of(std::string_view input) {
  const auto bytes = std::as_bytes(std::span(input));
  return index_video({.bytes = bytes.size(), .read = [&](std::uint64_t offset, std::span<std::byte> to) {
                        if (offset > bytes.size() || to.size() > bytes.size() - offset)
                          throw std::logic_error("a read beyond the end");
                        std::ranges::copy(bytes.subspan(offset, to.size()), to.begin());
                      }});
}

// The first clip of a video, as its reader hands it over.
std::string clip_of(std::string_view video) {
  const ClipBytes clip = IndexedVideo(index_of(video)).clip(0, 2, kRule);
  std::string bytes(reinterpret_cast<const char*>(clip.table.data()), clip.table.size());
  return bytes.append(video.substr(clip.offset, clip.length));
}

std::vector<std::string> videos() {
  std::vector<std::string> made;
  const testing::Videos videos;
  if (!problem_of_videos().empty() || !videos.can_make()) return made;
  for (const auto& [name, codec] :
       {std::pair{"a.mp4", "libx264 -g 4 -bf 2"}, {"b.webm", "libvpx-vp9 -cpu-used 8"}, {"c.avi", "mpeg4"}}) {
    if (const auto file = videos.make(name, std::string("-c:v ") + codec + " -s 32x18", 8))
      made.push_back(testing::read_text(*file));
  }
  return made;
}

}  // namespace

bool use_clip(std::string_view input) {
  if (!problem_of_videos().empty()) return false;
  try {
    ClipDecoder decoder;
    const ClipDecoder::Facts facts = decoder.open(std::as_bytes(std::span(input)), most_pixels());
    decoder.decode(facts.starts - 1, kRule, {0, facts.height}, [](std::uint32_t, const Frame& frame) {
      if (frame.pixels.size() < static_cast<std::size_t>(frame.width) * static_cast<std::size_t>(frame.height) * 3)
        throw std::logic_error("a frame without all its pixels");
    });
  } catch (const SampleError&) {
    return false;
  }
  return true;
}

bool use_video(std::string_view input) {
  if (!problem_of_videos().empty()) return false;
  std::vector<std::byte> table;
  try {
    table = index_of(input);
  } catch (const SampleError&) {
    return false;
  }
  const IndexedVideo indexed(table);
  const ClipBytes clip = indexed.clip(indexed.facts().frames - 1, 1, kRule);
  if (clip.offset > input.size() || clip.length > input.size() - clip.offset)
    throw std::logic_error("a clip beyond the end of its video");
  return true;
}

std::vector<std::string> video_seeds() { return videos(); }

std::vector<std::string> clip_seeds() {
  std::vector<std::string> clips;
  for (const std::string& video : videos()) clips.push_back(clip_of(video));
  return clips;
}

}  // namespace forebay::fuzz
