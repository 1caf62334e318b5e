// The one description of every configuration key: where its value lives in Options, its kind and
// range, and the comment in written files. Reading, checking, writing, completion, suggestions and
// docs/configuration.md are made of these tables; defaults are those of the Options themselves.
// Order is that of written files. Everything is constexpr: no key can be looked up before the table
// exists.

#include "schema.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "data/formats.hpp"
#include "make/builtin_operations.hpp"

namespace forebay::config {
namespace {

// The value at the end of a path of member pointers: at<&Options::run, &RunOptions::steps>(options).
template <auto... Path>
const auto& at(const Options& options) {
  return (options.*....*Path);
}
template <auto... Path>
auto& in(Options& options) {
  return (options.*....*Path);
}

template <auto... Path>
using Value = std::remove_cvref_t<decltype(at<Path...>(std::declval<const Options&>()))>;

template <auto... Path>
constexpr Place<Value<Path...>> field() {
  return {at<Path...>, in<Path...>};
}

// Names stand in the order of the enumeration.
template <auto... Path>
constexpr Choice choice(std::span<const std::string_view> names) {
  return {names, [](const Options& options) { return static_cast<std::size_t>(at<Path...>(options)); },
          [](Options& options, std::size_t place) { in<Path...>(options) = static_cast<Value<Path...>>(place); }};
}

template <std::size_t N>
using Names = std::array<std::string_view, N>;

constexpr Names<2> kOnBad{"replace", "fail"};
constexpr Names<3> kOrder{"global", "shards", "local"};
constexpr Names<2> kSamples{"objects", "images"};
constexpr Names<4> kCrop{"none", "center", "random_resized", "random"};
constexpr Names<2> kLayout{"NCHW", "NHWC"};
constexpr Names<4> kDType{"float32", "float16", "bfloat16", "uint8"};
constexpr Names<3> kDecode{"region", "full", "scaled"};
constexpr Names<3> kCacheFiles{"auto", "all", "remote"};
constexpr Names<2> kHedge{"auto", "off"};
constexpr Names<3> kJpegLibrary{"own", "turbo", "nvjpeg"};
constexpr Names<2> kWhen{"enqueue", "dequeue"};
constexpr Names<2> kClipStart{"random", "center"};
constexpr Names<2> kShortVideos{"skip", "repeat_last"};
constexpr Names<2> kClipUnit{"frames", "seconds"};
constexpr Names<3> kOnMaxUses{"wait", "warn", "error"};
constexpr Names<2> kPick{"current", "least_used"};
constexpr Names<2> kMpiMode{"local", "lockstep"};
constexpr Names<2> kEpochEnd{"next", "reuse"};
constexpr Names<2> kScope{"rank", "node"};
constexpr Names<3> kStepDistribution{"constant", "normal", "exponential"};
constexpr Names<3> kLive{"auto", "always", "never"};

constexpr std::int64_t kMany = std::int64_t{1} << 48;           // more than any run counts
constexpr std::int64_t kMostPixels = 65'500LL * 65'500LL;       // the largest JPEG
constexpr std::int64_t kMostAllreduce = std::int64_t{4} << 30;  // within an MPI count of floats
constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr Range<std::int64_t> kCount{0, kMany};
constexpr Range<std::int64_t> kPlaces{1, 4096};
constexpr Range<double> kShare{0.0, 1.0};
constexpr Range<double> kPositiveShare{0.0, 1.0, true};
constexpr Range<double> kAlpha{0.01, 1000.0};
constexpr Range<double> kAmount{0.0, 1e9};  // milliseconds, seconds, megabytes: far beyond use, safe for clocks
constexpr Range<double> kPixelValue{-1e6, 1e6};

using O = Options;
using Run = RunOptions;
using Data = DatasetOptions;
using Clip = ClipOptions;
using Shape = TransformOptions;
using Colour = ColourOptions;
using Blur = BlurOptions;
using Solarise = SolariseOptions;
using Erase = EraseOptions;
using Mix = MixOptions;
using Work = WorkerOptions;
using Queue = QueueOptions;
using Rule = PolicyOptions;
using Mpi = MpiOptions;
using Store = StorageOptions;
using Cache = CacheOptions;
using Log = TelemetryOptions;
using Train = TrainerOptions;

constexpr std::array kSections{
    Section{"run", "how long; your own trainer may decide this itself"},
    Section{"dataset", "what is served"},
    Section{"clip", "video clips instead of images", true},
    Section{"transform", "how an image becomes a place in a batch", true},
    Section{"colour", "the operation \"colour\": how far its random factors reach", true},
    Section{"blur", "the operation \"blur\": a Gaussian", true},
    Section{"solarise", "the operation \"solarise\": bright values inverted", true},
    Section{"erase", "the operation \"erase\": a rectangle of the mean colour", true},
    Section{"mixup", "training batches whose samples are blended in pairs; labels become label_weights", true},
    Section{"cutmix", "likewise, with a rectangle swapped", true},
    Section{"workers", "threads and memory of each rank"},
    Section{"queue", "batches, not samples"},
    Section{"policy", "fresh batch or reuse, decided at each step"},
    Section{"mpi", "how ranks agree"},
    Section{"storage", "an emulated slow or failing store in front of the dataset; all zero = none"},
    Section{"cache", "a directory on the node that keeps what was read from a store"},
    Section{"telemetry", "what is written about the run"},
    Section{"trainer", "the emulated trainer of forebay feed"},
};

constexpr std::array kKeys{
    Key{"", "seed", Seed{field<&O::seed>()}, "the same seed gives the same batches"},
    Key{"", "device", Text{field<&O::device>(), {}}, "auto | host | cuda | cuda:N"},
    Key{"", "on_bad", choice<&O::on_bad>(kOnBad), "bad samples: replace (and quarantine) | fail"},
    Key{"", "max_bad", Budget{field<&O::max_bad>()},
        "distinct bad samples in the job: auto = 1 % and no whole class or file, 0.05 = a share, 5 = a count"},

    Key{"run", "epochs", Integer{field<&O::run, &Run::epochs>(), {1, kMany}},
        "permutations of the dataset to serve; ignored when steps > 0"},
    Key{"run", "steps", Integer{field<&O::run, &Run::steps>(), kCount}, "end after this many steps; 0 = by epochs"},
    Key{"run", "eval", Flag{field<&O::run, &Run::eval>()}, "evaluation: in order, no reuse; steps > 0 ends it early"},

    Key{"dataset", "format", Text{field<&O::dataset, &Data::format>(), data::kFormatChoices}, data::kFormatChoicesText},
    Key{"dataset", "path", Text{field<&O::dataset, &Data::path>(), {}},
        "folder, list file (its entries are relative to its folder), or file of records"},
    Key{"dataset", "labels", Text{field<&O::dataset, &Data::labels>(), {}},
        "filelist: a file of labels; idx: the labels file (else found by name)"},
    Key{"dataset", "classes", TextList{field<&O::dataset, &Data::classes>()}, "class list; empty = found and sorted"},
    Key{"dataset", "samples", choice<&O::dataset, &Data::samples>(kSamples),
        "where images have objects: objects = one sample per object | images = one per image, with its boxes"},
    Key{"dataset", "difficult", Flag{field<&O::dataset, &Data::difficult>()}, "voc: keep objects marked difficult"},
    Key{"dataset", "index", Text{field<&O::dataset, &Data::index>(), {}},
        "saved index: loaded if present, else built and saved there"},
    Key{"dataset", "batch_size", Integer{field<&O::dataset, &Data::batch_size>(), {1, 1 << 20}},
        "samples per batch and rank"},
    Key{"dataset", "shuffle", Flag{field<&O::dataset, &Data::shuffle>()}, "a different order in every epoch"},
    Key{"dataset", "order", choice<&O::dataset, &Data::order>(kOrder),
        "global = any sample anywhere | shards = read in long pieces, shuffled in windows | local = a node keeps its "
        "samples"},
    Key{"dataset", "window", Integer{field<&O::dataset, &Data::window>(), {1, 1 << 24}},
        "shards: about how many samples are shuffled among themselves"},
    Key{"dataset", "run", Integer{field<&O::dataset, &Data::run>(), {1, 1 << 24}},
        "shards: how many adjacent samples are read as one piece"},
    Key{"dataset", "nodes", Integer{field<&O::dataset, &Data::nodes>(), {0, 1 << 20}},
        "local: into how many parts the samples are dealt; 0 = one per node of the job"},
    Key{"dataset", "exchange", Real{field<&O::dataset, &Data::exchange>(), kShare},
        "local: share of the samples that goes to any part, others in each epoch"},
    Key{"dataset", "drop_last", Flag{field<&O::dataset, &Data::drop_last>()},
        "drop the samples that do not fill a batch at the end of an epoch"},
    Key{"dataset", "split", RealList{field<&O::dataset, &Data::split>(), kPositiveShare},
        "shares into which the samples are divided, such as [0.9, 0.1]; empty = no split"},
    Key{"dataset", "part", Integer{field<&O::dataset, &Data::part>(), {0, 1'000'000}},
        "which part of the split is served, from 0"},
    Key{"dataset", "fraction", Real{field<&O::dataset, &Data::fraction>(), kPositiveShare},
        "serve this share of the samples, the same ones every time"},
    Key{"dataset", "weights", Text{field<&O::dataset, &Data::weights>(), {}},
        "how often samples come: balanced | a file of names and weights | empty = all alike"},

    Key{"clip", "frames", Integer{field<&O::dataset, &Data::clip, &Clip::frames>(), {0, 4096}},
        "frames of each clip; 0 = samples are images"},
    Key{"clip", "stride", Integer{field<&O::dataset, &Data::clip, &Clip::stride>(), {1, 65536}},
        "frames of the video from one frame of a clip to the next"},
    Key{"clip", "start", choice<&O::dataset, &Data::clip, &Clip::start>(kClipStart),
        "where a clip begins: random | center (always in evaluation)"},
    Key{"clip", "every", Integer{field<&O::dataset, &Data::clip, &Clip::every>(), {0, 1 << 24}},
        "a sample for every N frames, which begins among them; 0 = one per video"},
    Key{"clip", "short_videos", choice<&O::dataset, &Data::clip, &Clip::short_videos>(kShortVideos),
        "videos shorter than a clip: skip = leave out | repeat_last = repeat the last frame"},
    Key{"clip", "segment", Text{field<&O::dataset, &Data::clip, &Clip::segment>(), {}},
        "columns \"BEGIN, END\" of a table: clips lie within [BEGIN, END) of the video; empty = anywhere"},
    Key{"clip", "unit", choice<&O::dataset, &Data::clip, &Clip::unit>(kClipUnit),
        "of clip.segment: frames, from 0 | seconds, from the first frame"},

    Key{"transform", "crop", choice<&O::transform, &Shape::crop>(kCrop), "none | center | random_resized | random"},
    Key{"transform", "size", Tuple<std::int64_t, 2>{field<&O::transform, &Shape::size>(), {1, 16384}},
        "height, width in pixels"},
    Key{"transform", "resize", WholeList{field<&O::transform, &Shape::resize>(), {1, 16384}},
        "center, random: size is cut out of the image resized to [height, width] or [shorter side]"},
    Key{"transform", "padding", WholeList{field<&O::transform, &Shape::padding>(), {0, 16383}},
        "random: pixels around the image: [all], [left and right, top and bottom], [left, top, right, bottom]"},
    Key{"transform", "fill", WholeList{field<&O::transform, &Shape::fill>(), {0, 255}},
        "colour of the padding: [red, green, blue] or [all], before mean and std; empty = black"},
    Key{"transform", "scale", Tuple<double, 2>{field<&O::transform, &Shape::scale>(), kPositiveShare},
        "random_resized: smallest and largest share of the area"},
    Key{"transform", "ratio", Tuple<double, 2>{field<&O::transform, &Shape::ratio>(), {0.001, 1000.0}},
        "random_resized: smallest and largest width / height"},
    Key{"transform", "center_fraction", Real{field<&O::transform, &Shape::center_fraction>(), kPositiveShare},
        "center: share of the largest centred region"},
    Key{"transform", "mirror", Real{field<&O::transform, &Shape::mirror>(), kShare},
        "probability of a left-right flip"},
    Key{"transform", "views", Integer{field<&O::transform, &Shape::views>(), {1, 64}},
        "views of each sample in a batch, from one decode"},
    Key{"transform", "mean", Tuple<double, 3>{field<&O::transform, &Shape::mean>(), kPixelValue},
        "red, green, blue; (value - mean) / std"},
    Key{"transform", "std", Tuple<double, 3>{field<&O::transform, &Shape::std>(), {0.0, 1e6, true}},
        "unused for uint8, as is mean"},
    Key{"transform", "layout", choice<&O::transform, &Shape::layout>(kLayout), "NCHW | NHWC"},
    Key{"transform", "dtype", choice<&O::transform, &Shape::dtype>(kDType), "float32 | float16 | bfloat16 | uint8"},
    Key{"transform", "channels", Integer{field<&O::transform, &Shape::channels>(), {1, 3}},
        "3 (red, green, blue) | 1 (grey, with the first of mean and std)"},
    Key{"transform", "exif", Flag{field<&O::transform, &Shape::exif>()}, "honour EXIF orientation"},
    Key{"transform", "max_pixels", Integer{field<&O::transform, &Shape::max_pixels>(), {1, kMostPixels}},
        "larger images are bad samples"},
    Key{"transform", "decode", choice<&O::transform, &Shape::decode>(kDecode),
        "region (what the crop shows) | full | scaled (faster, lossy)"},
    Key{"transform", "when", choice<&O::transform, &Shape::when>(kWhen),
        "enqueue (once) | dequeue (another view at every use)"},
    Key{"transform", "canvas", Tuple<std::int64_t, 2>{field<&O::transform, &Shape::canvas>(), {0, 8L * 16384}},
        "dequeue: height, width of the space for a sample; 0 = 8/7 of size"},
    Key{"transform", "operations", TextList{field<&O::transform, &Shape::operations>()}, make::kOperationChoicesText},

    Key{"colour", "brightness", Real{field<&O::transform, &Shape::colour, &Colour::brightness>(), kShare},
        "factor from 1 - this to 1 + this"},
    Key{"colour", "contrast", Real{field<&O::transform, &Shape::colour, &Colour::contrast>(), kShare},
        "likewise, about middle grey"},
    Key{"colour", "saturation", Real{field<&O::transform, &Shape::colour, &Colour::saturation>(), kShare},
        "likewise, about grey of the same luma"},
    Key{"colour", "hue", Real{field<&O::transform, &Shape::colour, &Colour::hue>(), {0.0, 0.5}},
        "share of the colour circle, either way"},
    Key{"colour", "grey", Real{field<&O::transform, &Shape::colour, &Colour::grey>(), kShare},
        "probability that the image becomes grey"},

    Key{"blur", "probability", Real{field<&O::transform, &Shape::blur, &Blur::probability>(), kShare}, "of blurring"},
    Key{"blur", "sigma", Tuple<double, 2>{field<&O::transform, &Shape::blur, &Blur::sigma>(), {0.1, 64.0}},
        "smallest and largest standard deviation, in pixels of the view"},

    Key{"solarise", "probability", Real{field<&O::transform, &Shape::solarise, &Solarise::probability>(), kShare},
        "of solarising"},
    Key{"solarise", "threshold", Integer{field<&O::transform, &Shape::solarise, &Solarise::threshold>(), {0, 255}},
        "values from this on become 255 - value"},

    Key{"erase", "probability", Real{field<&O::transform, &Shape::erase, &Erase::probability>(), kShare},
        "of erasing a rectangle"},
    Key{"erase", "area", Tuple<double, 2>{field<&O::transform, &Shape::erase, &Erase::area>(), kPositiveShare},
        "smallest and largest share of the view that is erased"},

    Key{"mixup", "probability", Real{field<&O::transform, &Shape::mixup, &Mix::probability>(), kShare}, "of blending"},
    Key{"mixup", "alpha", Real{field<&O::transform, &Shape::mixup, &Mix::alpha>(), kAlpha},
        "a batch's share is drawn from Beta(alpha, alpha)"},

    Key{"cutmix", "probability", Real{field<&O::transform, &Shape::cutmix, &Mix::probability>(), kShare}, "of cutting"},
    Key{"cutmix", "alpha", Real{field<&O::transform, &Shape::cutmix, &Mix::alpha>(), kAlpha},
        "a batch's share is drawn from Beta(alpha, alpha)"},

    Key{"workers", "io", Automatic{field<&O::workers, &Work::io>(), {1, 4096}}, "reader threads, or \"auto\""},
    Key{"workers", "decode", Automatic{field<&O::workers, &Work::decode>(), {1, 4096}},
        "decoder threads; \"auto\" = the cores of this rank minus one, at least one"},
    Key{"workers", "bytes", Bytes{field<&O::workers, &Work::bytes>(), {1, kMany}}, "encoded bytes in flight"},
    Key{"workers", "hedge", choice<&O::workers, &Work::hedge>(kHedge),
        "auto: read a sample again if its read is far slower than others | off"},
    Key{"workers", "direct", Flag{field<&O::workers, &Work::direct>()},
        "read data files past the page cache (O_DIRECT): for data larger than memory"},
    Key{"workers", "jpeg", choice<&O::workers, &Work::jpeg>(kJpegLibrary),
        "what decodes JPEG files: own | turbo (libjpeg-turbo alone; same pixels) | nvjpeg (the GPU; lossy)"},

    Key{"queue", "capacity", Automatic{field<&O::queue, &Queue::capacity>(), {1, 4096}},
        "ready batches the ring can hold, or \"auto\""},
    Key{"queue", "memory", Bytes{field<&O::queue, &Queue::memory>(), {0, kMany}},
        "capacity = \"auto\": the most that all slots may take; 0 = what capacity = 16 takes"},
    Key{"queue", "pool", Automatic{field<&O::queue, &Queue::pool>(), kPlaces, kAutomatic},
        "resident batches a reuse may choose from, the current one included, or \"auto\""},
    Key{"queue", "max_leases", Integer{field<&O::queue, &Queue::max_leases>(), kPlaces},
        "batches the trainer may hold at once"},
    Key{"queue", "run_ahead", Integer{field<&O::queue, &Queue::run_ahead>(), kPlaces},
        "steps that the trainer's thread may be ahead of a GPU"},

    Key{"policy", "name", Text{field<&O::policy, &Rule::name>(), {}},
        "adaptive | block | interval | greedy | watermark | proportional | replay"},
    Key{"policy", "interval", Integer{field<&O::policy, &Rule::interval>(), {1, kMany}},
        "interval: a fresh batch every N steps"},
    Key{"policy", "low", Real{field<&O::policy, &Rule::low>(), kPositiveShare},
        "watermark: start reusing below this share of capacity"},
    Key{"policy", "high", Real{field<&O::policy, &Rule::high>(), kPositiveShare},
        "watermark: stop reusing at this share of capacity"},
    Key{"policy", "beta", Real{field<&O::policy, &Rule::beta>(), kPositiveShare},
        "proportional: share of capacity at which every step is fresh"},
    Key{"policy", "max_uses", Automatic{field<&O::policy, &Rule::max_uses>(), kCount, kAutomatic},
        "how often one batch may be served, including the first time, or \"auto\"; 0 = no cap"},
    Key{"policy", "on_max_uses", choice<&O::policy, &Rule::on_max_uses>(kOnMaxUses), "wait | warn | error"},
    Key{"policy", "pick", choice<&O::policy, &Rule::pick>(kPick), "which resident batch: current | least_used"},
    Key{"policy", "max_wait_ms", Real{field<&O::policy, &Rule::max_wait_ms>(), kAmount},
        "wait this long for a batch before an empty queue forces a reuse"},
    Key{"policy", "watchdog_s", Real{field<&O::policy, &Rule::watchdog_s>(), kAmount},
        "no fresh batch for this long is an error; 0 = never"},
    Key{"policy", "recording", Text{field<&O::policy, &Rule::recording>(), {}},
        "replay: the telemetry.dir of the run to repeat"},

    Key{"mpi", "mode", choice<&O::mpi, &Mpi::mode>(kMpiMode),
        "local: each rank decides for itself | lockstep: all ranks alike"},
    Key{"mpi", "lag", Integer{field<&O::mpi, &Mpi::lag>(), {1, 15}}, "steps between a census and its use"},
    Key{"mpi", "virtual_shards", Integer{field<&O::mpi, &Mpi::virtual_shards>(), {1, 1 << 20}},
        "the most ranks that a run may have"},
    Key{"mpi", "epoch_end", choice<&O::mpi, &Mpi::epoch_end>(kEpochEnd),
        "next: start the next epoch | reuse: reuse batches until all ranks are done"},

    Key{"storage", "latency_ms", Real{field<&O::storage, &Store::latency_ms>(), kAmount},
        "mean time of a read before its first byte"},
    Key{"storage", "jitter", Real{field<&O::storage, &Store::jitter>(), {0.0, 100.0}},
        "coefficient of variation of the latency"},
    Key{"storage", "slow_rate", Real{field<&O::storage, &Store::slow_rate>(), kShare},
        "share of reads that take slow_ms longer"},
    Key{"storage", "slow_ms", Real{field<&O::storage, &Store::slow_ms>(), kAmount}, "how much longer"},
    Key{"storage", "bandwidth_mb_s", Real{field<&O::storage, &Store::bandwidth_mb_s>(), kAmount},
        "10^6 bytes per second; 0 = unlimited"},
    Key{"storage", "burst_mb", Real{field<&O::storage, &Store::burst_mb>(), kAmount},
        "10^6 bytes that pass at once after an idle time"},
    Key{"storage", "scope", choice<&O::storage, &Store::scope>(kScope), "who shares the bandwidth: rank | node"},
    Key{"storage", "outage_every_s", Real{field<&O::storage, &Store::outage_every_s>(), kAmount},
        "from the end of one outage to the next; 0 = no outages"},
    Key{"storage", "outage_s", Real{field<&O::storage, &Store::outage_s>(), {0.0, kInfinity}},
        "length of an outage; inf = for ever"},
    Key{"storage", "fail_rate", Real{field<&O::storage, &Store::fail_rate>(), kShare},
        "share of reads that fail with a transient error"},

    Key{"cache", "dir", Text{field<&O::cache, &Cache::dir>(), {}},
        "on a disk of the node, shared by its ranks and jobs; \"\" = no cache"},
    Key{"cache", "bytes", Bytes{field<&O::cache, &Cache::bytes>(), {0, kMany}},
        "the most that it holds; 0 = nine tenths of what is free there"},
    Key{"cache", "files", choice<&O::cache, &Cache::files>(kCacheFiles),
        "besides URLs: auto = files on no local disk | all = all but those on the cache's file system | remote = none"},

    Key{"telemetry", "dir", Text{field<&O::telemetry, &Log::dir>(), {}}, "where the files go; \"\" = no files"},
    Key{"telemetry", "per_step", Flag{field<&O::telemetry, &Log::per_step>()}, "one JSON line per step and rank"},
    Key{"telemetry", "decisions", Flag{field<&O::telemetry, &Log::decisions>()},
        "record which steps were fresh, for policy.name = \"replay\""},
    Key{"telemetry", "interval_s", Real{field<&O::telemetry, &Log::interval_s>(), kAmount},
        "how often to print a line; 0 = never"},
    Key{"telemetry", "max_bytes", Bytes{field<&O::telemetry, &Log::max_bytes>(), {0, kMany}},
        "the most that a rank's steps and intervals may take each: the latest are kept; 0 = no limit"},
    Key{"telemetry", "live", choice<&O::telemetry, &Log::live>(kLive),
        "status line: auto (on a terminal) | always | never"},
    Key{"telemetry", "prometheus", Text{field<&O::telemetry, &Log::prometheus>(), {}},
        "figures for monitoring: NAME.prom | PORT | ADDRESS:PORT; \"\" = none"},

    Key{"trainer", "step_ms", Real{field<&O::trainer, &Train::step_ms>(), kAmount}, "emulated compute time of a step"},
    Key{"trainer", "step_distribution", choice<&O::trainer, &Train::step_distribution>(kStepDistribution),
        "constant | normal | exponential"},
    Key{"trainer", "allreduce_bytes", Bytes{field<&O::trainer, &Train::allreduce_bytes>(), {0, kMostAllreduce}},
        "bytes all-reduced at every step"},
};

}  // namespace

std::span<const Key> keys() noexcept { return kKeys; }
std::span<const Section> sections() noexcept { return kSections; }

const Key* find_key(std::string_view section, std::string_view name) noexcept {
  const auto* const found =
      std::ranges::find_if(kKeys, [&](const Key& key) { return key.section == section && key.name == name; });
  return found == kKeys.end() ? nullptr : found;
}

const Section* find_section(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kSections, name, &Section::name);
  return found == kSections.end() ? nullptr : found;
}

std::string full_name(std::string_view section, std::string_view name) {
  return section.empty() ? std::string(name) : std::string(section) + "." + std::string(name);
}

}  // namespace forebay::config
