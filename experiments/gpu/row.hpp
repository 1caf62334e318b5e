#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

// One line of the table, each made by a function in a file of its own.
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
// Bytes per second through a whole feeder whose samples cost next to nothing, beside plain cudaMemcpyAsync of batches
// of that size in alternating rounds; and what the feeder's producers make without a GPU, for where they are slower.
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

}  // namespace forebay::gpu_check
