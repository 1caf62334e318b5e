// Clips of videos as samples, from a folder or a list to batches.
#include <forebay/feeder.hpp>

#include "clip_folder.hpp"
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

TEST_CASE("each frame of a clip is that of the video, and has the view and operations of an image at its place") {
  const ClipFolder* const data = clip_folder();
  if (data == nullptr) return;
  Options options = options_of(data->root());
  options.run.epochs = kSanitized ? 1 : 3;
  std::set<std::uint64_t> different;
  for (const std::vector<std::string>& operations : {std::vector<std::string>{}, {"colour", "blur", "erase"}}) {
    options.transform.operations = operations;
    for (const Decode decode : {Decode::region, Decode::full}) {
      options.transform.decode = decode;
      const Starts starts = serve_clips(options, *data);
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
  const ClipFolder* const data = clip_folder();
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
  const ClipFolder* const data = clip_folder();
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
    // For each pixel, counted over all frames and channels: values that only the other clip has,
    // and values that only its own clip has.
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
  const ClipFolder* const data = clip_folder();
  if (data == nullptr) return;
  Options options = options_of(data->root());
  options.run.epochs = 6;
  std::map<std::string, std::set<std::uint64_t>> of_video;
  for (const auto& [clip, start] : serve_clips(options, *data)) of_video[clip.second].insert(start);
  for (const auto& [name, starts] : of_video) CHECK(starts.size() > 2);

  for (const bool eval : {false, true}) {
    options.run.epochs = 1;
    options.run.eval = eval;
    options.dataset.clip.start = eval ? ClipStart::random : ClipStart::center;
    for (const auto& [clip, start] : serve_clips(options, *data)) CHECK(start == (kStarts - 1) / 2);
  }
}

TEST_CASE("an evaluation reads of a video what its middle needs, by the index of the training too") {
  const ClipFolder* const data = clip_folder();
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
  const ClipFolder* const data = clip_folder();
  if (data == nullptr) return;
  Options options = options_of(data->root());
  options.dataset.clip.every = 20;
  options.run.epochs = 2;
  const Starts starts = serve_clips(options, *data);
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
  // Clips of one video are always in the same part of a split.
  std::map<std::string, std::set<std::int64_t>> parts;
  for (std::int64_t part = 0; part < 2; ++part) {
    options.dataset.split = {0.5, 0.5};
    options.dataset.part = part;
    for (const auto& [clip, start] : serve_clips(options, *data))
      parts[clip.second.substr(0, clip.second.rfind('['))].insert(part);
  }
  CHECK(parts.size() == data->shown.size());
  for (const auto& [video, of] : parts) CHECK(of.size() == 1);
}

TEST_CASE("videos that are shorter than a clip are left out, which is said, or their last frame is repeated") {
  if (clip_folder() == nullptr) return;
  ClipFolder data;
  data.add("a/short.mp4", "-c:v mpeg4", 7);
  data.add("a/just.mp4", "-c:v mpeg4", 10);
  Options options = options_of(data.root());
  options.run.epochs = 1;
  const auto has_short = [](const Starts& starts) {
    return std::ranges::any_of(starts, [](const auto& each) { return contains(each.first.second, "short.mp4"); });
  };
  const Starts without = serve_clips(options, data);
  CHECK(without.size() == data.shown.size() - 1);
  CHECK_FALSE(has_short(without));
  const auto told = open_dataset(options.dataset)->skipped();
  CHECK(std::ranges::any_of(told, [](const Skipped& entry) {
    return entry.told && !entry.bad && contains(entry.reason, "1 video of") && contains(entry.reason, "short.mp4");
  }));
  options.dataset.clip.short_videos = ShortVideos::repeat_last;
  const Starts all = serve_clips(options, data);
  CHECK(all.size() == data.shown.size());
  CHECK(has_short(all));
}

TEST_CASE("damaged videos are left out of the index, or are bad samples where it does not show there") {
  if (clip_folder() == nullptr) return;
  ClipFolder data;
  const std::size_t videos = data.shown.size();
  const auto path = data.root() / "a" / "one-group.mp4";
  const std::string whole = read_text(path);
  write_file(data.root() / "b" / "cut.mp4", whole.substr(0, whole.size() / 2));
  write_file(data.root() / "b" / "text.webm", "no video");
  write_file(data.root() / "b" / "empty.mp4", "");
  write_file(data.root() / "b" / "pointer.mp4", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  Options options = options_of(data.root());
  options.run.epochs = 2;
  CHECK(serve_clips(options, data, 4).size() == 2 * videos);
  const std::shared_ptr<const Dataset> before = open_dataset(options.dataset);
  CHECK(before->size() == videos);
  std::string reasons;
  for (const Skipped& skipped : before->skipped()) reasons += skipped.bad ? skipped.reason + "\n" : "";
  CHECK(std::ranges::count(reasons, '\n') == 4);
  CHECK(contains(reasons, "the file is empty"));
  CHECK(contains(reasons, "run `git lfs pull`"));

  // Damages packets at places that the index refers to.
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
  if (clip_folder() == nullptr) return;
  ClipFolder data;
  Options options = options_of(data.root());
  options.run.epochs = 1;
  options.dataset.index = (data.videos.folder() / "set.index").string();
  const Starts built = serve_clips(options, data);
  CHECK(serve_clips(options, data) == built);
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

TEST_CASE("lists and tables name videos, with labels and numbers beside them") {
  const ClipFolder* const data = clip_folder();
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
    CHECK(serve_clips(options, *data).size() == 2 * data->shown.size());
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
  const ClipFolder* const data = clip_folder();
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
  const ClipFolder* const data = clip_folder();
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
