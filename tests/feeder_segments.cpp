// Clips of the segments of videos named in the rows of a table.
#include <forebay/feeder.hpp>

#include "clip_folder.hpp"
#include "dataset_support.hpp"
#include "test.hpp"

namespace forebay::test_feeder_segments {
namespace {

using namespace testing;
using Segment = std::array<int, 2>;

// A table with a row for each of these segments of each video, in frames or in seconds.
std::string table_of(const ClipFolder& data, std::span<const Segment> segments, ClipUnit unit) {
  std::ostringstream table;
  table << "video,begin,label,end\n";
  for (const auto& [path, frames] : data.shown) {
    for (const auto& [begin, end] : segments) {
      const double scale = unit == ClipUnit::seconds ? 0.04 : 1;
      table << path << ',' << begin * scale << ',' << begin % 3 << ',' << end * scale << '\n';
    }
  }
  return table.str();
}

TEST_CASE("clips of segments begin and end within them, whether a table has them in frames or in seconds") {
  const ClipFolder* const data = clip_folder();
  if (data == nullptr) return;
  const TemporaryDirectory tables;
  constexpr std::array<Segment, 3> kSegments{{{5, 30}, {31, 41}, {42, 99}}};
  for (const ClipUnit unit : {ClipUnit::frames, ClipUnit::seconds}) {
    write_file(tables / "table.csv", table_of(*data, kSegments, unit));
    Options options = options_of(tables / "table.csv");
    options.run.epochs = 3;
    options.dataset.clip.segment = "begin, end";
    options.dataset.clip.unit = unit;
    std::set<std::uint64_t> of_first;
    const Starts starts = serve_clips(options, *data);
    CHECK(starts.size() == 3 * kSegments.size() * data->shown.size());
    for (const auto& [clip, start] : starts) {
      const std::uint64_t begin = std::stoull(clip.second.substr(clip.second.rfind(' ')));
      const auto segment = std::ranges::find(kSegments, static_cast<int>(begin), [](const auto& of) { return of[0]; });
      REQUIRE(segment != kSegments.end());
      const std::uint64_t end = std::min(static_cast<std::uint64_t>((*segment)[1]), std::uint64_t{kFrames});
      CHECK(start >= begin);
      CHECK(start + kSpan <= end);
      if (begin == 5) of_first.insert(start);
    }
    CHECK(of_first.size() > 3);
    const auto dataset = open_dataset(options.dataset);
    CHECK(dataset->sample(1).label == 31 % 3);
    CHECK(dataset->fields().empty());
    CHECK(dataset->counts().images == data->shown.size());
    options.run = {.epochs = 1, .eval = true};
    for (const auto& [clip, start] : serve_clips(options, *data)) {
      if (clip.second.ends_with("[frame 5]")) CHECK(start == 5 + (25 - kSpan) / 2);
    }
  }
}

TEST_CASE("segments that are shorter than a clip repeat their own last frame, and those of no frames are bad") {
  const ClipFolder* const data = clip_folder();
  if (data == nullptr) return;
  const TemporaryDirectory tables;
  constexpr std::array<Segment, 5> kSegments{{{40, 45}, {5, 30}, {60, 70}, {9, 9}, {-1, 20}}};
  write_file(tables / "table.csv", table_of(*data, kSegments, ClipUnit::frames));
  Options options = options_of(tables / "table.csv");
  options.dataset.clip.segment = "begin, end";
  const std::size_t videos = data->shown.size();
  const auto without = open_dataset(options.dataset);
  CHECK(without->size() == videos);
  const auto count = [&](std::string_view reason) {
    return static_cast<std::size_t>(std::ranges::count_if(
        without->skipped(), [&](const Skipped& entry) { return contains(entry.reason, std::string(reason)); }));
  };
  CHECK(count("a segment from 60, and the video has 60 frames") == videos);
  CHECK(count("a segment from 9 to 9") == videos);
  CHECK(count("a segment from -1 to 20") == videos);
  CHECK(count("segments of") == 1);

  options.dataset.clip.short_videos = ShortVideos::repeat_last;
  options.max_bad = 1.0;
  options.run.epochs = 1;
  std::size_t of_short = 0;
  const std::shared_ptr<const Dataset> dataset = open_dataset(options.dataset);
  Feeder feeder(options);
  while (const auto batch = feeder.next()) {
    const TensorView images = batch->images();
    const std::size_t size = images.bytes() / batch->size();
    for (std::size_t i = 0; i < batch->size(); ++i) {
      const std::string name = dataset->name(batch->ids()[i]);
      if (!name.ends_with("[frame 40]")) continue;
      std::vector<make::Image> shown = data->shown.at(name.substr(0, name.rfind('[')));
      shown.resize(45);  // so that the last frame, which is repeated, is the segment's
      const auto position = batch->batch() * static_cast<std::uint64_t>(options.dataset.batch_size) + i;
      CHECK(start_of({images.as<std::byte>() + i * size, size}, shown, options, batch->epoch(), position) == 40);
      ++of_short;
    }
  }
  CHECK(of_short == videos);
}

TEST_CASE("columns of segments are asked for by name, and said where nobody asks for them") {
  const ClipFolder* const data = clip_folder();
  if (data == nullptr) return;
  const TemporaryDirectory tables;
  constexpr std::array<Segment, 1> kSegments{{{5, 30}}};
  write_file(tables / "table.csv", table_of(*data, kSegments, ClipUnit::frames));
  Options options = options_of(tables / "table.csv");
  options.dataset.format = "table";
  const auto problem = [&](auto change) {
    Options changed = options;
    change(changed.dataset);
    return error_of([&] {
      validate(changed);
      (void)open_dataset(changed.dataset);
    });
  };
  const auto says = [&](const std::string& text) {
    return std::ranges::any_of(open_dataset(options.dataset)->skipped(),
                               [&](const Skipped& entry) { return entry.told && contains(entry.reason, text); });
  };
  CHECK(says("clip.segment = \"begin, end\""));
  options.dataset.clip.segment = "begin, end";
  CHECK_FALSE(says("clip.segment"));
  CHECK(problem([](DatasetOptions& with) { with.clip.segment = "begin, stop"; }).starts_with("clip.segment"));
  CHECK(contains(problem([](DatasetOptions& with) { with.clip.segment = "begin"; }), "1 numbers where 2 are wanted"));
  CHECK(contains(problem([&](DatasetOptions& with) { with.path = data->root().string(), with.format = "auto"; }),
                 "names columns of a table"));
  CHECK(contains(problem([](DatasetOptions& with) { with.clip = {.frames = 4, .unit = ClipUnit::seconds}; }),
                 "clip.segment, which is empty"));
}

}  // namespace
}  // namespace forebay::test_feeder_segments
