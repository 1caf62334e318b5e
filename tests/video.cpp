#include "base/file_io.hpp"
#include "test.hpp"
#include "video/clip_decoder.hpp"
#include "video/index_video.hpp"
#include "video/video_table.hpp"
#include "video_support.hpp"

// Indexing videos and decoding clips, compared with decoding the whole video.
namespace forebay::test_video {

using namespace forebay::testing;
using namespace forebay::video;

namespace {

constexpr std::int64_t kMaxPixels = 1'000'000;

std::vector<std::byte> index_of(const std::filesystem::path& path, std::vector<double>* shown_at = nullptr) {
  const OpenFile file = open_regular(path.string());
  return index_video({.bytes = file.size,
                      .read = [&](std::uint64_t offset,
                                  std::span<std::byte> to) { read_at(file, static_cast<std::size_t>(offset), to); }},
                     shown_at);
}

// The bytes that a reader passes to a decoder.
std::vector<std::byte> read_clip(const std::filesystem::path& path, const ClipBytes& clip) {
  std::vector<std::byte> bytes = clip.table;
  bytes.resize(clip.table.size() + clip.length);
  read_at(open_regular(path.string()), static_cast<std::size_t>(clip.offset),
          std::span(bytes).subspan(clip.table.size()));
  return bytes;
}

using Pixels = std::vector<std::uint8_t>;

// Decodes a clip. For each frame, the requested rows; empty for frames that are not delivered.
std::vector<Pixels> decode(ClipDecoder& decoder, std::span<const std::byte> bytes, std::uint64_t start,
                           const ClipRule& rule, std::optional<ClipDecoder::Rows> rows = {}) {
  const ClipDecoder::Facts facts = decoder.open(bytes, kMaxPixels);
  const ClipDecoder::Rows wanted = rows.value_or(ClipDecoder::Rows{0, facts.height});
  std::vector<Pixels> frames(rule.frames);
  decoder.decode(start, rule, wanted, [&](std::uint32_t n, const Frame& frame) {
    CHECK(frames[n].empty());
    const std::size_t row = static_cast<std::size_t>(frame.width) * 3;
    const auto begin = frame.pixels.begin() + static_cast<std::ptrdiff_t>(row) * wanted.first;
    frames[n].assign(begin, begin + static_cast<std::ptrdiff_t>(row) * (wanted.last - wanted.first));
  });
  return frames;
}

// Checks that clips of all lengths and starts show the same as the whole video.
void check_clips(const Videos& videos, const std::filesystem::path& path, std::uint64_t seed,
                 int width = Videos::kWidth, int height = Videos::kHeight) {
  CAPTURE(path.filename().string());
  const std::vector<Pixels> truth = videos.frames_of(path, width, height);
  const std::vector<std::byte> table = index_of(path);
  const IndexedVideo video(table);
  const VideoFacts facts = video.facts();
  REQUIRE(facts.frames == truth.size());
  ClipDecoder decoder;
  Random random = random_from(seed);
  for (int round = 0; round < (kSanitized ? 8 : 25); ++round) {
    ClipRule rule{.frames = 1 + static_cast<std::uint32_t>(random.below(8)),
                  .stride = 1 + static_cast<std::uint32_t>(random.below(20))};
    while (rule.span() > facts.frames) rule.stride = (rule.stride + 1) / 2, rule.frames = (rule.frames + 1) / 2;
    const std::uint64_t most = facts.frames - rule.span() + 1;
    const std::uint64_t first = random.below(most);
    const std::uint64_t starts = 1 + random.below(most - first);
    const std::uint64_t start = random.below(starts);
    CAPTURES(rule.frames, rule.stride, first + start);
    const std::vector<Pixels> frames = decode(decoder, read_clip(path, video.clip(first, starts, rule)), start, rule);
    for (std::uint32_t n = 0; n < rule.frames; ++n)
      CHECK(frames[n] == truth[first + start + std::uint64_t{n} * rule.stride]);
  }
}

struct Made {
  const char* file;
  const char* arguments;
};
constexpr auto kVideos = std::to_array<Made>({
    {"every-frame-a-key.mp4", "-c:v libx264 -g 1"},
    {"short-groups.mp4", "-c:v libx264 -g 12 -bf 3"},
    {"one-group.mp4", "-c:v libx264 -g 250 -bf 3 -b_strategy 0"},
    {"open-groups.mp4", "-c:v libx264 -x264-params keyint=12:min-keyint=12:open-gop=1:scenecut=0:bframes=3:b-adapt=0"},
    {"open-groups.mkv", "-c:v libx264 -x264-params keyint=12:min-keyint=12:open-gop=1:scenecut=0:bframes=3:b-adapt=0"},
    {"refreshed.mp4", "-c:v libx264 -x264-params keyint=12:intra-refresh=1:bframes=0"},
    {"no-reordering.mkv", "-c:v libx264 -g 12 -bf 0"},
    {"interlaced.mp4", "-c:v libx264 -g 12 -flags +ildct+ilme"},
    {"hevc.mp4", "-c:v libx265 -x265-params log-level=none:ctu=16:keyint=12:min-keyint=12:open-gop=0"},
    {"hevc-open.mp4", "-c:v libx265 -x265-params log-level=none:ctu=16:keyint=12:min-keyint=12:open-gop=1:bframes=4"},
    {"hevc-layers.mkv", "-c:v libx265 -x265-params log-level=none:ctu=16:keyint=60:temporal-layers=1"},
    {"ten-bits.mp4", "-c:v libx265 -pix_fmt yuv420p10le -x265-params log-level=none:ctu=16:keyint=12"},
    {"vp9.webm", "-c:v libvpx-vp9 -g 12 -auto-alt-ref 1 -lag-in-frames 16 -cpu-used 8"},
    {"vp8.webm", "-c:v libvpx -g 12 -auto-alt-ref 1 -lag-in-frames 16 -cpu-used 8"},
    {"av1.mp4", "-c:v libaom-av1 -g 12 -cpu-used 8"},
    {"av1.mkv", "-c:v libsvtav1 -g 12 -preset 12"},
    {"mpeg4.mp4", "-c:v mpeg4 -g 12 -bf 2"},
    {"mpeg4.avi", "-c:v mpeg4 -g 12"},
    {"xvid.avi", "-c:v libxvid -g 60"},
    {"mpeg4-reordered.avi", "-c:v mpeg4 -g 12 -bf 2"},
    {"packed.avi", "-c:v libxvid -g 12 -bf 2"},
    {"photographs.mov", "-c:v mjpeg"},
    {"lossless.mkv", "-c:v ffv1"},
    {"whole-colours.mp4", "-c:v libx264 -pix_fmt yuv444p -g 12"},
    {"grey.mkv", "-c:v ffv1 -pix_fmt gray"},
    {"grey-16.mkv", "-c:v ffv1 -pix_fmt gray16le"},
    {"bt709.mp4", "-c:v libx264 -g 12 -colorspace bt709 -color_primaries bt709 -color_trc bt709"},
    {"full-range.mp4", "-c:v libx264 -g 12 -pix_fmt yuvj420p"},
    {"matrix-outside.mkv", "-c:v ffv1 -pix_fmt yuv420p -colorspace bt709 -color_range pc"},
    {"matrix-outside.mp4", "-c:v mpeg4 -g 12 -color_range pc -colorspace bt709 -movflags write_colr"},
    {"fragments.mp4", "-c:v libx264 -g 12 -movflags +frag_keyframe+empty_moov"},
    {"fast-start.mp4", "-c:v libx264 -g 12 -movflags +faststart"},
    {"with-sound.mp4", "-f lavfi -i sine=duration=2.4 -c:v libx264 -g 12 -c:a aac"},
    {"with-sound.mkv", "-f lavfi -i sine=duration=2.4 -c:v libx264 -g 12 -c:a libopus"},
    {"odd-times.mp4", "-c:v libx264 -g 12 -vf setpts=PTS+random(0)*0.3/TB/25 -vsync vfr -video_track_timescale 90000"},
});

}  // namespace

TEST_CASE("every clip is what the whole video shows there") {
  const Videos videos;
  if (!videos.can_make()) return;
  std::uint64_t seed = 20261127;
  for (const Made& made : kVideos) {
    const auto path = videos.make(made.file, made.arguments);
    if (path) check_clips(videos, *path, seed++);
  }
}

TEST_CASE("decoding begins at key frames, whatever the container calls one") {
  const Videos videos;
  if (!videos.can_make()) return;
  for (const Made& made :
       {Made{"h263.avi", "-c:v h263 -g 12 -vf scale=176:144"}, {"h263p.mkv", "-c:v h263p -g 12 -vf scale=176:144"}}) {
    if (const auto path = videos.make(made.file, made.arguments)) check_clips(videos, *path, 1, 176, 144);
  }
  // Without the table of its key frames each packet of an mp4 file is one.
  const auto without_table = [&](const std::filesystem::path& path) {
    std::string bytes = read_text(path);
    const std::size_t at = bytes.find("stss");
    REQUIRE(at != std::string::npos);
    bytes.replace(at, 4, "skip");
    std::ofstream(path, std::ios::binary) << bytes;
  };
  if (const auto path = videos.make("hevc.mp4", "-c:v libx265 -x265-params log-level=none:ctu=16:keyint=12")) {
    without_table(*path);
    check_clips(videos, *path, 2);
  }
  if (const auto path = videos.make("index.avi", "-c:v msmpeg4v2 -g 12")) {
    std::string bytes = read_text(*path);
    constexpr std::size_t kEntry = 16;
    for (std::size_t at = bytes.rfind("idx1") + 8; at + kEntry <= bytes.size(); at += kEntry) bytes[at + 4] = 0x10;
    std::ofstream(*path, std::ios::binary) << bytes;
    check_clips(videos, *path, 3);
  }
  const auto path = videos.make("cinepak.mov", "-c:v cinepak -vf scale=96:64", 5);
  if (!path) return;
  without_table(*path);
  const auto table = index_of(*path);
  ClipDecoder decoder;
  const auto frame = [&](std::uint64_t number) {
    const ClipRule rule{.frames = 1};
    return decode(decoder, read_clip(*path, IndexedVideo(table).clip(number, 1, rule)), 0, rule)[0];
  };
  CHECK(frame(0) == videos.frames_of(*path, 96, 64)[0]);
  CHECK(contains(error_of<SampleError>([&] { return frame(1); }), "calls a frame a key frame that is none"));
}

TEST_CASE("edit lists cut off what they cut off") {
  const Videos videos;
  if (!videos.can_make()) return;
  const auto whole = videos.make("whole.mp4", "-c:v libx264 -g 12 -bf 3");
  if (!whole) return;
  const auto cut = videos.convert(*whole, "cut.mp4", "-c copy", "-ss 0.7");
  CHECK(IndexedVideo(index_of(cut)).facts().frames < 60);
  check_clips(videos, cut, 1);
}

TEST_CASE("a cut in an open group hides the frames that refer to what it took away") {
  const Videos videos;
  if (!videos.can_make()) return;
  for (const auto& [name, arguments] :
       {std::pair{"h264",
                  "-c:v libx264 -x264-params "
                  "keyint=12:min-keyint=12:open-gop=1:scenecut=0:bframes=3:b-adapt=0"},
        {"hevc", "-c:v libx265 -x265-params log-level=none:ctu=16:keyint=12:min-keyint=12:open-gop=1:bframes=4"},
        {"mpeg2", "-c:v mpeg2video -g 12 -bf 2"}}) {
    CAPTURE(std::string(name));
    const auto whole = videos.make("whole.mp4", arguments);
    if (!whole) continue;
    const auto stream = videos.convert(*whole, "whole.ts", "-c copy");
    const auto cut = videos.convert(stream, "cut.mkv", "-c copy", "-ss 1");
    check_clips(videos, cut, 1);
  }
}

TEST_CASE("an avi's empty chunks are times at which it shows nothing new") {
  const Videos videos;
  if (!videos.can_make()) return;
  const auto path =
      videos.make("dropped.avi", "-c:v huffyuv -vf select='not(between(n,10,14))' -fps_mode passthrough", 25);
  REQUIRE(path);
  std::vector<double> at;
  (void)index_of(*path, &at);
  REQUIRE(at.size() == 20);
  for (std::size_t i = 0; i < at.size(); ++i)
    CHECK(at[i] == doctest::Approx(static_cast<double>(i < 10 ? i : i + 5) / 25));
}

TEST_CASE("frames have their own size, whatever the container states") {
  const Videos videos;
  if (!videos.can_make()) return;
  const auto path = videos.make("size.webm", "-c:v libvpx -g 12 -cpu-used 8");
  if (!path) return;
  std::string bytes = read_text(*path);
  const std::size_t at = bytes.find("\xb0\x81\x60\xba\x81\x42");  // PixelWidth 96, PixelHeight 66
  REQUIRE(at != std::string::npos);
  bytes[at + 2] = '\x30';
  std::ofstream(*path, std::ios::binary) << bytes;
  const auto video = IndexedVideo(index_of(*path));
  CHECK(video.facts().width == Videos::kWidth);
  CHECK(video.facts().height == Videos::kHeight);
  const ClipRule rule{.frames = 2, .stride = 5};
  ClipDecoder decoder;
  CHECK(decode(decoder, read_clip(*path, video.clip(7, 1, rule)), 0, rule)[1].size() ==
        std::size_t{3} * Videos::kWidth * Videos::kHeight);
}

TEST_CASE("of a video that is too short the last frame is repeated") {
  const Videos videos;
  if (!videos.can_make()) return;
  const auto path = videos.make("short.mp4", "-c:v mpeg4", 5);
  REQUIRE(path);
  const std::vector<Pixels> truth = videos.frames_of(*path);
  REQUIRE(truth.size() == 5);
  const ClipRule rule{.frames = 6, .stride = 2};
  ClipDecoder decoder;
  const auto frames = decode(decoder, read_clip(*path, IndexedVideo(index_of(*path)).clip(0, 1, rule)), 0, rule);
  for (std::size_t n = 0; n < frames.size(); ++n) CHECK(frames[n] == truth[std::min<std::size_t>(2 * n, 4)]);
}

TEST_CASE("rows of a frame are those of the whole frame") {
  const Videos videos;
  if (!videos.can_make()) return;
  for (const char* arguments :
       {"-c:v mpeg4 -g 12", "-c:v ffv1 -pix_fmt yuv444p", "-c:v ffv1 -pix_fmt bgr0", "-c:v ffv1 -pix_fmt yuv420p10le",
        "-c:v ffv1 -pix_fmt yuv422p -vf noise=alls=60:allf=t", "-c:v ffv1 -pix_fmt yuv410p -vf noise=alls=60:allf=t",
        "-c:v ffv1 -pix_fmt yuv440p", "-c:v ffv1 -pix_fmt yuv420p -vf scale=96:68,noise=alls=60:allf=t",
        "-c:v ffv1 -pix_fmt yuv410p -vf scale=96:68", "-c:v ffv1 -pix_fmt yuv420p -vf scale=96:67"}) {
    CAPTURE(arguments);
    const auto path = videos.make("rows.mkv", arguments, 20);
    REQUIRE(path);
    const ClipRule rule{.frames = 2, .stride = 3};
    const auto bytes = read_clip(*path, IndexedVideo(index_of(*path)).clip(3, 1, rule));
    const auto row = static_cast<std::ptrdiff_t>(Videos::kWidth) * 3;
    ClipDecoder decoder;
    const auto whole = decode(decoder, bytes, 0, rule);
    const auto height = static_cast<std::int32_t>(std::ssize(whole[0]) / row);
    for (const ClipDecoder::Rows rows :
         {ClipDecoder::Rows{0, 1}, {1, 2}, {3, 40}, {8, 61}, {17, height}, {30, 31}, {height - 1, height}}) {
      CAPTURES(rows.first, rows.last);
      const auto some = decode(decoder, bytes, 0, rule, rows);
      for (std::size_t n = 0; n < 2; ++n)
        CHECK(some[n] == Pixels(whole[n].begin() + row * rows.first, whole[n].begin() + row * rows.last));
    }
  }
}

TEST_CASE("rows have all their pixels, whatever the width and whatever was decoded before") {
  const Videos videos;
  if (!videos.can_make()) return;
  ClipDecoder decoder;
  const auto larger = videos.make("larger.mkv", "-c:v ffv1 -pix_fmt yuv420p -vf negate,scale=200:90", 2);
  REQUIRE(larger);
  const ClipRule rule{.frames = 2};
  for (int width = 82; width < 98; ++width) {
    CAPTURE(width);
    const auto path = videos.make(
        "width.mkv", "-c:v ffv1 -pix_fmt yuv420p -vf scale=" + std::to_string(width) + ":66:flags=bilinear", 2);
    REQUIRE(path);
    for (const auto& [file, size] : {std::pair{*larger, std::pair{200, 90}}, {*path, {width, 66}}}) {
      const auto frames = decode(decoder, read_clip(file, IndexedVideo(index_of(file)).clip(0, 1, rule)), 0, rule);
      CHECK(frames == videos.frames_of(file, size.first, size.second));
    }
  }
}

TEST_CASE("turns that containers state") {
  const Videos videos;
  if (!videos.can_make()) return;
  const auto path = videos.make("upright.mp4", "-c:v mpeg4", 5);
  REQUIRE(path);
  CHECK(IndexedVideo(index_of(*path)).facts().orientation == 1);
  for (const auto& [degrees, orientation] : {std::pair{"90", 8}, {"180", 3}, {"270", 6}}) {
    CAPTURE(degrees);
    // ffmpeg's option rotates counter-clockwise.
    const auto turned = videos.convert(*path, "turned.mp4", std::string("-c copy -metadata:s:v:0 rotate=") + degrees);
    CHECK(IndexedVideo(index_of(turned)).facts().orientation == orientation);
  }
}

TEST_CASE("files that are no videos, or not whole ones, are refused") {
  const Videos videos;
  if (!videos.can_make()) return;
  const auto& dir = videos.folder();
  const auto refusal = [&](const std::string& bytes) {
    std::ofstream(dir / "odd", std::ios::binary) << bytes;
    return error_of<SampleError>([&] { return index_of(dir / "odd"); });
  };
  CHECK(contains(refusal("This is a text, and no video at all."), "no mp4, mov, mkv, webm or avi file"));
  CHECK(contains(refusal(std::string(70'000, '\0')), "no mp4, mov, mkv, webm or avi file"));
  const auto sound = videos.make("sound.mp4", "-f lavfi -i sine=duration=1 -map 1 -c:a aac");
  REQUIRE(sound);
  CHECK(contains(error_of<SampleError>([&] { return index_of(*sound); }), "no video stream"));
  for (const std::string name : {"cut.mp4", "cut.mkv", "cut.avi"}) {
    const auto path = videos.make(name, "-c:v mpeg4 -g 12");
    REQUIRE(path);
    const std::string whole = read_text(*path);
    for (const double share : {0.3, 0.7, 0.95}) {
      CAPTURES(name, share);
      const std::string cut =
          refusal(whole.substr(0, static_cast<std::size_t>(share * static_cast<double>(whole.size()))));
      CHECK(cut != "");
      if (name == "cut.mkv") CHECK(contains(cut, "it is cut short"));
    }
  }
}

TEST_CASE("damage ends in an error or in frames, and never in anything else") {
  const Videos videos;
  if (!videos.can_make()) return;
  for (const Made& made :
       {Made{"a.mp4", "-c:v libx264 -g 12"}, {"b.webm", "-c:v libvpx-vp9 -cpu-used 8"}, {"c.avi", "-c:v mpeg4"}}) {
    const auto path = videos.make(made.file, made.arguments, 20);
    if (!path) continue;
    const ClipRule rule{.frames = 4, .stride = 3};
    const auto table = index_of(*path);
    const ClipBytes clip = IndexedVideo(table).clip(2, 5, rule);
    const auto whole = read_clip(*path, clip);
    Random random = random_from(7);
    ClipDecoder decoder;
    int errors = 0;
    const int rounds = kSanitized ? 60 : 300;
    for (int round = 0; round < rounds; ++round) {
      auto bytes = whole;
      for (std::uint64_t i = random.below(8) + 1; i > 0; --i)
        bytes[random.below(bytes.size())] = std::byte(random.below(256));
      if (random.below(4) == 0) bytes.resize(random.below(bytes.size()));
      if (!error_of<SampleError>([&] {
             decoder.open(bytes, kMaxPixels);
             decoder.decode(random.below(5), rule, {0, 1}, [](std::uint32_t, const Frame&) {});
             return 0;
           }).empty())
        ++errors;
    }
    MESSAGE(std::string(made.file) << ": " << errors << " of " << rounds << " damaged clips refused");
    CHECK(errors > 0);
    CHECK(decode(decoder, whole, 1, rule)[3].size() > 0);  // it still works
  }
}

TEST_CASE("a file is read once when it is indexed") {
  const Videos videos;
  if (!videos.can_make()) return;
  for (const char* name : {"once.mp4", "once.mkv", "once.avi"}) {
    CAPTURE(std::string(name));
    const auto path = videos.make(name, "-c:v mpeg4 -g 12");
    REQUIRE(path);
    const std::vector<std::byte> file = read_bytes(*path);
    std::uint64_t read = 0;
    const auto table = index_video({.bytes = file.size(), .read = [&](std::uint64_t offset, std::span<std::byte> to) {
                                      read += to.size();
                                      std::ranges::copy(std::span(file).subspan(offset, to.size()), to.begin());
                                    }});
    CHECK(read == file.size());
    const IndexedVideo video(table);
    CHECK(video.facts().frames == 60);
    for (const auto& [first, starts] : {std::pair(0, 0), {60, 1}, {0, 61}, {59, 2}}) {
      CHECK(contains(
          error_of<SampleError>([&] {
            return video.clip(static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(starts), {}).length;
          }),
          "after the end"));
    }
  }
}

}  // namespace forebay::test_video
