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

// Reads a video (mp4, mov, mkv, webm) from one end to the other, without decoding it, and returns its table: of its
// first video stream what a decoder has to know, and each packet's place, timestamp and part in decoding. About 5 bytes
// for a frame. `shown_at`, where there is one: for each frame that is shown, in their order, its time in seconds since
// the first; of an avi file by its frame rate. Throws SampleError that says what is wrong: no video, no timestamps,
// damaged, cut short; and what `read` throws. Any thread. REQUIRES: problem_of_videos() is empty.
[[nodiscard]] std::vector<std::byte> index_video(const VideoSource& source, std::vector<double>* shown_at = nullptr);

}  // namespace forebay::video
