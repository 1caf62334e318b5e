// What holding JPEG coefficients in the places of canvases takes, in bytes and in time, for the photographs in a
// folder. See README.md.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <forebay/options.hpp>
#include <forebay/random.hpp>

#include "hot_path/measure.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "make/canvas_math.hpp"
#include "make/jpeg_holder.hpp"
#include "make/renderers.hpp"
#include "make/sample_maker.hpp"

namespace {

using forebay::CanvasForm;
using forebay::Hold;
using forebay::SampleMaker;
using forebay::TransformOptions;
using forebay::bench::Figure;

using Bytes = std::vector<std::byte>;

std::vector<Bytes> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension().string();
    if (entry.is_regular_file() && (extension == ".JPEG" || extension == ".jpg")) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<Bytes> files;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
    files.emplace_back(begin, begin + bytes.size());
  }
  return files;
}

// Of this thread, in microseconds.
double processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

TransformOptions options_of(Hold hold) {
  TransformOptions options;
  options.when = forebay::When::dequeue;
  options.hold = hold;
  return options;
}

void print_sizes(const std::vector<Bytes>& files) {
  forebay::ImageDecoder decoder(forebay::trusted_pixel_kernels());
  Bytes memory(std::size_t{64} << 20);
  double pixels = 0;
  double encoded = 0;
  std::vector<double> held;
  for (const Bytes& file : files) {
    const forebay::ImageSize size = decoder.open(file, {});
    encoded += static_cast<double>(file.size());
    pixels += 3.0 * size.width * size.height;
    // The least place that is enough, to 1 kB.
    std::size_t few = 0;
    std::size_t enough = memory.size();
    while (enough - few > 1024) {
      const std::size_t middle = (few + enough) / 2 / 16 * 16;
      (void)decoder.open(file, {});
      const bool fits = decoder.hold({.region = {0, 0, size.width, size.height},
                                      .limits = {.width = 1 << 17, .height = 1 << 17, .expanded = SIZE_MAX},
                                      .place = std::span(memory).first(middle)});
      (fits ? enough : few) = middle;
      if (!fits && middle > memory.size() / 2) break;
    }
    if (enough < memory.size()) held.push_back(static_cast<double>(enough));
  }
  const auto count = static_cast<double>(files.size());
  double all = 0;
  for (const double bytes : held) all += bytes;
  std::ranges::sort(held);
  const auto quantile = [&](double share) {
    return held[static_cast<std::size_t>(share * static_cast<double>(held.size() - 1))] / 1e3;
  };
  std::printf("%zu files, %zu of them plain; kB per image: file %.1f, pixels %.1f, coefficients %.1f\n", files.size(),
              held.size(), encoded / count / 1e3, pixels / count / 1e3, all / static_cast<double>(held.size()) / 1e3);
  std::printf("coefficients, kB: 10 %% %.0f, 25 %% %.0f, 50 %% %.0f, 75 %% %.0f, 90 %% %.0f, 95 %% %.0f, 99 %% %.0f\n",
              quantile(0.1), quantile(0.25), quantile(0.5), quantile(0.75), quantile(0.9), quantile(0.95),
              quantile(0.99));
  for (const std::int64_t side : {192, 224, 256, 288, 320}) {
    const double place = 3.0 * static_cast<double>(side * side);
    const auto fit = std::ranges::count_if(held, [&](double bytes) { return bytes <= place; });
    std::printf("  a place of %ld x %ld (%.0f kB) has room for %.1f %% of them\n", static_cast<long>(side),
                static_cast<long>(side), place / 1e3, 100.0 * static_cast<double>(fit) / count);
  }
}

// A slot of one sample of each kind, made and served again and again.
struct Subject {
  explicit Subject(Hold hold)
      : options(options_of(hold)),
        maker(options, 0, false),
        plan(forebay::make_render_plan(options, 0, false, 1)),
        renderer(options, plan),
        slot(plan.canvas.batch_bytes()) {
    workspace.decoder = forebay::ImageDecoder(forebay::trusted_pixel_kernels());
  }
  CanvasForm make(const Bytes& file) {
    maker.make(file, {}, 0, 0, plan.canvas.place(slot, 0), workspace);
    return forebay::info_of(plan.canvas, slot.data(), 0).form;
  }
  // A view that depends on both numbers.
  void serve(std::uint64_t position, std::uint64_t use, Bytes& out) {
    renderer.render({.canvases = slot.data(), .size = 1, .first_position = position, .use_index = use}, out.data(), {});
  }

  TransformOptions options;
  SampleMaker maker;
  SampleMaker::Workspace workspace;
  forebay::RenderPlan plan;
  forebay::HostRenderer renderer;
  Bytes slot;
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "bench_held FOLDER [ROUNDS]\n");
    return 2;
  }
  const std::vector<Bytes> files = files_in(arguments[1]);
  const int rounds = count > 2 ? std::atoi(arguments[2]) : 5;
  if (files.empty()) return 2;
  print_sizes(files);
  Subject pixels(Hold::pixels);
  Subject coefficients(Hold::coefficients);
  Bytes out(pixels.plan.sample_bytes());
  Figure make_pixels;
  Figure make_held;
  Figure serve_pixels;
  Figure serve_held;
  std::size_t held = 0;
  for (int round = 0; round < rounds; ++round) {
    double times[4] = {};
    held = 0;
    for (const Bytes& file : files) {
      const auto timed = [&](int place, const std::function<void()>& work) {
        const double begin = processor_time();
        work();
        times[place] += processor_time() - begin;
      };
      bool is_held = false;
      const double before = times[1];
      timed(1, [&] { is_held = coefficients.make(file) == CanvasForm::coefficients; });
      if (!is_held) {  // compared are those that are
        times[1] = before;
        continue;
      }
      ++held;
      timed(0, [&] { (void)pixels.make(file); });
      timed(2, [&] { pixels.serve(held, static_cast<std::uint64_t>(round), out); });
      timed(3, [&] { coefficients.serve(held, static_cast<std::uint64_t>(round), out); });
    }
    const auto each = static_cast<double>(held);
    make_pixels.rounds.push_back(times[0] / each);
    make_held.rounds.push_back(times[1] / each);
    serve_pixels.rounds.push_back(times[2] / each);
    serve_held.rounds.push_back(times[3] / each);
  }
  const auto print = [](const char* what, const Figure& figure) {
    std::printf("  %-40s %s\n", what, figure.text().c_str());
  };
  std::printf("us of processor time per image, the %zu that a place of 256 x 256 has room for, median of %d rounds:\n",
              held, rounds);
  print("decode and make a canvas", make_pixels);
  print("decode and hold coefficients", make_held);
  print("serve a view of a canvas, float32 NCHW", serve_pixels);
  print("serve a view of coefficients", serve_held);
  return 0;
}
