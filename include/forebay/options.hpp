#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <forebay/field.hpp>
#include <forebay/tensor.hpp>

// One struct per section of the configuration file; member names are the file's keys. docs/configuration.md explains
// each key for users; this header is the reference for defaults and units.
namespace forebay {

enum class SampleOrder : std::uint8_t { global, shards, local };
enum class SampleUnit : std::uint8_t { objects, images };
enum class OnBad : std::uint8_t { replace, fail };
enum class Crop : std::uint8_t { none, center, random_resized, random };
enum class Decode : std::uint8_t { region, full, scaled };
enum class JpegLibrary : std::uint8_t { own, turbo, nvjpeg };
enum class When : std::uint8_t { enqueue, dequeue };
enum class ClipStart : std::uint8_t { random, center };
enum class ShortVideos : std::uint8_t { skip, repeat_last };
enum class ClipUnit : std::uint8_t { frames, seconds };
enum class OnMaxUses : std::uint8_t { wait, warn, error };
enum class Pick : std::uint8_t { current, least_used };
enum class MpiMode : std::uint8_t { local, lockstep };
enum class EpochEnd : std::uint8_t { next, reuse };
enum class StorageScope : std::uint8_t { rank, node };
enum class StepDistribution : std::uint8_t { constant, normal, exponential };
enum class Hedge : std::uint8_t { automatic, off };
enum class CacheFiles : std::uint8_t { automatic, all, remote };
enum class Live : std::uint8_t { automatic, always, never };

// "auto": 1 % of the dataset, or 5 samples in a small one, but fewer than half of it; and never most of a class, a
// folder, or a file of records.
struct AutomaticBudget {
  friend bool operator==(const AutomaticBudget&, const AutomaticBudget&) = default;
};
// Distinct bad samples that a job tolerates: "auto", a share of the dataset (double) or a count (integer).
using BadBudget = std::variant<AutomaticBudget, double, std::int64_t>;

struct RunOptions {
  std::int64_t epochs = 1;  // how many times the dataset is served; ignored if steps > 0
  std::int64_t steps = 0;   // > 0: the run ends after this many steps of each rank
  bool eval = false;        // evaluation: in order, once, without reuse; the last batch may be short
};

// Section [fields.NAME]: a field of every batch besides image and label, and where in the dataset it is. For the names
// "image" and "label" only `from` may be given, which says where those two are.
struct FieldOptions {
  std::string name;
  // Its source in each sample: a column of a table, a member of a tar, a feature of an Example; with {stem} or {folder}
  // in it, a file beside each image. Empty: the field's own name.
  std::string from = {};
  std::optional<FieldKind> kind = {};     // required, except for "image" and "label"
  std::optional<DType> dtype = {};        // in the batch; none: int64 for class, uint8 for mask and bytes, else float32
  std::vector<std::int64_t> shape = {};   // array, numbers: extents of one sample; none: a single number
  std::int64_t most = 0;                  // boxes, bytes: the most that a sample has
  double min_visible = kMinVisible;       // boxes: one with a smaller share of its area visible is left out
  std::vector<std::string> classes = {};  // class, multilabel, boxes: the class names; empty: discovered and sorted
  // mask: the colours of its classes, "R,G,B" for each class in turn or "R,G,B=CLASS"; "other=CLASS" stands for all
  // other colours. Empty: the values of the one channel, or the palette indices, are the classes.
  std::vector<std::string> colours = {};
  std::int64_t channels = 0;            // image: 1 or 3; 0: 3
  std::array<double, 3> mean{0, 0, 0};  // image: (value - mean) / std; unused for uint8
  std::array<double, 3> std{1, 1, 1};

  friend bool operator==(const FieldOptions&, const FieldOptions&) = default;
};

// Section [clip]: samples are clips of videos, and batches are [rows, frames, C, H, W]. All frames of a clip share one
// randomly drawn view, and each operation treats them alike.
struct ClipOptions {
  std::int64_t frames = 0;  // frames per clip; 0: samples are images
  std::int64_t stride = 1;  // distance between successive frames of a clip
  // random: drawn anew in every epoch; center, and in evaluation: the middle of the range where the clip may begin.
  ClipStart start = ClipStart::random;
  // > 0: one sample for every `every` frames of a video, with its clip beginning among them; 0: one per video,
  // beginning anywhere.
  std::int64_t every = 0;
  // What happens to videos shorter than a clip. skip: they are left out. repeat_last: their last frame is repeated.
  ShortVideos short_videos = ShortVideos::skip;
  // "BEGIN, END": columns of a table. Each row is a segment of its video, from BEGIN to before END, counted from 0, and
  // is treated as a video of its own. Empty: rows are whole videos.
  std::string segment = {};
  ClipUnit unit = ClipUnit::frames;  // of these columns; seconds are those since the first frame

  friend bool operator==(const ClipOptions&, const ClipOptions&) = default;
};

struct DatasetOptions {
  std::string format = "auto";       // what `path` is: docs/configuration.md lists all
  std::string path;                  // folder, list file (entries relative to its folder) or file of records
  std::string labels;                // filelist: a file of labels; idx: the labels file (default: found by name)
  std::vector<std::string> classes;  // the class names; empty: discovered and sorted
  // What a sample is if images have annotated objects. objects: one object, cropped. images: an image with all its
  // objects in fields of kind boxes.
  SampleUnit samples = SampleUnit::objects;
  bool difficult = true;         // voc: keep objects marked difficult
  std::string index;             // saved index: loaded if present and current, else built and saved there
  std::int64_t batch_size = 64;  // samples per batch per rank
  bool shuffle = true;
  // How samples are shuffled. global: all together. shards: runs of consecutive samples, then the samples within each
  // window, so that reads are long and sequential. local: separately in each of as many parts as there are nodes, so
  // that a node reads the same samples in every epoch.
  SampleOrder order = SampleOrder::global;
  std::int64_t window = 1024;  // shards: about how many samples are shuffled together
  std::int64_t run = 32;       // shards: how many consecutive samples are kept together until then
  std::int64_t nodes = 0;      // local: number of parts; 0 = number of nodes of the job that begins the run
  double exchange = 0;         // local: share of the samples, different ones in every epoch, that may go to any part
  bool drop_last = true;       // drop the last N mod batch_size positions of an epoch
  std::vector<double> split;   // shares into which the samples are divided, by a hash of their names; empty: undivided
  std::int64_t part = 0;       // which part of the split is served, from 0
  double fraction = 1;         // share of that part's samples that is served, also by a hash of their names
  std::string weights;         // how often each sample is served: "balanced", a file of weights, or "": all equally
  std::vector<FieldOptions> fields = {};  // sections [fields.NAME]
  ClipOptions clip = {};                  // section [clip]
};

// transform.operations = "colour": each factor is drawn uniformly around its neutral value, per sample and use.
struct ColourOptions {
  double brightness = 0.4;  // factor in [1 - brightness, 1 + brightness]
  double contrast = 0.4;    // likewise, about middle grey
  double saturation = 0.4;  // likewise
  double hue = 0.1;         // turns of the colour circle, in [-hue, hue]
  double grey = 0;          // probability of conversion to grey
};

// transform.operations = "blur": Gaussian blur, mirrored at the edges.
struct BlurOptions {
  double probability = 0.5;
  std::array<double, 2> sigma{0.1, 2.0};  // pixels of the view, uniform
};

// transform.operations = "solarise": values at or above the threshold become 255 - value.
struct SolariseOptions {
  double probability = 0.2;
  std::int64_t threshold = 128;
};

// transform.operations = "erase": a rectangle is filled with the mean colour, transform.mean.
struct EraseOptions {
  double probability = 0.5;
  std::array<double, 2> area{0.02, 0.33};  // share of the view, uniform
};

// Mixing within a training batch: sample i is mixed with sample N - 1 - i. The field "label_weights" then has each
// row's mixed label.
struct MixOptions {
  double probability = 0;  // that a batch is mixed in this way; never in both ways
  double alpha = 1;        // each batch draws one share from Beta(alpha, alpha)
};

struct TransformOptions {
  Crop crop = Crop::random_resized;
  std::array<std::int64_t, 2> size{224, 224};  // height, width in pixels
  // center, random: the image is resized to this height and width, or its shorter side to a single number, and `size`
  // is cut out of the result pixel for pixel. Empty: random crops the image at its own size, center according to
  // center_fraction.
  std::vector<std::int64_t> resize = {};
  // random: pixels of `fill` added around that: one number for all sides; left and right, top and bottom; or left, top,
  // right and bottom. Empty: none.
  std::vector<std::int64_t> padding = {};
  std::vector<std::int64_t> fill = {};     // red, green and blue outside the image, or one number; empty: black
  std::array<double, 2> scale{0.08, 1.0};  // random_resized: share of the area, uniform
  std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};  // random_resized: width / height, log-uniform
  double center_fraction = 0.875;                     // center: fraction of the largest centred region (224/256)
  double mirror = 0.5;                                // probability of a left-right flip
  std::int64_t views = 1;  // views of each sample in a batch, drawn independently, from one decode; 1 in evaluation
  std::array<double, 3> mean{123.675, 116.28, 103.53};
  std::array<double, 3> std{58.395, 57.12, 57.375};  // (value - mean) / std; unused for uint8
  Layout layout = Layout::nchw;
  DType dtype = DType::float32;
  std::int64_t channels = 3;              // 3: red, green, blue; 1: grey, with the first of mean and std
  bool exif = true;                       // honour EXIF orientation
  std::int64_t max_pixels = 178'956'970;  // larger images are bad samples
  // How much of a JPEG is decoded. region: what the crop shows, with the same bytes as a full decode. full: all of it,
  // so that damage anywhere is found. scaled: like region, but at a smaller size if the crop is shrunk by 2 or more;
  // lossy.
  Decode decode = Decode::region;
  When when = When::enqueue;
  // dequeue: height and width at which samples are kept in a batch; 0 = 8/7 of size, rounded up to a multiple of 8.
  std::array<std::int64_t, 2> canvas{0, 0};
  // Operations applied to a view before it is stored, by name and in this order (forebay/operation.hpp); in evaluation
  // only those that are in_evaluation().
  std::vector<std::string> operations = {};
  ColourOptions colour = {};       // section [colour]
  BlurOptions blur = {};           // section [blur]
  SolariseOptions solarise = {};   // section [solarise]
  EraseOptions erase = {};         // section [erase]
  MixOptions mixup{.alpha = 0.2};  // section [mixup]: pixels are blended
  MixOptions cutmix = {};          // section [cutmix]: a rectangle is swapped
};

struct WorkerOptions {
  std::int64_t io = 0;                       // reader threads; 0 = "auto"
  std::int64_t decode = 0;                   // decoder threads; 0 = "auto": the affinity mask less one, at least one
  std::int64_t bytes = 256LL * 1024 * 1024;  // the most encoded bytes in flight
  // What decodes JPEG files. own: Forebay's decoder; progressive and other special files, and any that it refuses, go
  // to libjpeg-turbo, and the pixels are the same. turbo: libjpeg-turbo alone. nvjpeg: the GPU, if batches are on one
  // and the library is found; its pixels differ from the others' by a few grey levels, and files that it does not
  // support are decoded as with own.
  JpegLibrary jpeg = JpegLibrary::own;
  // Whether a read that is far slower than others of its kind is started a second time; the bytes that arrive first are
  // used. auto: unless the data are on a local disk, where the second read would wait behind the first. At most 5 %
  // more reads.
  Hedge hedge = Hedge::automatic;
  // Whether data files are read past the page cache (O_DIRECT), if their file system supports that: a dataset larger
  // than memory then evicts nothing else from the cache and takes less processor time to read.
  bool direct = false;
};

// "auto" for queue.pool and policy.max_uses: a number that no file would have.
inline constexpr std::int64_t kAutomatic = std::numeric_limits<std::int64_t>::min();

struct QueueOptions {
  std::int64_t capacity = 12;  // ready batches the ring can hold; 0 = "auto": as many as the run turns out to need
  std::int64_t memory = 0;     // for capacity "auto": the most bytes of all slots; 0 = those of a capacity of 16
  // Resident batches among which a reuse chooses, the current one included. kAutomatic: 20 - capacity, but at most 1.5
  // times the capacity and at least 4; and 4 with capacity "auto".
  std::int64_t pool = kAutomatic;
  std::int64_t max_leases = 2;  // leases that may be held at once
  std::int64_t run_ahead = 2;   // steps by which the trainer's thread may run ahead of a GPU
};

struct PolicyOptions {
  std::string name = "adaptive";
  std::int64_t interval = 1;  // interval: a fresh batch every N steps
  double low = 0.25;          // watermark: start reusing below this share of capacity
  double high = 0.75;         // watermark: stop reusing at this share of capacity
  double beta = 0.5;          // proportional: share of capacity at which every step is fresh
  // The most serves of one batch, the fresh one included; 0 = no cap, kAutomatic: found by UsesLimit (policy.hpp).
  std::int64_t max_uses = kAutomatic;
  OnMaxUses on_max_uses = OnMaxUses::wait;
  Pick pick = Pick::least_used;
  double max_wait_ms = 0;  // wait this long before a reuse that exhaustion forces
  double watchdog_s = 60;  // no fresh batch for this long is an error; 0 = never
  // replay: the telemetry.dir of the run to repeat. The feeder passes a factory the file of its rank there.
  std::string recording = {};
};

struct MpiOptions {
  MpiMode mode = MpiMode::local;
  std::int64_t lag = 2;  // steps between a census and its use
  std::int64_t virtual_shards = 1024;
  EpochEnd epoch_end = EpochEnd::next;
};

// Emulates a slow or failing store in front of the dataset; all zero = off.
struct StorageOptions {
  double latency_ms = 0;  // mean time of one read before its first byte
  double jitter = 0;      // coefficient of variation of the latency (gamma distributed)
  double slow_rate = 0;   // share of reads that take slow_ms longer
  double slow_ms = 0;
  double bandwidth_mb_s = 0;                // 10^6 bytes per second; 0 = unlimited
  double burst_mb = 0;                      // megabytes that may pass at once after the store was idle
  StorageScope scope = StorageScope::rank;  // who shares the bandwidth
  double outage_every_s = 0;  // > 0: an outage begins this long after start and after the end of each outage
  double outage_s = 0;        // its length; inf = forever
  double fail_rate = 0;       // share of reads that fail with a transient error
};

// A cache on the node: bytes read from a store are kept in a directory shared by all ranks and jobs.
struct CacheOptions {
  std::string dir;         // on a disk of the node; "" = none
  std::int64_t bytes = 0;  // the most that it holds; 0 = nine tenths of what it holds plus its file system's free space
  // Which files are cached besides objects behind URLs. automatic: those not on a local disk. all: all except those on
  // the cache's own file system. remote: none.
  CacheFiles files = CacheFiles::automatic;
};

struct TelemetryOptions {
  std::string dir;        // "" = write no files
  bool per_step = true;   // write one JSON line per step and rank
  bool decisions = true;  // record which steps were fresh, so that policy "replay" can repeat the run
  double interval_s = 5;  // how often a progress line is logged; 0 = never
  // The most disk space of a rank's steps, and likewise of its intervals: the latest are kept. 0 = no limit.
  std::int64_t max_bytes = std::int64_t{1} << 30;
  Live live = Live::automatic;  // live status line of rank 0: auto = when standard error is a terminal
  // Where a monitoring system finds each rank's figures: a file "NAME.prom", a port, or an address and a port. With
  // several ranks, rank N uses NAME.N.prom, or the port plus N. "" = nowhere.
  std::string prometheus = {};
};

// The emulated trainer of `forebay feed`.
struct TrainerOptions {
  double step_ms = 20;
  StepDistribution step_distribution = StepDistribution::constant;  // normal: standard deviation of a tenth
  std::int64_t allreduce_bytes = 0;  // blocking MPI_Allreduce of this many bytes per step
};

struct Options {
  std::uint64_t seed = 17;
  std::string device = "auto";  // auto | host | cuda | cuda:N
  OnBad on_bad = OnBad::replace;
  BadBudget max_bad;
  RunOptions run;
  DatasetOptions dataset;
  TransformOptions transform;
  WorkerOptions workers;
  QueueOptions queue;
  PolicyOptions policy;
  MpiOptions mpi;
  StorageOptions storage;
  CacheOptions cache;
  TelemetryOptions telemetry;
  TrainerOptions trainer;
};

}  // namespace forebay
