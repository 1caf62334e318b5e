// Reading and writing configurations.
#include <forebay/config.hpp>
#include <random>

#include "config/values.hpp"
#include "config_support.hpp"
#include "test.hpp"

namespace forebay::test_config {
namespace {

namespace fs = std::filesystem;
using namespace testing;

TEST_CASE("an empty file is the defaults") {
  check_same(parse(""), Options{});
  CHECK_NOTHROW(validate(Options{}));
}

TEST_CASE("a program's own defaults stand below the file and the overrides") {
  Options mine;
  mine.telemetry.dir = "files";
  mine.seed = 5;
  mine.run.epochs = 9;
  const std::vector<std::string> overrides{"run.epochs=3"};
  const Options options = parse_options("seed = 6", "config", overrides, mine);
  CHECK(options.telemetry.dir == "files");
  CHECK(options.seed == 6);
  CHECK(options.run.epochs == 3);
  CHECK(parse_options("[telemetry]\ndir = \"\"", "config", {}, mine).telemetry.dir.empty());
}

TEST_CASE("every member of the options has a key") {
  const auto keys_of = [](std::string_view section) {
    return static_cast<std::size_t>(std::ranges::count(config::keys(), section, &config::Key::section));
  };
  // Six sections are members of transform and one is of dataset; saved states name all eight.
  CHECK(std::ranges::count(config::sections(), true, &config::Section::of_samples) == 1 + 6 + 1);
  CHECK(members<Options>() + 6 + 1 == keys_of("") + config::sections().size());
  CHECK(members<RunOptions>() == keys_of("run"));
  CHECK(members<DatasetOptions>() == keys_of("dataset") + 1 + 1);  // plus `fields` and `clip`
  CHECK(members<ClipOptions>() == keys_of("clip"));
  CHECK(members<TransformOptions>() == keys_of("transform") + 6);
  CHECK(members<ColourOptions>() == keys_of("colour"));
  CHECK(members<BlurOptions>() == keys_of("blur"));
  CHECK(members<SolariseOptions>() == keys_of("solarise"));
  CHECK(members<EraseOptions>() == keys_of("erase"));
  CHECK(members<MixOptions>() == keys_of("mixup"));
  CHECK(members<MixOptions>() == keys_of("cutmix"));
  CHECK(members<WorkerOptions>() == keys_of("workers"));
  CHECK(members<QueueOptions>() == keys_of("queue"));
  CHECK(members<PolicyOptions>() == keys_of("policy"));
  CHECK(members<MpiOptions>() == keys_of("mpi"));
  CHECK(members<StorageOptions>() == keys_of("storage"));
  CHECK(members<TelemetryOptions>() == keys_of("telemetry"));
  CHECK(members<TrainerOptions>() == keys_of("trainer"));
}

TEST_CASE("a section [fields.NAME] is a field, and reads back as it is written") {
  CHECK(members<FieldOptions>() == config::field_keys().size() + 1);  // plus its name
  const Options options = parse(R"(
[fields.mask]
from = "masks/{stem}.png"
kind = "mask"
[fields.boxes]
kind = "boxes"
most = 64
min_visible = 0.5
classes = ["cat", "dog"]
[fields.depth]
kind = "array"
dtype = "float16"
shape = [3, 64]
[fields.image]
from = "photo"
)");
  const auto& fields = options.dataset.fields;
  REQUIRE(fields.size() == 4);  // sorted by name
  CHECK(fields[0].name == "boxes");
  CHECK(fields[0].kind == FieldKind::boxes);
  CHECK(fields[0].most == 64);
  CHECK(fields[0].min_visible == 0.5);
  CHECK(fields[0].classes == std::vector<std::string>{"cat", "dog"});
  CHECK(fields[1].dtype == DType::float16);
  CHECK(fields[1].shape == std::vector<std::int64_t>{3, 64});
  CHECK_FALSE(fields[2].kind.has_value());
  CHECK(fields[3].from == "masks/{stem}.png");
  CHECK_FALSE(fields[3].dtype.has_value());
  CHECK(parse(to_toml(options)).dataset.fields == fields);
  const std::vector<std::string> overrides{"fields.boxes.most=8", "fields.age.kind=numbers"};
  const Options more = parse_options(to_toml(options), "config", overrides);
  CHECK(more.dataset.fields[0].name == "age");
  CHECK(more.dataset.fields[1].most == 8);
}

TEST_CASE("no two keys are one member") {
  for (const config::Key& key : config::keys()) {
    // A different value for this key only; the others keep their defaults.
    Options changed;
    std::visit(
        config::Overloaded{
            [&](const config::Choice& choice) { choice.set(changed, choice.get(changed) == 0 ? 1 : 0); },
            [&](const config::Flag& flag) { flag.field.in(changed) ^= true; },
            [&](const config::Text& text) { text.field.in(changed) = "another"; },
            [&](const config::TextList& list) { list.field.in(changed) = {"another"}; },
            [&](const config::RealList& list) { list.field.in(changed) = {0.5}; },
            [&](const config::WholeList& list) { list.field.in(changed) = {9}; },
            [&](const config::Budget& budget) { budget.field.in(changed) = std::int64_t{9}; },
            [&]<typename T, std::size_t N>(const config::Tuple<T, N>& tuple) { tuple.field.in(changed).fill(T{7}); },
            [&](const auto& number) { number.field.in(changed) += 1; }},
        key.kind);
    for (const config::Key& other : config::keys()) {
      CAPTURES(config::full_name(key), config::full_name(other));
      const bool differs = config::value_text(other, changed) != config::value_text(other, Options{});
      CHECK(differs == (&other == &key));
    }
  }
}

TEST_CASE("values of every kind") {
  const Options options = parse(R"(
seed = 3
on_bad = "fail"
max_bad = 5
[run]
eval = true
[dataset]
path = "data \"x\""
classes = ["cat", "dog"]
[transform]
size = [32, 48]
scale = [0.5, 1]
mean = [1, 2.5, 3]
layout = "NHWC"
dtype = "uint8"
[workers]
io = 12
decode = "auto"
bytes = "64MB"
[policy]
name = "greedy"
high = 1
[storage]
outage_s = inf
[trainer]
allreduce_bytes = "4 MiB"
)");
  CHECK(options.seed == 3);
  CHECK(options.on_bad == OnBad::fail);
  CHECK(std::get<std::int64_t>(options.max_bad) == 5);
  CHECK(options.run.eval);
  CHECK(options.dataset.path == "data \"x\"");
  CHECK(options.dataset.classes == std::vector<std::string>{"cat", "dog"});
  CHECK(options.transform.size == std::array<std::int64_t, 2>{32, 48});
  CHECK(options.transform.scale == std::array{0.5, 1.0});
  CHECK(options.transform.mean == std::array{1.0, 2.5, 3.0});
  CHECK(options.transform.layout == Layout::nhwc);
  CHECK(options.transform.dtype == DType::uint8);
  CHECK(options.workers.io == 12);
  CHECK(options.workers.decode == 0);
  CHECK(options.workers.bytes == 64'000'000);
  CHECK(options.policy.name == "greedy");
  CHECK(options.policy.high == 1.0);
  CHECK(std::isinf(options.storage.outage_s));
  CHECK(options.trainer.allreduce_bytes == 4LL << 20);
}

TEST_CASE("an integer budget counts, a float is a share") {
  CHECK(std::get<std::int64_t>(parse("max_bad = 1").max_bad) == 1);
  CHECK(std::get<double>(parse("max_bad = 1.0").max_bad) == 1.0);
}

TEST_CASE("sizes") {
  const auto bytes = [](const std::string& text) { return with({"workers.bytes=" + text}).workers.bytes; };
  CHECK(bytes("4096") == 4096);
  CHECK(bytes("1GiB") == 1LL << 30);
  CHECK(bytes("256 MiB") == 256LL << 20);
  CHECK(bytes("3kB") == 3000);
  CHECK(bytes("\"2TB\"") == 2'000'000'000'000);
  for (const char* text : {"12 apples", "MiB", "-1MiB", "1.5GiB", "99999999999TiB", "0"}) {
    CAPTURE(text);
    CHECK(contains(refusal_of(std::string("workers.bytes=") + text), "workers.bytes: expected a number of bytes"));
  }
}

TEST_CASE("overrides: TOML values, bare words, in order, on top of the file") {
  const Options options = parse("seed = 1\n[queue]\ncapacity = 4",
                                {"seed=3", "policy.name=greedy", " transform.size = [32, 32] ", "on_bad=fail",
                                 "dataset.path=2024", "telemetry.dir=", "workers.io=auto", "queue.capacity=8",
                                 "queue.capacity=9", "queue.memory=1GiB", "run.eval=true", "dataset.index=\"a b\""});
  CHECK(options.seed == 3);
  CHECK(options.policy.name == "greedy");
  CHECK(options.transform.size == std::array<std::int64_t, 2>{32, 32});
  CHECK(options.on_bad == OnBad::fail);
  CHECK(options.dataset.path == "2024");
  CHECK(options.telemetry.dir.empty());
  CHECK(options.workers.io == 0);
  CHECK(options.queue.capacity == 9);
  CHECK(options.queue.memory == std::int64_t{1} << 30);
  CHECK(options.run.eval);
  CHECK(options.dataset.index == "a b");
}

TEST_CASE("an override repairs what the file has wrong") {
  CHECK(parse("[queue]\ncapacity = -1", {"queue.capacity=2"}).queue.capacity == 2);
}

TEST_CASE("the presets of the policies are configurations") {
  int presets = 0;
  for (const auto& entry : fs::directory_iterator(forebay::testing::source_dir() / "policies")) {
    if (entry.path().extension() != ".toml") continue;
    CAPTURE(entry.path().string());
    CHECK(load_options(entry.path()).policy.name == entry.path().stem().string());
    ++presets;
  }
  CHECK(presets >= 5);
}

// Options written as TOML and read back.

using config::Key;

// Draws a permitted value for every key.
class AnyOptions {
 public:
  explicit AnyOptions(std::uint64_t seed) : random_(seed) {}

  Options draw() {
    Options options;
    for (const Key& key : config::keys()) std::visit([&](const auto& kind) { fill(kind, options); }, key.kind);
    options.device = random_.below(2) == 0 ? "auto" : "host";
    if (random_.below(2) == 0) {
      options.telemetry.prometheus = "";
    } else {
      options.telemetry.prometheus += ".prom";
    }
    options.mpi.mode = MpiMode::local;
    options.transform.when = When::enqueue;
    options.transform.channels = options.transform.channels == 1 ? 1 : 3;
    options.transform.resize = options.transform.padding = options.transform.fill = {};
    if (options.transform.crop == Crop::random) {
      options.transform.padding = {0};
      options.transform.fill = {7, 8, 9};
    }
    if (options.transform.operations.empty()) options.transform.views = 1;
    if (options.transform.channels == 1) options.workers.jpeg = JpegLibrary::turbo;
    options.dataset.clip.frames = 1 + options.dataset.clip.frames % 32;  // so that all fit into memory
    if (options.dataset.clip.segment.empty()) options.dataset.clip.unit = ClipUnit::frames;
    if (random_.below(2) == 0) {
      options.dataset.clip = {};
    } else {
      options.transform.views = 1;
      options.transform.decode = Decode::full;
      options.workers.jpeg = JpegLibrary::own;
      options.dataset.samples = SampleUnit::objects;
    }
    if (options.policy.low > options.policy.high) std::swap(options.policy.low, options.policy.high);
    std::ranges::sort(options.transform.scale);
    std::ranges::sort(options.transform.ratio);
    std::ranges::sort(options.transform.blur.sigma);
    std::ranges::sort(options.transform.erase.area);
    options.transform.cutmix.probability =
        std::min(options.transform.cutmix.probability, 1 - options.transform.mixup.probability);
    for (double& share : options.dataset.split) share /= static_cast<double>(options.dataset.split.size());
    options.dataset.part %= std::max<std::int64_t>(1, std::ssize(options.dataset.split));
    if (options.dataset.order == SampleOrder::local) {
      options.dataset.shuffle = true;
      options.dataset.weights = "";
    } else {
      options.dataset.exchange = 0;
      options.dataset.nodes = 0;
    }
    options.transform.size = {1 + static_cast<std::int64_t>(random_.below(512)), 224};
    return options;
  }

 private:
  double number(const config::Range<double>& range) {
    const double high = std::isinf(range.high) ? 1e300 : range.high;
    const std::uint64_t kind = random_.below(8);
    if (kind == 0) return range.high;
    if (kind == 1 && !range.above_low) return range.low;
    return std::min(high, range.low + (high - range.low) * (1 - random_.uniform()));
  }
  std::int64_t number(const config::Range<std::int64_t>& range) {
    return range.low + static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(range.high - range.low) + 1));
  }
  std::string text() {
    static constexpr std::string_view kPieces[] = {"a",    "\"", "\\", "\n", "\t", "\x01",
                                                   "\x7f", "#",  "é",  "=",  "'",  " "};
    std::string result;
    for (std::uint64_t left = random_.below(9); left > 0; --left) result += kPieces[random_.below(std::size(kPieces))];
    return result;
  }

  void fill(const config::Flag& flag, Options& options) { flag.field.in(options) = random_.below(2) == 0; }
  void fill(const config::Seed& seed, Options& options) {
    seed.field.in(options) = random_.bits() >> random_.below(64);
  }
  void fill(const config::Text& value, Options& options) {
    value.field.in(options) =
        value.choices.empty() ? text() : std::string(value.choices[random_.below(value.choices.size())]);
  }
  void fill(const config::TextList& list, Options& options) {
    for (std::uint64_t left = random_.below(4); left > 0; --left) list.field.in(options).push_back(text());
  }
  void fill(const config::RealList& list, Options& options) {
    for (std::uint64_t left = random_.below(4); left > 0; --left) list.field.in(options).push_back(number(list.range));
  }
  void fill(const config::WholeList& list, Options& options) {
    for (std::uint64_t left = random_.below(4); left > 0; --left) list.field.in(options).push_back(number(list.range));
  }
  void fill(const config::Choice& choice, Options& options) { choice.set(options, random_.below(choice.names.size())); }
  void fill(const config::Budget& budget, Options& options) {
    BadBudget& value = budget.field.in(options);
    if (random_.below(3) == 0) {
      value = AutomaticBudget{};
    } else if (random_.below(2) == 0) {
      value = static_cast<std::int64_t>(random_.below(1000));
    } else {
      value = random_.below(3) == 0 ? 1.0 : random_.uniform();
    }
  }
  template <typename T, std::size_t N>
  void fill(const config::Tuple<T, N>& tuple, Options& options) {
    for (T& value : tuple.field.in(options)) value = number(tuple.range);
  }
  template <typename Number>
  void fill(const Number& kind, Options& options) {
    kind.field.in(options) = number(kind.range);
  }

  Random random_;
};

TEST_CASE("what is written reads back to the same options, bit for bit") {
  const std::uint64_t seed = std::random_device{}();
  MESSAGE("seed ", seed);
  for (std::uint64_t i = 0; i < 300; ++i) {
    Options options = AnyOptions(key64(seed, i)).draw();
    options.dataset.batch_size = 1 + options.dataset.batch_size % 64;  // so that all fit into memory
    const std::string toml = to_toml(options);
    CAPTURE(toml);
    const Options again = parse(toml);
    check_same(again, options);
    REQUIRE(to_toml(again) == toml);
  }
}

TEST_CASE("sizes are written exactly, in the largest unit that divides them") {
  const auto written = [](std::int64_t bytes) {
    Options options;
    options.workers.bytes = bytes;
    return to_toml(options);
  };
  CHECK(contains(written(256LL << 20), "bytes = \"256MiB\""));
  CHECK(contains(written(64'000'000), "bytes = \"64MB\""));
  CHECK(contains(written(12345), "bytes = 12345 "));
}

TEST_CASE("programs are told every key, with a value that may be written") {
  const auto all = config_keys();
  REQUIRE(all.size() == config::keys().size());
  std::string toml;
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].section == config::keys()[i].section);
    CHECK(all[i].name == config::keys()[i].name);
    CHECK_FALSE(all[i].expected.empty());
    CHECK(contains(to_toml(Options()), all[i].help));
    const std::string section = all[i].section.empty() ? "" : all[i].section + ".";
    toml += section + all[i].name + " = " + all[i].default_value + "\n";
  }
  CHECK(to_toml(parse(toml)) == to_toml(Options()));
}

}  // namespace
}  // namespace forebay::test_config
