// Samples that are clips of videos, from a folder or a list to batches.
#include <forebay/feeder.hpp>

#include "data/index_image.hpp"
#include "data/record_table.hpp"
#include "data/scan.hpp"
#include "dataset_support.hpp"
#include "make/image.hpp"
#include "make/sample_maker.hpp"
#include "memory_dataset.hpp"
#include "test.hpp"
#include "video_support.hpp"

namespace forebay::test_feeder_clips {
namespace {

using namespace testing;
using Bytes = std::vector<std::byte>;
using Pixels = std::vector<std::uint8_t>;

constexpr int kFrames = 60;

// Two classes of videos, and what each of them shows.
struct Folder {
  Folder() {
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
    for (const Pixels& stored : videos.frames_of(path)) {
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

// One for all cases, because making it takes a second. Null, which is said, where there is no ffmpeg.
const Folder* folder() {
  static const std::unique_ptr<Folder> made = Videos().can_make() ? std::make_unique<Folder>() : nullptr;
  return made.get();
}

Options options_of(const std::filesystem::path& path) {
  Options options = memory_options(2);
  options.dataset.path = path.string();
  options.dataset.clip = {.frames = 4, .stride = 3};
  options.transform.crop = Crop::random_resized;
  options.transform.size = {24, 40};
  options.transform.mirror = 0.5;
  return options;
}

constexpr std::uint64_t kSpan = 10;
constexpr std::uint64_t kStarts = kFrames - kSpan + 1;

// What a frame is as an image at this place of a run.
Bytes image_at(const make::Image& frame, const make::SampleMaker& maker, std::uint64_t epoch, std::uint64_t position) {
  Sample raw;
  raw.encoding = Encoding::raw;
  raw.width = frame.width;
  raw.height = frame.height;
  raw.channels = 3;
  const auto size = static_cast<std::size_t>(frame.width) * static_cast<std::size_t>(frame.height) * 3;
  make::SampleMaker::Workspace workspace;
  Bytes out(maker.sample_bytes());
  maker.make(std::as_bytes(std::span(frame.pixels)).first(size), raw, epoch, position, {out, {}, nullptr}, workspace);
  return out;
}

// The frame that a clip begins with; nothing, after a failed check, if it is not made of these frames.
std::optional<std::uint64_t> start_of(std::span<const std::byte> clip, const std::vector<make::Image>& shown,
                                      const Options& options, std::uint64_t epoch, std::uint64_t position) {
  const make::SampleMaker maker(options.transform, options.seed, options.run.eval);
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

// By epoch and name, the frame that each clip begins with.
using Starts = std::map<std::pair<std::uint64_t, std::string>, std::uint64_t>;

Starts serve(const Options& options, const Folder& data, std::uint64_t bad = 0) {
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

TEST_CASE("each frame of a clip is that of the video, and has the view and operations of an image at its place") {
  const Folder* const data = folder();
  if (data == nullptr) return;
  Options options = options_of(data->root());
  options.run.epochs = kSanitized ? 1 : 3;
  std::set<std::uint64_t> different;
  for (const std::vector<std::string>& operations : {std::vector<std::string>{}, {"colour", "blur", "erase"}}) {
    options.transform.operations = operations;
    for (const Decode decode : {Decode::region, Decode::full}) {
      options.transform.decode = decode;
      const Starts starts = serve(options, *data);
      CHECK(starts.size() == static_cast<std::size_t>(options.run.epochs) * data->shown.size());
      for (const auto& [clip, start] : starts) {
        CHECK(start < kStarts);
        different.insert(start);
      }
    }
  }
  CHECK(different.size() > (kSanitized ? 1 : 5));
}

TEST_CASE("shapes, layouts and types of batches of clips") {
  const Folder* const data = folder();
  if (data == nullptr) return;
  for (const std::int64_t channels : {3, 1}) {
    for (const DType dtype : {DType::uint8, DType::float32, DType::float16, DType::bfloat16}) {
      for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
        Options options = options_of(data->root());
        options.transform.dtype = dtype;
        options.transform.layout = layout;
        options.transform.channels = channels;
        Feeder feeder(options);
        const bool planes = layout == Layout::nchw;
        const Shape one = planes ? Shape{4, channels, 24, 40} : Shape{4, 24, 40, channels};
        CHECK(feeder.fields()[0].shape == one);
        const auto batch = feeder.next();
        REQUIRE(batch);
        CHECK(batch->images().shape == (planes ? Shape{2, 4, channels, 24, 40} : Shape{2, 4, 24, 40, channels}));
        CHECK(batch->views()[0].width + batch->views()[0].height == Videos::kWidth + Videos::kHeight);
        const std::size_t size = batch->images().bytes() / 2;
        const auto dataset = open_dataset(options.dataset);
        (void)start_of({batch->images().as<std::byte>(), size}, data->shown.at(dataset->name(batch->ids()[0])), options,
                       batch->epoch(), batch->batch() * 2);
      }
    }
  }
}

TEST_CASE("CutMix swaps the same rectangle of all frames") {
  const Folder* const data = folder();
  if (data == nullptr) return;
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    Options options = options_of(data->root());
    options.transform.layout = layout;
    const auto first = [&] {
      Feeder feeder(options);
      const auto batch = feeder.next();
      REQUIRE(batch);
      const auto* const bytes = batch->images().as<std::uint8_t>();
      return std::vector<std::uint8_t>(bytes, bytes + batch->images().bytes());
    };
    const auto plain = first();
    options.transform.cutmix.probability = 1;
    const auto mixed = first();
    REQUIRE(plain.size() == mixed.size());
    REQUIRE(plain != mixed);
    const std::size_t picture = plain.size() / 2 / 4;
    const bool planes = layout == Layout::nchw;
    // By pixel: of its values in all frames and channels, those that only the other clip has, and those only its own.
    std::vector<std::array<int, 2>> from(24 * 40);
    for (std::size_t i = 0; i < plain.size() / 2; ++i) {
      const std::uint8_t own = plain[i];
      const std::uint8_t other = plain[i + plain.size() / 2];
      CHECK((mixed[i] == own || mixed[i] == other));
      const std::size_t pixel = planes ? i % picture % from.size() : i % picture / 3;
      if (own != other) ++from[pixel][mixed[i] == own ? 1 : 0];
    }
    for (const auto& [others, owns] : from) CHECK((others == 0 || owns == 0));
    CHECK(std::ranges::any_of(from, [](const auto& counts) { return counts[0] > 0; }));
  }
}

TEST_CASE("clips begin anywhere, anew in each epoch; in evaluation and where it is asked for in the middle") {
  const Folder* const data = folder();
  if (data == nullptr) return;
  Options options = options_of(data->root());
  options.run.epochs = 6;
  std::map<std::string, std::set<std::uint64_t>> of_video;
  for (const auto& [clip, start] : serve(options, *data)) of_video[clip.second].insert(start);
  for (const auto& [name, starts] : of_video) CHECK(starts.size() > 2);

  for (const bool eval : {false, true}) {
    options.run.epochs = 1;
    options.run.eval = eval;
    options.dataset.clip.start = eval ? ClipStart::random : ClipStart::center;
    for (const auto& [clip, start] : serve(options, *data)) CHECK(start == (kStarts - 1) / 2);
  }
}

TEST_CASE("an evaluation reads of a video what its middle needs, by the index of the training too") {
  const Folder* const data = folder();
  if (data == nullptr) return;
  const TemporaryDirectory saved;
  Options options = options_of(data->root());
  options.dataset.index = (saved / "videos.index").string();
  options.run.epochs = 1;
  std::map<bool, std::uint64_t> bytes;
  for (const bool eval : {false, true}) {
    options.run.eval = eval;
    Feeder feeder(options);
    while (feeder.next()) continue;
    bytes[eval] = feeder.summary().bytes_read;
  }
  CHECK(bytes[true] < bytes[false] * 3 / 4);
}

TEST_CASE("a sample for every so many frames begins among them, and its bytes are those that it may need") {
  const Folder* const data = folder();
  if (data == nullptr) return;
  Options options = options_of(data->root());
  options.dataset.clip.every = 20;
  options.run.epochs = 2;
  const Starts starts = serve(options, *data);
  CHECK(starts.size() == 2 * 3 * data->shown.size());
  for (const auto& [clip, start] : starts) {
    const std::uint64_t first = std::stoull(clip.second.substr(clip.second.rfind(' ')));
    CHECK(start / 20 * 20 == first);
  }
  const auto dataset = open_dataset(options.dataset);
  for (std::uint64_t id = 0; id < dataset->size(); ++id) {
    const std::string name = dataset->name(id);
    if (!contains(name, "groups.mp4[")) continue;
    Reading reading;
    dataset->read(id, reading);
    CHECK(reading.reserves == 1);
    CHECK(reading.bytes.size() < std::filesystem::file_size(name.substr(0, name.rfind('['))) * 3 / 4);
    CHECK(dataset->sample(id).encoding == Encoding::video);
    CHECK(dataset->sample(id).width == Videos::kWidth);
    CHECK(dataset->sample(id).height == Videos::kHeight);
  }
  // Clips of one video are never divided.
  std::map<std::string, std::set<std::int64_t>> parts;
  for (std::int64_t part = 0; part < 2; ++part) {
    options.dataset.split = {0.5, 0.5};
    options.dataset.part = part;
    for (const auto& [clip, start] : serve(options, *data))
      parts[clip.second.substr(0, clip.second.rfind('['))].insert(part);
  }
  CHECK(parts.size() == data->shown.size());
  for (const auto& [video, of] : parts) CHECK(of.size() == 1);
}

TEST_CASE("videos that are shorter than a clip are left out, which is said, or their last frame is repeated") {
  if (folder() == nullptr) return;
  Folder data;
  data.add("a/short.mp4", "-c:v mpeg4", 7);
  data.add("a/just.mp4", "-c:v mpeg4", 10);
  Options options = options_of(data.root());
  options.run.epochs = 1;
  const auto has_short = [](const Starts& starts) {
    return std::ranges::any_of(starts, [](const auto& each) { return contains(each.first.second, "short.mp4"); });
  };
  const Starts without = serve(options, data);
  CHECK(without.size() == data.shown.size() - 1);
  CHECK_FALSE(has_short(without));
  const auto told = open_dataset(options.dataset)->skipped();
  CHECK(std::ranges::any_of(told, [](const Skipped& entry) {
    return entry.told && !entry.bad && contains(entry.reason, "1 video of") && contains(entry.reason, "short.mp4");
  }));
  options.dataset.clip.short_videos = ShortVideos::repeat_last;
  const Starts all = serve(options, data);
  CHECK(all.size() == data.shown.size());
  CHECK(has_short(all));
}

TEST_CASE("damaged videos are left out of the index, or are bad samples where it does not show there") {
  if (folder() == nullptr) return;
  Folder data;
  const std::size_t videos = data.shown.size();
  const auto path = data.root() / "a" / "one-group.mp4";
  const std::string whole = read_text(path);
  write_file(data.root() / "b" / "cut.mp4", whole.substr(0, whole.size() / 2));
  write_file(data.root() / "b" / "text.webm", "no video");
  write_file(data.root() / "b" / "empty.mp4", "");
  write_file(data.root() / "b" / "pointer.mp4", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  Options options = options_of(data.root());
  options.run.epochs = 2;
  CHECK(serve(options, data, 4).size() == 2 * videos);
  const std::shared_ptr<const Dataset> before = open_dataset(options.dataset);
  CHECK(before->size() == videos);
  std::string reasons;
  for (const Skipped& skipped : before->skipped()) reasons += skipped.bad ? skipped.reason + "\n" : "";
  CHECK(std::ranges::count(reasons, '\n') == 4);
  CHECK(contains(reasons, "the file is empty"));
  CHECK(contains(reasons, "run `git lfs pull`"));

  // Packets that are no longer those of a video, where the index says that they are.
  std::string damaged = whole;
  for (std::size_t at = damaged.size() / 4; at < damaged.size() * 3 / 4; ++at) damaged[at] = static_cast<char>(at * 7);
  write_file(path, damaged);
  for (const auto& [dataset, why] : {std::pair(before, "is not the file that its index was made from"),
                                     {std::shared_ptr<const Dataset>(open_dataset(options.dataset)), ""}}) {
    CAPTURE(why);
    CHECK(dataset->size() == videos);
    Feeder feeder(options, Parts{.dataset = dataset});
    std::uint64_t served = 0;
    while (const auto batch = feeder.next()) {
      served += batch->size();
      for (const std::uint64_t id : batch->ids()) CHECK_FALSE(contains(dataset->name(id), "one-group"));
    }
    CHECK(served == 2 * videos);
    CHECK(feeder.summary().bad_samples == 5);
    Reading reading;
    const auto id = std::uint64_t{1};
    REQUIRE(contains(dataset->name(id), "one-group"));
    CHECK(contains(error_of([&] { dataset->read(id, reading); }), why));
  }
}

TEST_CASE("a saved index has the clips, knows their keys and their files, and clips of others are other clips") {
  if (folder() == nullptr) return;
  Folder data;
  Options options = options_of(data.root());
  options.run.epochs = 1;
  options.dataset.index = (data.videos.folder() / "set.index").string();
  const Starts built = serve(options, data);
  CHECK(serve(options, data) == built);
  const auto dataset = open_dataset(options.dataset);
  const auto copy = restore_dataset(dataset->serialize(), "a copy");
  CHECK(fingerprint(*copy) == fingerprint(*dataset));
  for (std::uint64_t id = 0; id < dataset->size(); ++id) {
    Reading one;
    Reading other;
    dataset->read(id, one);
    copy->read(id, other);
    CHECK(one.bytes == other.bytes);
  }
  const auto problem = [&](auto change) {
    DatasetOptions changed = options.dataset;
    change(changed);
    return error_of([&] { (void)open_dataset(changed); });
  };
  CHECK(contains(problem([](DatasetOptions& changed) { changed.clip.stride = 2; }), "was built for clip.frames = 4"));
  CHECK(contains(problem([](DatasetOptions& changed) { changed.clip = {}; }), "was built for clip.frames = 4"));
  CHECK(problem([](DatasetOptions&) {}).empty());
  std::filesystem::copy_file(data.root() / "a" / "groups.mp4", data.root() / "a" / "new.mp4");
  CHECK(contains(problem([](DatasetOptions&) {}), "has other videos and folders"));
  std::filesystem::remove(data.root() / "a" / "new.mp4");
  CHECK(problem([](DatasetOptions&) {}).empty());
  std::filesystem::copy_file(data.root() / "a" / "groups.mp4", data.root() / "a" / "one-group.mp4",
                             std::filesystem::copy_options::overwrite_existing);
  CHECK(contains(problem([](DatasetOptions&) {}), "one-group.mp4"));

  Options images = memory_options(2);
  CHECK(contains(error_of([&] {
                   Feeder(images, Parts{.dataset = std::shared_ptr<const Dataset>(open_dataset([&] {
                                          DatasetOptions unsaved = options.dataset;
                                          unsaved.index.clear();
                                          return unsaved;
                                        }()))});
                 }),
                 "clip.frames = 0, and the samples of the dataset are clips"));
  images.dataset.clip.frames = 2;
  CHECK(contains(error_of([&] { Feeder(images, Parts{.dataset = std::make_shared<MemoryDataset>(9)}); }),
                 "the samples of the dataset are images"));
}

using Segment = std::array<int, 2>;

// A table with a row for each of these segments of each video, in frames or in seconds.
std::string table_of(const Folder& data, std::span<const Segment> segments, ClipUnit unit) {
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
  const Folder* const data = folder();
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
    const Starts starts = serve(options, *data);
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
    options.run = {.epochs = 1, .eval = true};
    for (const auto& [clip, start] : serve(options, *data)) {
      if (clip.second.ends_with("[frame 5]")) CHECK(start == 5 + (25 - kSpan) / 2);
    }
  }
}

TEST_CASE("segments that are shorter than a clip repeat their own last frame, and those of no frames are bad") {
  const Folder* const data = folder();
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
      shown.resize(45);  // so that the last one to be repeated is the segment's
      const auto position = batch->batch() * static_cast<std::uint64_t>(options.dataset.batch_size) + i;
      CHECK(start_of({images.as<std::byte>() + i * size, size}, shown, options, batch->epoch(), position) == 40);
      ++of_short;
    }
  }
  CHECK(of_short == videos);
}

TEST_CASE("columns of segments are asked for by name, and said where nobody asks for them") {
  const Folder* const data = folder();
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

TEST_CASE("lists and tables name videos, with labels and numbers beside them") {
  const Folder* const data = folder();
  if (data == nullptr) return;
  const TemporaryDirectory lists;
  std::ostringstream list;
  std::ostringstream table;
  table << "path,label,score\n";
  int number = 0;
  for (const auto& [path, frames] : data->shown) {
    list << path << ' ' << number % 3 << '\n';
    table << path << ',' << number % 3 << ',' << number * 0.5 << '\n';
    ++number;
  }
  write_file(lists / "list.txt", list.str());
  write_file(lists / "table.csv", table.str());
  for (const char* name : {"list.txt", "table.csv"}) {
    Options options = options_of(lists / name);
    options.run.epochs = 1;
    options.dataset.clip.every = 30;
    if (std::string_view(name) == "table.csv") {
      options.dataset.fields = {{.name = "score", .kind = FieldKind::numbers}};
    }
    CHECK(serve(options, *data).size() == 2 * data->shown.size());
    const std::shared_ptr<const Dataset> dataset = open_dataset(options.dataset);
    CHECK(dataset->size() == 2 * data->shown.size());
    CHECK(dataset->sample(2).label == 1);
    CHECK(dataset->sample(3).label == 1);
    if (dataset->fields().empty()) continue;
    Feeder feeder(options);
    while (const auto batch = feeder.next()) {
      for (std::size_t i = 0; i < batch->size(); ++i)
        CHECK(batch->field("score").as<float>()[i] == static_cast<float>(batch->ids()[i] / 2) * 0.5F);
    }
  }
}

TEST_CASE("what has no videos is refused by name") {
  const Folder* const data = folder();
  if (data == nullptr) return;
  const FolderOf images{{"a/x.jpg", "1"}, {"b/y.jpg", "2"}};
  const auto problem = [](const std::filesystem::path& path, const std::string& format) {
    DatasetOptions options;
    options.path = path.string();
    options.format = format;
    options.clip.frames = 4;
    return error_of<ConfigError>([&] { (void)open_dataset(options); });
  };
  CHECK(contains(problem(images.path(), "auto"), "but no video (.mp4"));
  CHECK(contains(problem(images.path(), "folder"), "found 0 videos"));
  CHECK(contains(problem(data->root(), "voc"), "clip.frames: the format \"voc\" has no videos; it is for "));
  CHECK(contains(problem(data->root() / "a", "auto"), "the folder format needs CLASS/x.mp4"));
  const FolderOf others{
      {"x.jpg", "\xff\xd8\xff\xe0"}, {"x.tar", std::string(1024, '\0')}, {"list.txt", "a/1.mp4 0\nb/2.mp4 1\n"}};
  CHECK(contains(problem(others.path() / "x.jpg", "auto"), "is an image, and no list of them: name a folder of class"));
  CHECK_FALSE(contains(problem(others.path() / "x.tar", "auto"), "tar archive"));
  const std::string missing = problem(others.path() / "list.txt", "auto");
  CHECK(contains(missing, "names 2 videos, and none can be opened; relative paths begin in " + others.path().string()));
  DatasetOptions without;
  without.path = data->root().string();
  CHECK(
      contains(error_of<ConfigError>([&] { (void)open_dataset(without); }), "of its videos clip.frames makes samples"));
  without.path = (data->root() / "a" / "one-group.mp4").string();
  CHECK(contains(error_of<ConfigError>([&] { (void)open_dataset(without); }), "is a video, and no list of them"));
  Options longer = options_of(data->root());
  longer.dataset.clip.frames = 4000;
  CHECK(contains(error_of<ConfigError>([&] { (void)open_dataset(longer.dataset); }),
                 ": lower clip.frames or clip.stride"));
  CHECK(contains(error_of<ConfigError>([&] {
                   Feeder feeder(options_of(data->root()), Parts{.dataset = open_dataset([&] {
                                                                   DatasetOptions of_images;
                                                                   of_images.path = images.path().string();
                                                                   return of_images;
                                                                 }())});
                 }),
                 "clips are made of the videos that dataset.path names"));
}

TEST_CASE("a run of clips is resumed in the middle of an epoch") {
  const Folder* const data = folder();
  if (data == nullptr) return;
  Options options = options_of(data->root());
  options.dataset.clip.every = 15;
  options.run.epochs = 2;
  const auto take = [](Feeder& feeder, std::size_t most) {
    std::vector<Bytes> batches;
    while (batches.size() < most) {
      const auto batch = feeder.next();
      if (!batch) break;
      const auto* const first = batch->images().as<std::byte>();
      batches.emplace_back(first, first + batch->images().bytes());
    }
    return batches;
  };
  Feeder whole(options);
  const std::vector<Bytes> all = take(whole, SIZE_MAX);
  Feeder begun(options);
  std::vector<Bytes> served = take(begun, all.size() / 3);
  Feeder resumed(options);
  resumed.restore_state(begun.state());
  for (Bytes& batch : take(resumed, SIZE_MAX)) served.push_back(std::move(batch));
  CHECK(served == all);

  Options other = options;
  other.dataset.clip.stride = 2;
  Feeder refused(other);
  CHECK(contains(error_of([&] { refused.restore_state(begun.state()); }), "clip"));
}

}  // namespace
}  // namespace forebay::test_feeder_clips
