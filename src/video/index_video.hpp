#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace forebay::video {

// "" if videos can be read; else why not, and what to do. The first call loads the libraries. Any thread.
[[nodiscard]] std::string_view problem_of_videos();

// A local or remote file. `read` fills its span from the offset on, and throws SampleError.
struct VideoSource {
  std::uint64_t bytes = 0;
  std::function<void(std::uint64_t offset, std::span<std::byte>)> read;
};

// Reads a whole video (mp4, mov, mkv, webm, avi), decodes its first frame, or all of an avi, and returns its table: the
// decoder parameters of its first video stream, and each packet's place, timestamp and role in decoding; about 5 bytes
// per frame. `shown_at`, if not null, receives the time of each shown frame, in presentation order, in seconds since
// the first; for an avi file, by its frame rate. Throws SampleError, which says what is wrong (no video, no timestamps,
// damaged, truncated), and what `read` throws. Any thread. REQUIRES: problem_of_videos() is empty.
[[nodiscard]] std::vector<std::byte> index_video(const VideoSource& source, std::vector<double>* shown_at = nullptr);

}  // namespace forebay::video
