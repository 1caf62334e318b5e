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
constexpr Field<Value<Path...>> field() {
  return {at<Path...>, in<Path...>};
}

template <auto... Path>
constexpr Choice choice(std::span<const std::string_view> names) {
  return {names, [](const Options& options) { return static_cast<std::size_t>(at<Path...>(options)); },
          [](Options& options, std::size_t place) { in<Path...>(options) = static_cast<Value<Path...>>(place); }};
}

template <std::size_t N>
using Names = std::array<std::string_view, N>;

constexpr Names<2> kOnBad{"replace", "fail"};
constexpr Names<3> kCrop{"none", "center", "random_resized"};
constexpr Names<2> kLayout{"NCHW", "NHWC"};
constexpr Names<4> kDType{"float32", "float16", "bfloat16", "uint8"};
constexpr Names<3> kDecode{"region", "full", "scaled"};
constexpr Names<2> kHedge{"auto", "off"};
constexpr Names<2> kJpegLibrary{"turbo", "nvjpeg"};
constexpr Names<2> kWhen{"enqueue", "dequeue"};
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
constexpr Range<double> kAmount{0.0, 1e9};  // milliseconds, seconds, megabytes: far beyond use, safe for clocks
constexpr Range<double> kPixelValue{-1e6, 1e6};

using O = Options;
using Run = RunOptions;
using Data = DatasetOptions;
using Shape = TransformOptions;
using Colour = ColourOptions;
using Erase = EraseOptions;
using Work = WorkerOptions;
using Queue = QueueOptions;
using Rule = PolicyOptions;
using Mpi = MpiOptions;
using Store = StorageOptions;
using Log = TelemetryOptions;
using Train = TrainerOptions;

constexpr std::array kSections{
    Section{"run", "how long; a trainer of your own may decide this itself"},
    Section{"dataset", "what is served"},
    Section{"transform", "how an image becomes a place in a batch"},
    Section{"colour", "the operation \"colour\": how far its random factors reach"},
    Section{"erase", "the operation \"erase\": a rectangle of the mean colour"},
    Section{"workers", "threads and memory of each rank"},
    Section{"queue", "batches, not samples"},
    Section{"policy", "fresh batch or reuse, decided at each step"},
    Section{"mpi", "how ranks agree"},
    Section{"storage", "an emulated slow or failing store in front of the dataset; all zero = none"},
    Section{"telemetry", "what is written about the run"},
    Section{"trainer", "the emulated trainer of forebay feed"},
};

constexpr std::array kKeys{
    Key{"", "seed", Seed{field<&O::seed>()}, "the same seed gives the same batches",
        "Decides order and augmentation. The same seed, configuration, data and number of ranks give the same batches, "
        "whatever the number of threads. Write values of 2^63 and above as a string."},
    Key{"", "device", Text{field<&O::device>(), {}}, "auto | host | cuda | cuda:N",
        "Where batches live: `auto`, `host`, `cuda`, `cuda:N`. `auto` uses a GPU if this build and this machine have "
        "one, otherwise the host, and says why. `cuda` uses the GPU of the local rank, `cuda:N` the N-th that the "
        "process sees; both are errors if there is none. See [gpu.md](gpu.md)."},
    Key{"", "on_bad", choice<&O::on_bad>(kOnBad), "bad samples: replace (and quarantine) | fail",
        "What happens when a sample cannot be served. `replace`: another sample takes its place (in evaluation none "
        "does: the batch is smaller), and path and reason go to the quarantine log. `fail`: the run ends."},
    Key{"", "max_bad", Budget{field<&O::max_bad>()},
        "distinct bad samples in the job: 0.05 = a share of the dataset, 5 = a count",
        "How many distinct bad samples the job tolerates under `replace`. With a decimal point it is a share of the "
        "dataset (`0.05`), without one a count (`5`). Note the difference between `1.0`, all samples, and `1`, a "
        "single sample."},

    Key{"run", "epochs", Integer{field<&O::run, &Run::epochs>(), {1, kMany}},
        "permutations of the dataset to serve; ignored when steps > 0",
        "Permutations of the dataset to serve; ignored when `steps` is set."},
    Key{"run", "steps", Integer{field<&O::run, &Run::steps>(), kCount}, "end after this many steps; 0 = by epochs",
        "End after this many steps on each rank; 0: run for `epochs`."},
    Key{"run", "eval", Flag{field<&O::run, &Run::eval>()}, "in order, once, never reuses",
        "Evaluation: in order, each sample once, no reuse. The last batch may be short. Bad samples are left out and "
        "counted, so their batches are short too."},

    Key{"dataset", "format", Text{field<&O::dataset, &Data::format>(), kFormatChoices}, kFormatChoicesText,
        kFormatsOnPage},
    Key{"dataset", "path", Text{field<&O::dataset, &Data::path>(), {}},
        "folder, list file (its entries are relative to its folder), or file of records",
        "Required: the folder, the list file, or the file of records (idx images, a CIFAR batch). The entries of a "
        "list file are relative to the folder that the list is in."},
    Key{"dataset", "labels", Text{field<&O::dataset, &Data::labels>(), {}},
        "filelist: a file of labels; idx: the labels file (else found by name)",
        "For `filelist` a file of labels, for `idx` the labels file. Empty: located by name."},
    Key{"dataset", "classes", TextList{field<&O::dataset, &Data::classes>()}, "class list; empty = found and sorted",
        "The class list; a label is an index into it. Empty: the classes found, sorted. Set it when two datasets "
        "(training and validation, say) must agree although one of them lacks a class."},
    Key{"dataset", "difficult", Flag{field<&O::dataset, &Data::difficult>()}, "voc: keep objects marked difficult",
        "For `voc`: keep objects marked difficult."},
    Key{"dataset", "index", Text{field<&O::dataset, &Data::index>(), {}},
        "saved index: loaded when present, else built and saved there",
        "A saved index. Loaded if the file exists, otherwise built and saved there. Set it when finding all files "
        "takes long, as on a parallel file system, or with several ranks per node, which then share its memory "
        "([scaling.md](scaling.md)). An index of other data or options is rejected: delete it, or name another."},
    Key{"dataset", "batch_size", Integer{field<&O::dataset, &Data::batch_size>(), {1, 1 << 20}},
        "samples per batch and rank"},
    Key{"dataset", "shuffle", Flag{field<&O::dataset, &Data::shuffle>()}, "another order in every epoch",
        "A different order in every epoch."},
    Key{"dataset", "drop_last", Flag{field<&O::dataset, &Data::drop_last>()},
        "drop what does not fill a batch at the end of an epoch",
        "Drop the samples that do not fill a batch at the end of an epoch: (number of samples) mod `batch_size` of "
        "them, whatever the number of ranks."},

    Key{"transform", "crop", choice<&O::transform, &Shape::crop>(kCrop), "none | center | random_resized",
        "`random_resized`: a random part, for training. `center`: the middle, for evaluation. `none`: the whole image. "
        "Each is then resized to `size`."},
    Key{"transform", "size", Tuple<std::int64_t, 2>{field<&O::transform, &Shape::size>(), {1, 16384}},
        "height, width in pixels", "Height and width of the result in pixels."},
    Key{"transform", "scale", Tuple<double, 2>{field<&O::transform, &Shape::scale>(), kPositiveShare},
        "random_resized: smallest and largest share of the area",
        "For `random_resized`: smallest and largest share of the area. Raise the first when objects must stay "
        "recognisable."},
    Key{"transform", "ratio", Tuple<double, 2>{field<&O::transform, &Shape::ratio>(), {0.001, 1000.0}},
        "random_resized: smallest and largest width / height",
        "For `random_resized`: smallest and largest width / height."},
    Key{"transform", "center_fraction", Real{field<&O::transform, &Shape::center_fraction>(), kPositiveShare},
        "center: share of the largest centred region", "For `center`: share of the largest centred region (224/256)."},
    Key{"transform", "mirror", Real{field<&O::transform, &Shape::mirror>(), kShare}, "probability of a left-right flip",
        "Probability of a left-right flip. Use 0 where left and right matter, and for evaluation."},
    Key{"transform", "mean", Tuple<double, 3>{field<&O::transform, &Shape::mean>(), kPixelValue},
        "red, green, blue; (value - mean) / std",
        "Red, green, blue: ImageNet's, times 255. A pixel becomes (value − mean) / std, with values from 0 to 255, "
        "computed as one fused multiply-add in float: value × (1 / std) + (−mean / std). Unused for `uint8`."},
    Key{"transform", "std", Tuple<double, 3>{field<&O::transform, &Shape::std>(), {0.0, 1e6, true}},
        "unused for uint8, as is mean", "Red, green, blue, as for `mean`."},
    Key{"transform", "layout", choice<&O::transform, &Shape::layout>(kLayout), "NCHW | NHWC",
        "Order of the dimensions of a batch."},
    Key{"transform", "dtype", choice<&O::transform, &Shape::dtype>(kDType), "float32 | float16 | bfloat16 | uint8",
        "`uint8` makes batches a quarter as large and leaves normalising to the trainer."},
    Key{"transform", "exif", Flag{field<&O::transform, &Shape::exif>()}, "honour EXIF orientation",
        "Turn images as their EXIF orientation says."},
    Key{"transform", "max_pixels", Integer{field<&O::transform, &Shape::max_pixels>(), {1, kMostPixels}},
        "larger images are bad samples",
        "Larger images are bad samples: a guard against files that would exhaust memory."},
    Key{"transform", "decode", choice<&O::transform, &Shape::decode>(kDecode),
        "region (what the crop shows) | full | scaled (faster, lossy)",
        "How much of a JPEG is decoded. `region`: only what the crop or box shows, with the same bytes as a full "
        "decode. `full`: all of it. `scaled`: like `region`, but at reduced size where the crop is shrunk to half or "
        "less; faster and lossy. See [below](#how-much-is-decoded)."},
    Key{"transform", "when", choice<&O::transform, &Shape::when>(kWhen),
        "enqueue (once) | dequeue (another view at every use)",
        "When a sample is augmented. `enqueue`: once, when its batch is made; a reused batch looks the same. "
        "`dequeue`: at every serving, so that every reuse shows a new view. See "
        "[below](#augmenting-at-every-serving)."},
    Key{"transform", "canvas", Tuple<std::int64_t, 2>{field<&O::transform, &Shape::canvas>(), {0, 8L * 16384}},
        "dequeue: height, width of the place of a sample; 0 = 8/7 of size",
        "For `dequeue`: height and width of the space that a sample has in a batch, up to 8 times those of `size`. 0: "
        "8/7 of `size`, rounded up to a multiple of 8 (256 for 224)."},
    Key{"transform", "operations", TextList{field<&O::transform, &Shape::operations>()}, kOperationChoicesText,
        kOperationsOnPage},

    Key{"colour", "brightness", Real{field<&O::transform, &Shape::colour, &Colour::brightness>(), kShare},
        "factor from 1 - this to 1 + this", "A factor is drawn from 1 - `brightness` to 1 + `brightness`."},
    Key{"colour", "contrast", Real{field<&O::transform, &Shape::colour, &Colour::contrast>(), kShare},
        "likewise, about middle grey", "Likewise, about middle grey."},
    Key{"colour", "saturation", Real{field<&O::transform, &Shape::colour, &Colour::saturation>(), kShare},
        "likewise, about grey of the same luma", "Likewise, about grey of the same luma."},
    Key{"colour", "hue", Real{field<&O::transform, &Shape::colour, &Colour::hue>(), {0.0, 0.5}},
        "turns of the colour circle, either way", "Hue turns by up to this share of the colour circle, either way."},
    Key{"colour", "grey", Real{field<&O::transform, &Shape::colour, &Colour::grey>(), kShare},
        "probability that no colour is left", "Probability that no colour is left."},

    Key{"erase", "probability", Real{field<&O::transform, &Shape::erase, &Erase::probability>(), kShare},
        "of a rectangle in a view", "Probability that a view has a rectangle erased."},
    Key{"erase", "area", Tuple<double, 2>{field<&O::transform, &Shape::erase, &Erase::area>(), kPositiveShare},
        "smallest and largest share of the view", "Smallest and largest share of the view that is erased."},

    Key{"workers", "io", Threads{field<&O::workers, &Work::io>(), {0, 4096}}, "reader threads, or \"auto\"",
        "Threads that read files. They mostly wait for storage, so there are usually more of them than cores. `auto`: "
        "initially eight per decoder, between 16 and 64; then as many as keep the decoders fed, as long as more of "
        "them help."},
    Key{"workers", "decode", Threads{field<&O::workers, &Work::decode>(), {0, 4096}},
        "decoder threads; \"auto\" = the cores of this rank less one, at least one",
        "Threads that decode. `auto`: the cores that this rank may use minus one for the trainer, at least one. One "
        "more while decoding is the limit and the trainer leaves its core idle, as a trainer that computes on a GPU "
        "does. A larger number slows the trainer down."},
    Key{"workers", "bytes", Bytes{field<&O::workers, &Work::bytes>(), {1, kMany}}, "encoded bytes in flight",
        "Encoded bytes that may be in flight between reading and decoding. A file larger than that passes alone."},
    Key{"workers", "hedge", choice<&O::workers, &Work::hedge>(kHedge),
        "auto: a second read of one that is far slower than its kind | off",
        "`auto`: a read that is far slower than the others is issued a second time, and whichever finishes first "
        "supplies the sample, so that one slow read does not hold up the batches behind it. At most 5 % more reads. "
        "Not done on a local disk, where the second read would wait for the first. `off`: never. See "
        "[below](#reading-a-slow-sample-twice)."},
    Key{"workers", "jpeg", choice<&O::workers, &Work::jpeg>(kJpegLibrary),
        "what decodes JPEG files: turbo (libjpeg-turbo) | nvjpeg (the GPU; lossy)",
        "What decodes JPEG files. `turbo`: libjpeg-turbo. `nvjpeg`: the GPU, if batches are on one and NVIDIA's "
        "library is found. Its pixels differ by a few grey levels, and libjpeg-turbo decodes files that it does not "
        "support. See [gpu.md](gpu.md#decoding-on-the-gpu-nvjpeg)."},

    Key{"queue", "capacity", Integer{field<&O::queue, &Queue::capacity>(), kPlaces}, "ready batches the ring can hold",
        "Batches that may be ready. A larger queue bridges longer pauses of the storage."},
    Key{"queue", "pool", Integer{field<&O::queue, &Queue::pool>(), kPlaces},
        "resident batches a reuse may choose from, the current one included",
        "Resident batches that a reuse may choose from, including the current one. A larger pool makes reuse less "
        "repetitive; see `policy.pick`."},
    Key{"queue", "max_leases", Integer{field<&O::queue, &Queue::max_leases>(), kPlaces},
        "batches the trainer may hold at once", "Batches that the trainer may hold at once; holding more is an error."},
    Key{"queue", "run_ahead", Integer{field<&O::queue, &Queue::run_ahead>(), kPlaces},
        "steps that the trainer's thread may be ahead of a GPU",
        "With batches on a GPU: how many steps the trainer's thread may be ahead of the GPU. Further ahead it would "
        "ask for batches long before the GPU needs them, and reuse unnecessarily. This throttling counts as trainer "
        "time (`ahead_s`), not as stall."},

    Key{"policy", "name", Text{field<&O::policy, &Rule::name>(), {}},
        "adaptive | block | interval | greedy | watermark | proportional | replay",
        "`adaptive`: fresh at the rate at which batches arrive; nothing to tune. `block`: always fresh, waits. "
        "`interval`: fresh every N steps. `greedy`: reuses only when the queue is exhausted. `watermark`: starts and "
        "stops reusing at two depths. `proportional`: the emptier the queue, the more it reuses. `replay`: repeats a "
        "recorded run."},
    Key{"policy", "interval", Integer{field<&O::policy, &Rule::interval>(), {1, kMany}},
        "interval: a fresh batch every N steps", "For `interval`: N."},
    Key{"policy", "low", Real{field<&O::policy, &Rule::low>(), kPositiveShare},
        "watermark: start reusing below this share of capacity",
        "For `watermark`: reuse starts below this share of `queue.capacity`."},
    Key{"policy", "high", Real{field<&O::policy, &Rule::high>(), kPositiveShare},
        "watermark: stop reusing above this share of capacity",
        "For `watermark`: reuse stops above this share of `queue.capacity`."},
    Key{"policy", "beta", Real{field<&O::policy, &Rule::beta>(), kPositiveShare},
        "proportional: share of capacity at which every step is fresh",
        "For `proportional`: share of `queue.capacity` at which every step is fresh."},
    Key{"policy", "max_uses", Integer{field<&O::policy, &Rule::max_uses>(), kCount},
        "serves of one batch, the fresh one included; 0 = no cap",
        "How often one batch may be served, including the first time; 0 = no cap."},
    Key{"policy", "on_max_uses", choice<&O::policy, &Rule::on_max_uses>(kOnMaxUses), "wait | warn | error",
        "At the cap: `wait` for a fresh batch, `warn` and reuse anyway, or `error`."},
    Key{"policy", "pick", choice<&O::policy, &Rule::pick>(kPick), "which resident batch: current | least_used",
        "Which resident batch a reuse serves: the `current` one, or the `least_used` of the pool."},
    Key{"policy", "max_wait_ms", Real{field<&O::policy, &Rule::max_wait_ms>(), kAmount},
        "prefer waiting this long over a reuse that exhaustion forces",
        "When the queue is empty, wait this long for a batch before reusing one. Useful when batches are only slightly "
        "late."},
    Key{"policy", "watchdog_s", Real{field<&O::policy, &Rule::watchdog_s>(), kAmount},
        "no fresh batch for this long is an error; 0 = never",
        "If no fresh batch arrives for this long, the run ends with an error that says what each thread was doing. If "
        "another rank is missing for a quarter longer than that, the error names it. 0 = never. Time in which the "
        "process did not run (suspended, frozen) does not count. Raise it where storage is known to pause for longer."},
    Key{"policy", "recording", Text{field<&O::policy, &Rule::recording>(), {}},
        "replay: the telemetry.dir of the run to repeat",
        "For `replay`: the `telemetry.dir` of the run to repeat; it must differ from this run's."},

    Key{"mpi", "mode", choice<&O::mpi, &Mpi::mode>(kMpiMode),
        "local: each rank decides for itself | lockstep: all ranks alike",
        "`local`: each rank decides for itself. `lockstep`: all ranks serve fresh batches at the same steps, at the "
        "rate of the slowest; requires `queue.capacity` > `lag` and `policy.max_wait_ms` = 0."},
    Key{"mpi", "lag", Integer{field<&O::mpi, &Mpi::lag>(), {1, 15}}, "steps between a census and its use",
        "Steps between a census of the ranks and its use. Raise it when steps are shorter than a small all-reduce, or "
        "when the trainer's step has no collective call and its ranks drift ([figures](../experiments/census))."},
    Key{"mpi", "virtual_shards", Integer{field<&O::mpi, &Mpi::virtual_shards>(), {1, 1 << 20}},
        "most ranks that a run can be dealt to",
        "The maximum number of ranks of a run, and the number of pieces that ranks hand over and save. It must not "
        "change when a run resumes."},
    Key{"mpi", "epoch_end", choice<&O::mpi, &Mpi::epoch_end>(kEpochEnd),
        "next: start the next permutation | reuse: wait for all by reusing",
        "What a rank does when it has nothing left of an epoch that others still serve. `next`: it starts the next "
        "epoch. `reuse`: it reuses batches until the others are done, and takes over what a slow rank would not finish "
        "in time. A loop over epochs (`next_epoch()`) always does the latter."},

    Key{"storage", "latency_ms", Real{field<&O::storage, &Store::latency_ms>(), kAmount},
        "mean time of a read before its first byte"},
    Key{"storage", "jitter", Real{field<&O::storage, &Store::jitter>(), {0.0, 100.0}},
        "coefficient of variation of the latency",
        "Coefficient of variation of the latency, which is gamma distributed; 1 is exponential."},
    Key{"storage", "slow_rate", Real{field<&O::storage, &Store::slow_rate>(), kShare},
        "share of reads that take slow_ms longer",
        "This share of the reads takes `slow_ms` longer. A second read of the same sample draws again."},
    Key{"storage", "slow_ms", Real{field<&O::storage, &Store::slow_ms>(), kAmount}, "how much longer",
        "How much longer the slow reads take."},
    Key{"storage", "bandwidth_mb_s", Real{field<&O::storage, &Store::bandwidth_mb_s>(), kAmount},
        "10^6 bytes per second; 0 = unlimited"},
    Key{"storage", "burst_mb", Real{field<&O::storage, &Store::burst_mb>(), kAmount},
        "10^6 bytes that pass at once after an idle time"},
    Key{"storage", "scope", choice<&O::storage, &Store::scope>(kScope), "who shares the bandwidth: rank | node",
        "Whether each `rank` has its own bandwidth or all ranks of a `node` share it."},
    Key{"storage", "outage_every_s", Real{field<&O::storage, &Store::outage_every_s>(), kAmount},
        "from one outage's end to the next; 0 = no outages",
        "An outage begins this long after the start and after the end of each outage; 0 = none."},
    Key{"storage", "outage_s", Real{field<&O::storage, &Store::outage_s>(), {0.0, kInfinity}},
        "length of an outage; inf = for ever", "How long it lasts; `inf` = forever."},
    Key{"storage", "fail_rate", Real{field<&O::storage, &Store::fail_rate>(), kShare},
        "share of reads that fail with a transient error"},

    Key{"telemetry", "dir", Text{field<&O::telemetry, &Log::dir>(), {}}, "where the files go; \"\" = no files",
        "Folder for the logs of steps and of bad samples, a file per rank; `\"\"` writes none. `forebay feed` has "
        "`\"run\"` as its default."},
    Key{"telemetry", "per_step", Flag{field<&O::telemetry, &Log::per_step>()}, "one JSON line per step and rank"},
    Key{"telemetry", "decisions", Flag{field<&O::telemetry, &Log::decisions>()},
        "record which steps were fresh, for policy.name = \"replay\"",
        "Record which steps were fresh, a few bytes a second, so that `policy.name = \"replay\"` can [repeat the "
        "run](policies.md#repeating-a-run)."},
    Key{"telemetry", "interval_s", Real{field<&O::telemetry, &Log::interval_s>(), kAmount},
        "one line for people this often; 0 = none", "How often to print a human-readable line; 0 = never."},
    Key{"telemetry", "live", choice<&O::telemetry, &Log::live>(kLive),
        "status line: auto (on a terminal) | always | never",
        "A status line with the depth of the queue: `always`, `never`, or on a terminal."},

    Key{"trainer", "step_ms", Real{field<&O::trainer, &Train::step_ms>(), kAmount}, "emulated compute time of a step",
        "Compute time of a step. It sleeps, so that decoders keep their cores; 0 measures how fast data can arrive."},
    Key{"trainer", "step_distribution", choice<&O::trainer, &Train::step_distribution>(kStepDistribution),
        "constant | normal | exponential", "`normal` has a deviation of a tenth."},
    Key{"trainer", "allreduce_bytes", Bytes{field<&O::trainer, &Train::allreduce_bytes>(), {0, kMostAllreduce}},
        "all-reduced at every step", "Bytes all-reduced over the ranks at every step, as gradients would be."},
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
