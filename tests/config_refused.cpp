// Configurations that are refused, and the messages.
#include <sys/stat.h>
#include <unistd.h>
#include <forebay/config.hpp>

#include "base/file_io.hpp"
#include "config_support.hpp"
#include "test.hpp"

namespace forebay::test_config_refused {
namespace {

namespace fs = std::filesystem;
using namespace testing;

TEST_CASE("a field that cannot be is refused with its key") {
  CHECK(contains(refusal("[fields.mask]\nfrom = \"m\""), "fields.mask.kind: say what it is: image, mask, class"));
  CHECK(contains(refusal("[fields.mask]\nkind = \"masc\""), "fields.mask.kind: expected one of \"image\", \"mask\""));
  CHECK(contains(refusal("[fields.mask]\nkynd = \"mask\""), "unknown key fields.mask.kynd: the keys of [fields.NAME]"));
  CHECK(contains(refusal("[fields.b]\nkind = \"boxes\""), "fields.b.most: say how many"));
  CHECK(contains(refusal("[fields.m]\nkind = \"mask\"\nmost = 3"), "fields.m.most: only boxes and bytes"));
  CHECK(contains(refusal("[fields.m]\nkind = \"mask\"\nshape = [3]"), "fields.m.shape: only arrays and numbers"));
  CHECK(contains(refusal("[fields.a]\nkind = \"array\""), "fields.a.shape: say the extents"));
  CHECK(contains(refusal("[fields.a]\nkind = \"array\"\nshape = [0]"), "whole numbers from 1 to"));
  CHECK(contains(refusal("[fields.i]\nkind = \"image\"\nchannels = 2"), "fields.i.channels: a picture has 1 or 3"));
  CHECK(contains(refusal("[fields.i]\nkind = \"image\"\ndtype = \"int32\""), "fields.i.dtype: a picture is"));
  CHECK(contains(refusal("[fields.i]\nkind = \"image\"\nshape = [3]"), "fields.i.shape: only arrays and numbers"));
  CHECK(contains(refusal("[fields.m]\nkind = \"mask\"\nchannels = 1"), "fields.m.channels: only images have it"));
  CHECK(contains(refusal("[fields.a]\nkind = \"array\"\nshape = [3]\nclasses = [\"a\"]"),
                 "fields.a.classes: only classes"));
  CHECK(contains(refusal("[fields.m]\nkind = \"mask\"\nmin_visible = 0.5"), "fields.m.min_visible: only boxes"));
  CHECK(contains(refusal("[fields.m]\nkind = \"mask\"\nmean = [1, 1, 1]"), "fields.m.mean: only images have mean"));
  CHECK(contains(refusal("[transform]\nwhen = \"dequeue\"\n[fields.i]\nkind = \"image\""),
                 "a second picture in memory cannot follow"));
  CHECK(contains(refusal_of("transform.channels=2"), "transform.channels: expected 1 or 3, found 2"));
  CHECK(contains(refusal("", {"transform.channels=1", "transform.when=dequeue"}), "canvases have three channels"));
  CHECK(contains(refusal("", {"transform.channels=1", "workers.jpeg=nvjpeg"}), "workers.jpeg = \"turbo\""));
  CHECK(contains(refusal("fields = 3"), "a field has a section of its own"));
  CHECK(contains(refusal("[fields]\nmask = 3"), "a field has a section of its own"));
  CHECK(contains(refusal("[transform]\nwhen = \"dequeue\"\n[fields.m]\nkind = \"mask\""),
                 "in memory cannot follow; set transform.when = \"enqueue\""));
  CHECK(contains(refusal_of("fields.m=3"), "unknown key"));
}

TEST_CASE("unknown keys name what was meant, or where it belongs, or what there is") {
  CHECK(refusal("[queue]\ncapactiy = 3") == "feed.toml:2:1: unknown key queue.capactiy: did you mean queue.capacity?");
  CHECK(refusal("batch_size = 3") == "feed.toml:1:1: unknown key batch_size: `batch_size` belongs in [dataset]");
  CHECK(refusal("[queue]\nbatch_size = 3") ==
        "feed.toml:2:1: unknown key queue.batch_size: `batch_size` belongs in [dataset]");
  CHECK(refusal("[policy]\nseed = 3") ==
        "feed.toml:2:1: unknown key policy.seed: `seed` belongs at the top of the file, before the first [section]");
  CHECK(refusal("[queue]\ndepth_of_it = 3") ==
        "feed.toml:2:1: unknown key queue.depth_of_it: the keys of [queue] are capacity, memory, pool, max_leases, "
        "run_ahead");
  CHECK(contains(refusal("[transform]\nhold = \"coefficients\""), "feed.toml:2:1: unknown key transform.hold: "));
  CHECK(refusal("[polcy]\nlow = 0.1") == "feed.toml:1:2: unknown section [polcy]: did you mean [policy]?");
  CHECK(contains(refusal("[something_else]\nlow = 0.1"), "the sections are run, dataset, clip, transform"));
}

TEST_CASE("wrong types name line, key, what was expected and what was found") {
  CHECK(refusal("[queue]\ncapacity = \"four\"") ==
        "feed.toml:2:12: queue.capacity: expected \"auto\" or a whole number from 1 to 4096, found \"four\" (string)");
  CHECK(
      refusal("[queue]\ncapacity = 4.0") ==
      "feed.toml:2:12: queue.capacity: expected \"auto\" or a whole number from 1 to 4096, found 4.0 (floating-point)");
  CHECK(refusal("[dataset]\nshuffle = 1") ==
        "feed.toml:2:11: dataset.shuffle: expected true or false, found 1 (integer)");
  CHECK(refusal("[dataset]\nclasses = \"cat\"") ==
        "feed.toml:2:11: dataset.classes: expected an array of strings such as [\"cat\", \"dog\"], found \"cat\" "
        "(string)");
  CHECK(refusal("[transform]\nsize = [224]") ==
        "feed.toml:2:8: transform.size: expected an array of 2 whole numbers from 1 to 16384, found [ 224 ]");
  CHECK(refusal("[mpi]\nmode = \"lockstp\"") ==
        "feed.toml:2:8: mpi.mode: expected one of \"local\", \"lockstep\", found \"lockstp\" (string)");
  CHECK(refusal("[policy]\nlow = 2020-01-01") ==
        "feed.toml:2:7: policy.low: expected a number above 0 and up to 1, found 2020-01-01 (date)");
  CHECK(contains(refusal("[workers]\nio = \"many\""), "expected \"auto\" or a whole number from 1 to 4096"));
  CHECK(contains(refusal("[transform]\nsize = [1.5, 2]"), "found [ 1.5, 2 ]"));
  CHECK(contains(refusal("[seed]\na = 1"), "seed: expected a whole number"));
  CHECK(contains(refusal("policy = 3"), "feed.toml:1:1: policy is a section, written [policy] once"));
  CHECK(contains(refusal("[[policy]]\nlow = 0.1"), "policy is a section, written [policy] once"));
}

TEST_CASE("values out of range name line, key and range") {
  CHECK(refusal("[policy]\nlow = 2") == "feed.toml:2:7: policy.low: expected a number above 0 and up to 1, found 2.0");
  CHECK(contains(refusal("[policy]\nlow = nan"), "found nan"));
  CHECK(contains(refusal("[policy]\nwatchdog_s = inf"), "found inf"));
  CHECK(contains(refusal("seed = -1"), "found -1"));
  CHECK(contains(refusal("max_bad = 1.5"), "max_bad: expected \"auto\", a share from 0.0 to 1.0, or a count"));
  CHECK(contains(refusal("max_bad = -1"), "found -1"));
  for (const std::string& text :
       words("dataset.batch_size=0 dataset.batch_size=1048577 queue.capacity=-1 queue.capacity=0 queue.capacity=4097 "
             "queue.pool=0 "
             "queue.max_leases=0 queue.run_ahead=0 transform.size=[0,1] transform.size=[1,16385] "
             "transform.std=[1,0,1] transform.mirror=1.1 transform.scale=[0,1] transform.operations=colour "
             "colour.hue=0.6 erase.probability=-0.1 erase.area=[0,1] mixup.alpha=0 transform.ratio=[0,1] policy.beta=0 "
             "policy.interval=0 policy.max_uses=-1 policy.high=1.5 mpi.lag=0 mpi.lag=16 mpi.virtual_shards=0 "
             "storage.latency_ms=-1 storage.jitter=-0.1 storage.fail_rate=2 storage.slow_rate=2 workers.hedge=on "
             "workers.io=-1 workers.io=0 workers.decode=0 run.epochs=0 trainer.allreduce_bytes=-1 "
             "telemetry.interval_s=-1 dataset.format=vox")) {
    CAPTURE(text);
    CHECK(contains(refusal_of(text), ": expected "));
  }
}

TEST_CASE("orders that cannot be are refused") {
  const auto refused = [](std::vector<std::string> settings) { return refusal("", std::move(settings)); };
  CHECK(contains(refused({"dataset.exchange=0.1"}), R"(only dataset.order = "local" with dataset.shuffle has parts)"));
  CHECK(contains(refused({"dataset.order=local", "dataset.shuffle=false", "dataset.exchange=0.1"}), "exchange"));
  CHECK(contains(refused({"dataset.order=local", "dataset.weights=balanced"}),
                 R"(dataset.weights = "balanced" does not go with dataset.order = "local")"));
  CHECK(contains(refused({"dataset.order=local", "dataset.exchange=1.5"}), "dataset.exchange"));
  CHECK(contains(refused({"dataset.order=local", "dataset.nodes=-1"}), "dataset.nodes"));
  CHECK(contains(refused({"dataset.nodes=3"}), R"(only dataset.order = "local" has parts; set that, or leave nodes)"));
}

TEST_CASE("what does not go with clips of videos is refused") {
  const auto refused = [](std::vector<std::string> settings, const std::string& text = {}) {
    settings.insert(settings.begin(), "clip.frames=8");
    return refusal(text, std::move(settings));
  };
  CHECK(refused({}).empty());
  CHECK(contains(refused({"transform.when=dequeue"}), "transform.when = \"dequeue\" does not go with clip.frames"));
  CHECK(contains(refused({"transform.views=2"}), "transform.views = 2 does not go with clip.frames"));
  CHECK(contains(refused({"transform.decode=scaled"}), "set \"region\" or \"full\""));
  CHECK(contains(refused({"workers.jpeg=nvjpeg"}), "videos are no JPEG files"));
  CHECK(contains(refused({"dataset.samples=images"}), "videos have no objects"));
  CHECK(contains(refused({}, "[fields.m]\nkind = \"mask\""), "fields.m.kind = \"mask\" does not go with clip.frames"));
  CHECK(contains(refused({"clip.frames=5000"}), "clip.frames"));
  CHECK(contains(refused({"clip.stride=0"}), "clip.stride"));
  CHECK(refusal_of("clip.stride=2").starts_with("--set clip.stride=2: clip.frames = 0: the other keys of [clip] are"));
  CHECK(contains(refused({"clip.start=middle"}), "clip.start"));
  CHECK(contains(refused({"dataset.batch_size=1000000", "clip.frames=4096"}), "clip.frames"));
}

TEST_CASE("combinations are refused where they were written") {
  CHECK(refusal("[policy]\nlow = 0.9\nhigh = 0.2") ==
        "feed.toml:2:7: policy.low = 0.9 is above policy.high = 0.2: reuse must start below where it stops");
  CHECK(contains(refusal("[transform]\nscale = [0.5, 0.1]"), "feed.toml:2:9: transform.scale = [0.5, 0.1]"));
  CHECK(contains(refusal_of("telemetry.max_bytes=1KiB"), "max_bytes = 1024 is too few: set \"16KiB\" or more"));
  CHECK(contains(refusal("[transform]\nratio = [2, 1]"), "the smallest must come first"));
  CHECK(contains(refusal("[erase]\narea = [0.5, 0.1]"), "feed.toml:2:8: erase.area = [0.5, 0.1]"));
  CHECK(contains(refusal("[mixup]\nprobability = 0.5\n[cutmix]\nprobability = 0.6"),
                 "feed.toml:4:15: cutmix.probability = 0.6 and mixup.probability = 0.5 are more than 1 together"));
  CHECK(contains(refusal("[transform]\nwhen = \"dequeue\"\n[cutmix]\nprobability = 0.6"),
                 "feed.toml:4:15: cutmix.probability: a batch is mixed when it is made"));
  CHECK(contains(refusal("[mixup]\nprobability = 1", {"transform.when=dequeue"}), "or mixup.probability = 0"));
  CHECK(contains(refusal("[transform]\nsize = [16384, 16384]\n[dataset]\nbatch_size = 1048576"), "TiB of memory"));
  CHECK(contains(
      refusal("[transform]\nsize = [16384, 16384]\ncanvas = [1, 1]\nwhen = \"dequeue\"\nviews = 64\n[dataset]\n"
              "batch_size = 1048576\n[queue]\ncapacity = 4\npool = 1\nmax_leases = 256"),
      "transform.canvas, transform.views and queue"));
}

TEST_CASE("replay needs a recording") {
  CHECK(contains(refusal("[policy]\nname = \"replay\""), "feed.toml:2:8: policy.name = \"replay\" needs policy.rec"));
  CHECK(with({"policy.name=replay", "policy.recording=run"}).policy.recording == "run");
}

TEST_CASE("lockstep needs a queue deeper than its lag, and ranks that do not wait on their own") {
  CHECK(with({"mpi.mode=lockstep"}).mpi.mode == MpiMode::lockstep);
  const std::string lockstep = "[mpi]\nmode = \"lockstep\"\n";
  CHECK(contains(refusal(lockstep + "[queue]\ncapacity = 2"), "feed.toml:4:12: queue.capacity = 2 is too small"));
  CHECK(contains(refusal(lockstep + "[policy]\nmax_wait_ms = 5"), "feed.toml:4:15: policy.max_wait_ms = 5.0 does not"));
}

TEST_CASE("keys of a crop go together") {
  const auto refused = [](std::vector<std::string> settings, const std::string& crop = "random") {
    settings.push_back("transform.crop=" + crop);
    settings.emplace_back("transform.size=[32, 24]");
    return refusal("", settings);
  };
  CHECK(with({"transform.crop=random", "transform.padding=[4]"}).transform.padding == std::vector<std::int64_t>{4});
  CHECK(contains(refused({"transform.padding=[1, 2, 3]"}), "transform.padding: expected [all], [left and right, top"));
  CHECK(contains(refused({"transform.padding=[4]"}, "center"),
                 "transform.padding: goes with transform.crop = \"random\""));
  CHECK(contains(refused({"transform.padding=[24, 0, 0, 0]"}), "make it less than transform.size, 24"));
  CHECK(contains(refused({"transform.padding=[0, 0, 0, 32]"}), "make it less than transform.size, 32"));
  CHECK(contains(refused({"transform.padding=[-1]"}), "whole numbers from 0 to 16383"));
  CHECK(contains(refused({"transform.fill=[1, 2]"}), "transform.fill: expected [red, green, blue] or [all]"));
  CHECK(contains(refused({"transform.fill=[256]"}), "whole numbers from 0 to 255"));
  CHECK(contains(refused({"transform.resize=[1, 2, 3]"}),
                 "transform.resize: expected [shorter side] or [height, width]"));
  CHECK(
      contains(refused({"transform.resize=[40]"}, "none"), "transform.resize: goes with transform.crop = \"center\""));
  CHECK(contains(refused({"transform.resize=[31, 40]"}), "transform.size: is larger than transform.resize"));
  CHECK(contains(refused({"transform.resize=[30, 22]", "transform.padding=[1, 0]"}), "transform.size: is larger"));
  CHECK(contains(refused({"transform.when=dequeue"}), "transform.crop: cutting pixel for pixel does not go with"));
  CHECK(contains(refused({"transform.when=dequeue", "transform.resize=[40]"}, "center"),
                 "transform.resize: cutting pixel"));
}

TEST_CASE("several views that would be the same are refused") {
  const std::string middle = "[transform]\ncrop = \"center\"\nviews = 2\n";
  CHECK(contains(refusal(middle + "mirror = 1\n"), "feed.toml:3:9: transform.views = 2: all views of a sample would"));
  CHECK(contains(refusal(middle + "mirror = 0\n"), "would be the same, since nothing about them is random"));
  CHECK(refusal(middle + "mirror = 0.1\n").empty());
  CHECK(refusal(middle + "mirror = 0\n", {"run.eval=true"}).empty());
  CHECK(refusal(middle + "mirror = 0\noperations = [\"colour\"]\n").empty());
  CHECK(refusal("[transform]\nmirror = 0\nviews = 2\n").empty());
}

TEST_CASE("a canvas is at most 8 times as large as the result") {
  CHECK(with({"transform.canvas=[300, 0]"}).transform.canvas == std::array<std::int64_t, 2>{300, 0});
  const std::string small = "[transform]\nwhen = \"dequeue\"\nsize = [10, 20]\n";
  CHECK(
      contains(refusal(small + "canvas = [81, 0]"), "feed.toml:4:10: transform.canvas: a height of 81 is more than 8"));
  CHECK(contains(refusal(small + "canvas = [80, 161]"), "transform.canvas: a width of 161 is more than 8 times that"));
  CHECK(contains(refusal(small + "canvas = [-1, 0]"), "transform.canvas: expected an array of 2"));
  // If canvases are not used, their size does not matter.
  CHECK(with({"transform.size=[10, 20]", "transform.canvas=[81, 0]"}).transform.canvas[0] == 81);
}

TEST_CASE("a device is named auto, host, cuda or cuda:N; whether it is there is found out by the run") {
  for (const char* device : {"auto", "host", "cuda", "cuda:0", "cuda:11"}) {
    CHECK(with({std::string("device=\"") + device + "\""}).device == device);
  }
  for (const char* device : {"gpu", "CUDA", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cuda:99999999999"}) {
    CHECK(contains(refusal(std::string("device = \"") + device + "\""), "there is no such device"));
  }
}

TEST_CASE("what is not TOML names file, line and column") {
  CHECK(contains(refusal("seed = 1\nseed = 2"), "feed.toml:2:"));
  CHECK(contains(refusal("seed = 1\nseed = 2"), "cannot redefine"));
  CHECK(contains(refusal("\n[queue"), "feed.toml:2:"));
  CHECK(contains(refusal("on_bad = skip"), "(text needs quotes)"));
  CHECK(contains(refusal("seed = 99999999999999999999"), "feed.toml:1:"));
}

TEST_CASE("refused overrides name the text that was given") {
  CHECK(refusal_of("policy.lo=1") == "--set policy.lo=1: unknown key policy.lo: did you mean policy.low?");
  CHECK(refusal_of("polcy.low=1") == "--set polcy.low=1: unknown section [polcy]: did you mean [policy]?");
  CHECK(refusal_of("policy.low=x") ==
        "--set policy.low=x: policy.low: expected a number above 0 and up to 1, found \"x\" (string)");
  CHECK(refusal_of("queue.capacity=9999") ==
        "--set queue.capacity=9999: queue.capacity: expected \"auto\" or a whole number from 1 to 4096, found 9999");
  CHECK(refusal_of("seed") == "--set seed: expected section.key=value");
  CHECK(refusal_of("dataset.path=a\xff") == "--set dataset.path=a\\xff: this is not UTF-8");
  CHECK(contains(refusal_of("policy=3"), "policy is a section"));
  CHECK(contains(refusal_of("queue.capacity=1\nqueue.pool=2"), "queue.capacity: expected \"auto\" or a whole number"));
  CHECK(contains(refusal_of("=3"), "--set =3: unknown key"));
}

TEST_CASE("validate speaks of options filled by hand") {
  Options options;
  options.transform.std[1] = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH_AS(validate(options),
                       "transform.std: expected an array of 3 numbers above 0 and up to 1000000, found [58.395, nan, "
                       "57.375]",
                       ConfigError);
  options = {};
  options.policy.pick = static_cast<Pick>(7);
  CHECK_THROWS_WITH_AS(validate(options), "policy.pick: expected one of \"current\", \"least_used\", found 7",
                       ConfigError);
  options = {};
  options.seed = std::numeric_limits<std::uint64_t>::max();
  CHECK_NOTHROW(validate(options));
}

TEST_CASE("files that cannot be read") {
  const testing::TemporaryDirectory dir;
  const std::string missing = (dir / "nope.toml").string();
  CHECK_THROWS_WITH_AS(static_cast<void>(load_options(missing)),
                       ("the configuration " + missing + " cannot be read: No such file or directory").c_str(),
                       ConfigError);
  CHECK_THROWS_WITH_AS(static_cast<void>(load_options(dir.path())),
                       ("the configuration " + dir.path().string() +
                        " is a directory, not a file; to feed what it holds, write dataset.path = \"" +
                        dir.path().string() + "\" into a file")
                           .c_str(),
                       ConfigError);
}

TEST_CASE("errors of a file name the file") {
  const testing::TemporaryDirectory dir;
  const fs::path file = dir / "x.toml";
  std::ofstream(file) << "seed = true\n";
  CHECK_THROWS_WITH_AS(static_cast<void>(load_options(file)),
                       (file.string() + ":1:8: seed: expected a whole number from 0 to 2^64 - 1 (as a string from "
                                        "2^63 on), found true (boolean)")
                           .c_str(),
                       ConfigError);
}

// Malicious configurations, and inputs that are not files.

TEST_CASE("deep nesting is refused with its place, and never reaches the parser") {
  const auto refusal = [](const std::string& toml) {
    return testing::error_of<ConfigError>([&] { static_cast<void>(parse_options(toml, "f")); });
  };
  const auto dotted = [](std::size_t parts) {
    std::string key = "a";
    for (std::size_t i = 1; i < parts; ++i) key += i % 3 == 0 ? " . a" : (i % 3 == 1 ? ".a" : ".\"a\"");
    return key;
  };
  const std::string deep = ": nested too deep: a key is section.key, and a list holds values";
  for (const std::size_t parts : {17U, 40'000U}) {
    CAPTURE(parts);
    CHECK(refusal("seed = 1\n" + dotted(parts) + " = 1\n").starts_with("f:2:"));
    CHECK(refusal(dotted(parts) + " = 1\n").ends_with(deep));
    CHECK(refusal("[" + dotted(parts) + "]\n").ends_with(deep));
    CHECK(refusal("[[" + dotted(parts) + "]]\n").ends_with(deep));
    CHECK(refusal("x = {" + dotted(parts) + " = 1}\n").ends_with(deep));
    CHECK(refusal("x = " + std::string(parts, '[') + std::string(parts, ']')).ends_with(deep));
    CHECK(refusal("x = \"stray\n" + dotted(parts) + " = 1\n").ends_with(deep));
    const std::vector<std::string> overrides{"seed={" + dotted(parts) + "=1}"};
    CHECK_THROWS_AS(static_cast<void>(parse_options("", "f", overrides)), ConfigError);
  }
  CHECK(contains(refusal(dotted(16) + " = 1\n"), "unknown"));
  // Dots that are not in keys are allowed.
  const std::string dots(100, '.');
  CHECK(refusal("# " + dots + "\n[dataset]\npath = \"a\\\"" + dots + "\"\nlabels = \'" + dots + "\'\nindex = \"\"\"\n" +
                dots + "\"\"\"\n[transform]\nmean = [0.1, 0.2,\n0.3]\n") == "");
}

TEST_CASE("a long string whose text ends in quotes does not hide the rest of its line") {
  std::string key = "a";
  for (int i = 1; i < 40'000; ++i) key += ".a";
  for (const char quote : {'"', '\''}) {
    const std::string three(3, quote);
    for (const std::size_t own : {0U, 1U, 2U}) {
      CAPTURES(quote, own);
      const std::string text = "a" + std::string(own, quote);
      const std::string value = "[" + three + text + three + ", {" + key + " = 1}]";
      CHECK_THROWS_WITH_AS(static_cast<void>(parse_options("x = " + value + "\n", "f")),
                           doctest::Contains(": nested too deep"), ConfigError);
      const std::vector<std::string> overrides{"transform.mean=" + value};
      CHECK_THROWS_WITH_AS(static_cast<void>(parse_options("", "f", overrides)),
                           doctest::Contains("transform.mean: expected"), ConfigError);
      CHECK(parse_options("[dataset]\nindex = " + three + text + three + "\n", "f").dataset.index == text);
    }
  }
}

TEST_CASE("a configuration may come from a pipe that ends; one that never ends, or never begins, is refused") {
  const testing::TemporaryDirectory dir;
  const auto refusal = [](const fs::path& file) {
    return testing::error_of<ConfigError>([&] { static_cast<void>(load_options(file)); });
  };
  const fs::path fifo = dir / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(refusal(fifo) ==
        "the configuration " + fifo.string() + " is a FIFO that nobody writes to, or that nothing was written to");
  CHECK(contains(refusal("/dev/zero"), "the configuration /dev/zero has more than 4194304 bytes"));
  CHECK(load_options("/dev/null").seed == Options().seed);

  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const fs::path reading = "/dev/fd/" + std::to_string(ends[0]);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_text_file(reading, 100, 1)), doctest::Contains("gave nothing for 1 s"),
                       Error);
  std::jthread writer([&] {
    const std::string text = "seed = 77\n";
    CHECK(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    ::close(ends[1]);
  });
  CHECK(load_options(reading).seed == 77);
  writer.join();
  ::close(ends[0]);
}

}  // namespace
}  // namespace forebay::test_config_refused
