#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <forebay/feeder.hpp>

// The checks, each a function in a file of its own that makes one line of the table, and what they have in common.
namespace forebay::gpu_check {

// What the table is made with.
struct Setup {
  std::string device = "cuda";  // as the option: cuda or cuda:N
  std::filesystem::path data;   // a data set of forebay make-dataset
  double soak_s = 120;
  std::optional<std::chrono::steady_clock::time_point> end = {};  // no check begins later, and the soak ends then
  std::filesystem::path json = {};                                // where all figures go as well; empty: nowhere
  bool quick = false;  // few rounds, for compute-sanitizer and for trying the program itself
};

enum class Verdict { fine, missed, wrong, unknown };

struct Row {
  std::string subject;
  std::string found;
  std::string wanted;  // empty: nothing in particular
  Verdict verdict = Verdict::unknown;
  std::map<std::string, std::vector<double>> rounds = {};  // what `found` was made of, by name and unit
};

// All of them throw forebay::Error when the GPU fails.

// Which GPU, driver and runtime, and on which NUMA node staging memory lies.
[[nodiscard]] Row device_row(const Setup& setup);
// What the kernels, all of them, render against the host's twin, over sizes, types, layouts and views: bytes that
// differ.
[[nodiscard]] Row kernel_row(const Setup& setup);
// The whole feeder under random delays of both sides, with reuse and leases held over steps. The GPU hashes every batch
// served; hashes that the host does not expect.
[[nodiscard]] Row soak_row(const Setup& setup);
// The same with views rendered at every serving (transform.when = "dequeue"), against the host's feeder.
[[nodiscard]] Row views_row(const Setup& setup);
// Bytes per second through a whole feeder whose samples cost next to nothing, and of plain cudaMemcpyAsync of batches
// of that size while the same producers fill host memory, in alternating rounds.
[[nodiscard]] Row copy_row(const Setup& setup);
// Bytes that rendering reads and writes per second, of whole canvases and of random-resized crops, beside a copy within
// the GPU's memory.
[[nodiscard]] Row render_row(const Setup& setup);
// What next(stream) and the end of its lease take of the host's time when the GPU is not behind, with tensors in the
// slots and with views that are rendered at every serving.
[[nodiscard]] Row next_row(const Setup& setup);
// What nvJPEG decodes of the data set per second, what is done beside decoding included; its engines, and how far its
// pixels are from libjpeg-turbo's; why not, where it is not to be had.
[[nodiscard]] Row nvjpeg_row(const Setup& setup);

// A check by its name on the command line.
struct Check {
  const char* name;
  Row (*run)(const Setup& setup);
};

// All of them, in the order of the table.
[[nodiscard]] const std::vector<Check>& checks();

// Runs those that are named (all when none is) and prints a line for each as soon as it is known; setup.json is written
// anew after each. A check whose GPU
// fails is a line too. Whether nothing was found to be wrong; a target that was missed is not wrong.
[[nodiscard]] bool print_table(const Setup& setup, const std::vector<std::string>& names);

// On which NUMA nodes some pages of a piece of memory lie, as Linux tells.
struct PagePlaces {
  std::map<int, std::size_t> pages;  // looked at, by node
  std::string refusal;               // why Linux does not tell of some, or of all; empty: it does

  // Pages were looked at and all of them lie there.
  [[nodiscard]] bool all_on(int node) const { return pages.size() == 1 && pages.contains(node); }
  // "16 of 16 pages looked at lie on node 1".
  [[nodiscard]] std::string text() const;
};

// Of 16 pages spread over the memory, which must have been written to.
[[nodiscard]] PagePlaces places_of_pages(std::span<const std::byte> memory);

// Batches that cost next to nothing to read and decode, for what moves them.

// Images of `side` x `side` RGB pixels in memory, as many as asked for.
[[nodiscard]] std::shared_ptr<const Dataset> images_in_memory(std::int32_t side);

// Options for batches of float32 tensors of such images as they are: nothing is cut, resized or mirrored.
[[nodiscard]] Options supply_options(const std::string& device, std::int32_t side, std::int64_t batch_size);

// Bytes of such batches that a feeder makes ready per second while the trainer takes each as soon as it is there:
// `batches` of them, after twice as many as the ring holds, which was filled before anybody took any; and calls `take`
// for each. Throws Error.
[[nodiscard]] double supply_rate(
    Options options, const std::shared_ptr<const Dataset>& dataset, std::int64_t batches,
    const std::function<void()>& take = [] {});

// A trainer that is slow and fast at random, on the host and on the GPU, keeps leases over steps, and has the GPU hash
// every batch it is handed.

// What the hash of a lease's batch must be; nothing where that is not known.
using ExpectedHash = std::function<std::optional<std::uint64_t>(const Lease& lease)>;

struct Soaked {
  std::uint64_t hashes = 0;
  std::uint64_t wrong = 0;
  std::uint64_t steps = 0;
  std::uint64_t reuses = 0;
  std::uint64_t unforeseen = 0;  // steps whose hash was not known
};

// The hash of a batch in memory of the host.
[[nodiscard]] std::uint64_t hash_of(const Lease& lease);

// Runs to the feeder's end, or asks it to stop after `seconds`. The GPU must be current on the calling thread.
// Throws Error.
[[nodiscard]] Soaked soak(Feeder& feeder, const ExpectedHash& expected, double seconds, std::uint64_t seed);

// "0 of 1000 hashes wrong; 500 steps, 40 % reuses".
[[nodiscard]] std::string text_of(const Soaked& soaked);

// Wrong where a hash is; missed where nothing, or everything, was a reuse, or a tenth of the steps were unforeseen.
[[nodiscard]] Verdict verdict_on(const Soaked& soaked);

// Options of a feeder that writes nothing and says nothing.
[[nodiscard]] Options quiet_options(const Setup& setup, const std::string& device);

}  // namespace forebay::gpu_check
