#pragma once

#include "process.hpp"
#include "video/index_video.hpp"

namespace forebay::testing {

// Videos of moving shapes, made with ffmpeg.
class Videos {
 public:
  static constexpr int kWidth = 96;
  static constexpr int kHeight = 66;

  // Whether ffmpeg exists and Forebay can read videos; prints a message if not.
  [[nodiscard]] bool can_make() const {
    if (const auto problem = video::problem_of_videos(); !problem.empty()) {
      MESSAGE("skipped: " << problem);
      return false;
    }
    const bool is_there = run({"-version"}) == 0;
    if (!is_there) MESSAGE("skipped: no ffmpeg on this machine");
    return is_there;
  }
  // A video of so many frames, encoded with these arguments; nothing if this ffmpeg lacks the
  // encoder.
  [[nodiscard]] std::optional<std::filesystem::path> make(const std::string& name, const std::string& arguments,
                                                          int frames = 60) const {
    const auto file = dir_ / name;
    std::vector<std::string> all{"-f", "lavfi", "-i",
                                 "testsrc2=size=" + std::to_string(kWidth) + "x" + std::to_string(kHeight) +
                                     ":rate=25:duration=" + std::to_string(frames / 25.0)};
    for (const std::string& word : words(arguments)) all.push_back(word);
    all.push_back(file.string());
    if (run(all) == 0) return file;
    MESSAGE("skipped: this ffmpeg does not make " << name);
    return std::nullopt;
  }
  // Converts a file.
  [[nodiscard]] std::filesystem::path convert(const std::filesystem::path& from, const std::string& name,
                                              const std::string& arguments, const std::string& before = {}) const {
    const auto file = dir_ / name;
    std::vector<std::string> all = words(before);
    all.insert(all.end(), {"-i", from.string()});
    for (const std::string& word : words(arguments)) all.push_back(word);
    all.push_back(file.string());
    REQUIRE(run(all) == 0);
    return file;
  }
  // All displayed frames, in RGB, without rotation.
  [[nodiscard]] std::vector<std::vector<std::uint8_t>> frames_of(const std::filesystem::path& file, int width = kWidth,
                                                                 int height = kHeight) const {
    const auto raw = dir_ / "frames.rgb";
    REQUIRE(run({"-noautorotate", "-i", file.string(), "-map", "0:v:0", "-vsync", "passthrough", "-vf",
                 "scale=flags=bilinear", "-f", "rawvideo", "-pix_fmt", "rgb24", raw.string()}) == 0);
    const std::string bytes = read_text(raw);
    const auto size = static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3;
    REQUIRE(bytes.size() % size == 0);
    std::vector<std::vector<std::uint8_t>> frames;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
      frames.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(size));
    }
    return frames;
  }
  [[nodiscard]] const TemporaryDirectory& folder() const noexcept { return dir_; }

 private:
  [[nodiscard]] int run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"ffmpeg", "-y", "-loglevel", "error", "-threads", "1"});
    Process process(arguments, dir_ / "ffmpeg.log");
    const int code = process.wait();
    CAPTURE(process.output());
    return code;
  }

  TemporaryDirectory dir_;
};

}  // namespace forebay::testing
