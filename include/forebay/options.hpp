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

// One struct per section of the configuration file; field names are the file's keys. docs/configuration.md
// explains each for users; this header is the reference for defaults and units.
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

// "auto": a hundredth of the dataset, and in a small one 5 samples, but fewer than half; and not most of a class, of a
// folder, or of a file of records.
struct AutomaticBudget {
  friend bool operator==(const AutomaticBudget&, const AutomaticBudget&) = default;
};
// Distinct bad samples that a job tolerates: "auto", a share of the dataset (double) or a count (integer).
using BadBudget = std::variant<AutomaticBudget, double, std::int64_t>;

struct RunOptions {
  std::int64_t epochs = 1;  // permutations of the dataset to serve; ignored when steps > 0
  std::int64_t steps = 0;   // > 0: end after this many steps of each rank
  bool eval = false;        // in order, once, never reuses; the last batch may be short
};

// Section [fields.NAME]: a field of every batch beside image and label, and where the dataset has it. The names
// "image" and "label" say with `from` alone where those two are.
struct FieldOptions {
  std::string name;
  // Where a sample has it: a column of a table, a member of a tar, a feature of an Example; with {stem} or {folder} in
  // it a file beside each image. Empty: what is called like the field.
  std::string from = {};
  std::optional<FieldKind> kind = {};     // must be given, but for "image" and "label"
  std::optional<DType> dtype = {};        // of the batch; none: int64 for class, uint8 for mask and bytes, else float32
  std::vector<std::int64_t> shape = {};   // array, numbers: extents of one sample; none: a single number
  std::int64_t most = 0;                  // boxes, bytes: how many of them a sample has at most
  double min_visible = kMinVisible;       // boxes: one that shows a smaller share of its area is left out
  std::vector<std::string> classes = {};  // class, multilabel, boxes: given names; empty: discovered and sorted
  // mask: the colours of its classes, "R,G,B" of one class after the other or "R,G,B=CLASS"; "other=CLASS" is for all
  // other colours. Empty: the values of the one channel, or the indices of the palette, are the classes.
  std::vector<std::string> colours = {};
  std::int64_t channels = 0;            // image: 1 or 3; 0: 3
  std::array<double, 3> mean{0, 0, 0};  // image: (value - mean) / std; unused for uint8
  std::array<double, 3> std{1, 1, 1};

  friend bool operator==(const FieldOptions&, const FieldOptions&) = default;
};

// Section [clip]: samples are clips of videos, batches [rows, frames, C, H, W]. One view is drawn for all frames of a
// clip, and each operation does the same to all of them.
struct ClipOptions {
  std::int64_t frames = 0;  // of a clip; 0: samples are images
  std::int64_t stride = 1;  // from each frame of a clip to the next
  // random: anew in every epoch; center, and in evaluation: in the middle of where it may begin.
  ClipStart start = ClipStart::random;
  // > 0: a sample for every so many frames of a video, which begins among them; 0: one for each video, which begins
  // anywhere.
  std::int64_t every = 0;
  // Videos that are shorter than a clip. skip: they are left out. repeat_last: their last frame is repeated.
  ShortVideos short_videos = ShortVideos::skip;
  // "BEGIN, END": columns of a table. Each row is a segment of its video, from BEGIN to before END, counted from 0, and
  // is treated as a video of its own. Empty: rows are whole videos.
  std::string segment = {};
  ClipUnit unit = ClipUnit::frames;  // of these columns; seconds are those since the first frame

  friend bool operator==(const ClipOptions&, const ClipOptions&) = default;
};

struct DatasetOptions {
  std::string format = "auto";       // auto | voc | filelist | folder | idx | cifar
  std::string path;                  // folder, list file (entries relative to its folder) or file of records
  std::string labels;                // filelist: a file of labels; idx: the labels file (default: found by name)
  std::vector<std::string> classes;  // given class list; empty: discovered and sorted
  // What a sample is if images have objects. objects: one object, cut out. images: an image with all its objects in
  // fields of kind boxes.
  SampleUnit samples = SampleUnit::objects;
  bool difficult = true;         // voc: keep objects marked difficult
  std::string index;             // saved index: loaded when present and current, else built and saved there
  std::int64_t batch_size = 64;  // samples per batch per rank
  bool shuffle = true;
  // How samples are shuffled. global: all at once. shards: so that what is stored side by side is read in long pieces:
  // runs of samples, and then the samples of a window among themselves. local: so that a node reads the same samples in
  // every epoch: each part of them, one for each node, among itself.
  SampleOrder order = SampleOrder::global;
  std::int64_t window = 1024;  // shards: samples that are shuffled among themselves, about
  std::int64_t run = 32;       // shards: samples side by side that stay together until then
  std::int64_t nodes = 0;      // local: parts of the samples; 0 = as many as the job that begins the run has nodes
  double exchange = 0;         // local: share of the samples that is dealt to any part, other ones in every epoch
  bool drop_last = true;       // drop the last N mod batch_size positions of an epoch
  std::vector<double> split;   // shares by which the samples are divided, by a hash of their names; empty: not at all
  std::int64_t part = 0;       // which of the split is served, from 0
  double fraction = 1;         // share of its samples that is served, by a hash of their names too
  std::string weights;         // how often samples are served: "balanced", a file of weights, or "": all alike
  std::vector<FieldOptions> fields = {};  // sections [fields.NAME]
  ClipOptions clip = {};                  // section [clip]
};

// transform.operations = "colour": each factor is drawn uniformly around its neutral value, for each sample and use.
struct ColourOptions {
  double brightness = 0.4;  // factor in [1 - brightness, 1 + brightness]
  double contrast = 0.4;    // likewise, about middle grey
  double saturation = 0.4;  // likewise
  double hue = 0.1;         // turns of the colour circle, in [-hue, hue]
  double grey = 0;          // probability that no colour is left
};

// transform.operations = "blur": by a Gaussian, mirrored at the edges.
struct BlurOptions {
  double probability = 0.5;
  std::array<double, 2> sigma{0.1, 2.0};  // pixels of the view, uniform
};

// transform.operations = "solarise": values from the threshold on become 255 - value.
struct SolariseOptions {
  double probability = 0.2;
  std::int64_t threshold = 128;
};

// transform.operations = "erase": a rectangle is filled with the mean colour, transform.mean.
struct EraseOptions {
  double probability = 0.5;
  std::array<double, 2> area{0.02, 0.33};  // share of the view, uniform
};

// What a training batch is mixed with: itself, each sample with the one as far from its other end. What a row then
// shows is its field "label_weights".
struct MixOptions {
  double probability = 0;  // that a batch is mixed in this way; no batch is in two
  double alpha = 1;        // for each batch one share of Beta(alpha, alpha)
};

struct TransformOptions {
  Crop crop = Crop::random_resized;
  std::array<std::int64_t, 2> size{224, 224};  // height, width in pixels
  // center, random: the image is resized to this height and width, or its shorter side to the one number, and `size` is
  // cut out of that, pixel for pixel. Empty: random cuts the image as it is, center as center_fraction says.
  std::vector<std::int64_t> resize = {};
  // random: pixels of `fill` around that: one number for all sides, left and right, top and bottom, or left, top, right
  // and bottom. Empty: none.
  std::vector<std::int64_t> padding = {};
  std::vector<std::int64_t> fill = {};     // red, green and blue of what lies outside, or one number; empty: black
  std::array<double, 2> scale{0.08, 1.0};  // random_resized: share of the area, uniform
  std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};  // random_resized: width / height, log-uniform
  double center_fraction = 0.875;                     // center: share of the largest centred region (224/256)
  double mirror = 0.5;                                // probability of a left-right flip
  std::int64_t views = 1;  // of each sample in a batch, drawn independently, from one decode; 1 in evaluation
  std::array<double, 3> mean{123.675, 116.28, 103.53};
  std::array<double, 3> std{58.395, 57.12, 57.375};  // (value - mean) / std; unused for uint8
  Layout layout = Layout::nchw;
  DType dtype = DType::float32;
  std::int64_t channels = 3;              // 3: red, green, blue; 1: grey, with the first of mean and std
  bool exif = true;                       // honour EXIF orientation
  std::int64_t max_pixels = 178'956'970;  // larger images are bad samples
  // How much of a JPEG is decoded. region: what the crop shows, the same bytes as of the full decode. full: all of it,
  // so that damage anywhere is found. scaled: as region, and smaller when the crop is shrunk by 2 or more; lossy.
  Decode decode = Decode::region;
  When when = When::enqueue;
  // dequeue: height, width of the place of a sample in a batch; 0 = 8/7 of size, rounded up to a multiple of 8.
  std::array<std::int64_t, 2> canvas{0, 0};
  // What is done to a view before it is stored, by name and in this order (forebay/operation.hpp); none in evaluation.
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
  std::int64_t bytes = 256LL * 1024 * 1024;  // encoded bytes in flight
  // What decodes JPEG files. own: Forebay, all that are not progressive or otherwise special; those, and each refusal,
  // are libjpeg-turbo's, and the pixels are the same. turbo: libjpeg-turbo alone. nvjpeg: the GPU, where batches are on
  // one and the library is found; lossy beside the others by a few grey levels, and what it does not take is decoded as
  // by own.
  JpegLibrary jpeg = JpegLibrary::own;
  // Whether a read that is far slower than its kind is begun a second time; the sample is whose bytes come first. auto:
  // unless the data lie on a local disk, whose second read would wait for the first. At most 5 % more reads.
  Hedge hedge = Hedge::automatic;
  // Whether data files are read past the page cache (O_DIRECT), if their file system supports that: a dataset larger
  // than memory then evicts nothing else from it, and takes less processor time to read.
  bool direct = false;
};

// "auto" for queue.pool and policy.max_uses: no number that a file would have.
inline constexpr std::int64_t kAutomatic = std::numeric_limits<std::int64_t>::min();

struct QueueOptions {
  std::int64_t capacity = 12;  // ready batches the ring can hold; 0 = "auto": as many as the run turns out to need
  std::int64_t memory = 0;     // bytes, for capacity "auto": of all slots at the most; 0 = as a capacity of 16 takes
  // Resident batches to choose a reuse from, the current one included. kAutomatic: what the capacity leaves of 20, but
  // at most half as many again as the capacity and at least 4, and 4 with capacity "auto".
  std::int64_t pool = kAutomatic;
  std::int64_t max_leases = 2;  // leases that may be held at once
  std::int64_t run_ahead = 2;   // steps that the trainer's thread may be ahead of a GPU
};

struct PolicyOptions {
  std::string name = "adaptive";
  std::int64_t interval = 1;  // interval: a fresh batch every N steps
  double low = 0.25;          // watermark: start reusing below this share of capacity
  double high = 0.75;         // watermark: stop reusing above this share of capacity
  double beta = 0.5;          // proportional: share of capacity at which every step is fresh
  // Serves of one batch, the fresh one included; 0 = no cap, kAutomatic: as UsesLimit finds (policy.hpp).
  std::int64_t max_uses = kAutomatic;
  OnMaxUses on_max_uses = OnMaxUses::wait;
  Pick pick = Pick::least_used;
  double max_wait_ms = 0;  // prefer waiting this long over a reuse that exhaustion forces
  double watchdog_s = 60;  // no fresh batch for this long is an error; 0 = never
  // replay: the telemetry.dir of the run to repeat. A factory gets its rank's file there from the feeder.
  std::string recording = {};
};

struct MpiOptions {
  MpiMode mode = MpiMode::local;
  std::int64_t lag = 2;  // steps between a census and its use
  std::int64_t virtual_shards = 1024;
  EpochEnd epoch_end = EpochEnd::next;
};

// An emulated slow or failing store in front of the dataset; all zero = none.
struct StorageOptions {
  double latency_ms = 0;  // mean time of one read before its first byte
  double jitter = 0;      // coefficient of variation of the latency (gamma distributed)
  double slow_rate = 0;   // share of reads that take slow_ms longer
  double slow_ms = 0;
  double bandwidth_mb_s = 0;                // 10^6 bytes per second; 0 = unlimited
  double burst_mb = 0;                      // bytes that may pass at once after the store was idle
  StorageScope scope = StorageScope::rank;  // who shares the bandwidth
  double outage_every_s = 0;  // > 0: an outage begins this long after start and after the end of each outage
  double outage_s = 0;        // its length; inf = for ever
  double fail_rate = 0;       // share of reads that fail with a transient error
};

// A cache on the node: bytes that were read from a store are kept in a directory, which all ranks and jobs share.
struct CacheOptions {
  std::string dir;         // on a disk of the node; "" = none
  std::int64_t bytes = 0;  // that it holds at most; 0 = nine tenths of what its file system has free or it holds
  // What is kept beside objects behind URLs. automatic: files that are not on a local disk. all: all but those on the
  // file system of the cache. remote: nothing.
  CacheFiles files = CacheFiles::automatic;
};

struct TelemetryOptions {
  std::string dir;        // "" = write no files
  bool per_step = true;   // one JSON line per step and rank
  bool decisions = true;  // record which steps were fresh, so that policy "replay" can repeat the run
  double interval_s = 5;  // one line for people this often; 0 = none
  // The most that a rank's steps take on disk, and its intervals likewise: the latest are kept. 0 = no limit.
  std::int64_t max_bytes = std::int64_t{1} << 30;
  Live live = Live::automatic;  // live status line of rank 0: auto = when standard error is a terminal
  // Where a monitoring system finds each rank's figures: a file "NAME.prom", a port, or an address and a port. Of
  // several ranks, rank N has NAME.N.prom, or the port plus N. "" = nowhere.
  std::string prometheus = {};
};

// The emulated trainer of `forebay feed`.
struct TrainerOptions {
  double step_ms = 20;
  StepDistribution step_distribution = StepDistribution::constant;  // normal has a deviation of a tenth
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
