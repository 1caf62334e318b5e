#pragma once

#include <forebay/feeder.hpp>

#include "make/image.hpp"
#include "make/sample_maker.hpp"
#include "memory_dataset.hpp"
#include "test.hpp"
#include "video_support.hpp"

// A folder of videos, and feeders of clips from them; each frame of a clip is looked up in its
// video.
namespace forebay::testing {

inline constexpr int kFrames = 60;

// Two classes of videos, and the frames of each as displayed.
struct ClipFolder {
  ClipFolder() {
    for (const char* name : {"a", "b"}) std::filesystem::create_directories(root() / name);
    add("a/groups.mp4", "-c:v mpeg4 -g 12 -bf 2");
    add("a/one-group.mp4", "-c:v libx264 -g 250 -bf 3");
    add("b/vp9.webm", "-c:v libvpx-vp9 -g 12 -cpu-used 8");
    add("b/lossless.mkv", "-c:v ffv1");
    if (const auto upright = videos.make("upright.mp4", "-c:v libx264 -g 12", kFrames)) {
      const auto turned = videos.convert(*upright, "data/b/turned.mp4", "-c copy -metadata:s:v rotate=90");
      shown[turned.string()] = frames_of(turned, 8);
    }
  }
  void add(const std::string& name, const std::string& arguments, int frames = kFrames) {
    if (const auto path = videos.make("data/" + name, arguments, frames)) shown[path->string()] = frames_of(*path, 1);
  }
  // As displayed.
  [[nodiscard]] std::vector<make::Image> frames_of(const std::filesystem::path& path, int orientation) const {
    std::vector<make::Image> frames;
    for (const std::vector<std::uint8_t>& stored : videos.frames_of(path)) {
      const make::StoredPicture picture{stored, Videos::kWidth, Videos::kHeight, orientation};
      const make::ImageSize size = picture.size();
      picture.show({0, 0, size.width, size.height}, frames.emplace_back());
    }
    return frames;
  }
  [[nodiscard]] std::filesystem::path root() const { return videos.folder() / "data"; }

  Videos videos;
  std::map<std::string, std::vector<make::Image>> shown;
};

// Shared by all cases, because making it takes a second. Null, with a message, if there is no
// ffmpeg.
inline const ClipFolder* clip_folder() {
  static const std::unique_ptr<ClipFolder> made = Videos().can_make() ? std::make_unique<ClipFolder>() : nullptr;
  return made.get();
}

inline Options options_of(const std::filesystem::path& path) {
  Options options = memory_options(2);
  options.dataset.path = path.string();
  options.dataset.clip = {.frames = 4, .stride = 3};
  options.transform.crop = Crop::random_resized;
  options.transform.size = {24, 40};
  options.transform.mirror = 0.5;
  return options;
}

inline constexpr std::uint64_t kSpan = 10;
inline constexpr std::uint64_t kStarts = kFrames - kSpan + 1;

// The bytes that a frame gives as a single image at this position of a run.
inline std::vector<std::byte> image_at(const make::Image& frame, const make::SampleMaker& maker, std::uint64_t epoch,
                                       std::uint64_t position) {
  Sample raw;
  raw.encoding = Encoding::raw;
  raw.width = frame.width;
  raw.height = frame.height;
  raw.channels = 3;
  const auto size = static_cast<std::size_t>(frame.width) * static_cast<std::size_t>(frame.height) * 3;
  make::SampleMaker::Workspace workspace;
  std::vector<std::byte> out(maker.sample_bytes());
  maker.make(std::as_bytes(std::span(frame.pixels)).first(size), raw, epoch, position, {out, {}, nullptr}, workspace);
  return out;
}

// The number of the clip's first frame; nothing, after a failed check, if the clip does not consist
// of these frames.
inline std::optional<std::uint64_t> start_of(std::span<const std::byte> clip, const std::vector<make::Image>& shown,
                                             const Options& options, std::uint64_t epoch, std::uint64_t position) {
  const bool eval = options.run.eval;
  const make::OperationChain chain(OperationRegistry::builtin(), options.transform, eval);
  const make::SampleMaker maker(options.transform, options.seed, eval, chain);
  const auto frames = static_cast<std::size_t>(options.dataset.clip.frames);
  const auto stride = static_cast<std::size_t>(options.dataset.clip.stride);
  REQUIRE(clip.size() == frames * maker.sample_bytes());
  const auto is_frame = [&](std::size_t n, std::size_t number) {
    return std::ranges::equal(image_at(shown[std::min(number, shown.size() - 1)], maker, epoch, position),
                              clip.subspan(n * maker.sample_bytes(), maker.sample_bytes()));
  };
  for (std::size_t start = 0; start < shown.size(); ++start) {
    if (!is_frame(0, start)) continue;
    for (std::size_t n = 1; n < frames; ++n) CHECK(is_frame(n, start + n * stride));
    return start;
  }
  FAIL_CHECK("no frame of the video");
  return std::nullopt;
}

// The first frame of each clip, by epoch and name.
using Starts = std::map<std::pair<std::uint64_t, std::string>, std::uint64_t>;

inline Starts serve_clips(const Options& options, const ClipFolder& data, std::uint64_t bad = 0) {
  const std::shared_ptr<const Dataset> dataset = open_dataset(options.dataset);
  Feeder feeder(options);
  Starts starts;
  while (const auto batch = feeder.next()) {
    const TensorView images = batch->images();
    const std::size_t size = images.bytes() / batch->size();
    for (std::size_t i = 0; i < batch->size(); ++i) {
      const std::uint64_t id = batch->ids()[i];
      std::string name = dataset->name(id);
      CAPTURE(name);
      const auto position = batch->batch() * static_cast<std::uint64_t>(options.dataset.batch_size) + i;
      const std::string path = name.substr(0, name.rfind("[frame "));
      const auto start =
          start_of({images.as<std::byte>() + i * size, size}, data.shown.at(path), options, batch->epoch(), position);
      CHECK(batch->labels()[i] == dataset->sample(id).label);
      if (start) CHECK(starts.emplace(std::pair(batch->epoch(), std::move(name)), *start).second);
    }
  }
  CHECK(feeder.summary().bad_samples == bad);
  return starts;
}

}  // namespace forebay::testing
