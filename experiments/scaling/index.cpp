// One step of an index's life, in a process of its own so that its memory can be told; prints one JSON object.
//   bench_index build FORMAT PATH FILE    builds the index of PATH and saves it
//   bench_index synthesize N FILE         saves an index of N files that do not exist
//   bench_index open FILE N               opens it, looks up N samples at random, twice
//   bench_index read FILE N               the same with the whole file read into memory and checked first
//   bench_index order N...                what the order of an epoch of N samples costs, an object for each
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/error.hpp>
#include <forebay/order.hpp>

#include "data/index_image.hpp"
#include "data/record_table.hpp"
#include "measure.hpp"

namespace {

using forebay::Dataset;
using forebay::bench::process_memory;
using forebay::bench::ProcessMemory;

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int build(const std::string& format, const std::string& path, const std::string& file) {
  forebay::DatasetOptions options;
  options.format = format;
  options.path = path;
  std::unique_ptr<Dataset> dataset;
  const double build_s = seconds([&] { dataset = forebay::build_dataset(options); });
  const double save_s = seconds([&] { forebay::save_index(*dataset, file); });
  std::printf("{\"samples\": %llu, \"build_s\": %.4f, \"save_s\": %.4f, \"bytes\": %zu, \"peak_mb\": %.1f}\n",
              static_cast<unsigned long long>(dataset->size()), build_s, save_s,
              forebay::data::image_of(*dataset)->bytes(), process_memory().peak);
  return 0;
}

int synthesize(std::uint64_t samples, const std::string& file) {
  forebay::data::IndexRecord record;
  record.origin.format = "folder";
  record.origin.path = "/synthetic";
  record.root = "/synthetic";
  record.counts.images = samples;
  forebay::data::RecordTable table;
  for (int i = 0; i < 1000; ++i) table.classes.push_back("class" + std::to_string(i));
  char path[48];
  for (std::uint64_t i = 0; i < samples; ++i) {
    const int length = std::snprintf(path, sizeof path, "class%03d/image_%09llu.jpg", static_cast<int>(i % 1000),
                                     static_cast<unsigned long long>(i));
    const std::uint32_t source = table.add_source({path, static_cast<std::size_t>(length)});
    table.add(source, static_cast<std::int32_t>(i % 1000));
  }
  forebay::save_index(*forebay::data::make_dataset(record, std::move(table)), file);
  std::printf("{\"peak_mb\": %.1f}\n", process_memory().peak);
  return 0;
}

// In the order of a shuffled epoch. Adds up what it finds, so that nothing is left out.
std::uint64_t look_up(const Dataset& dataset, std::uint64_t count) {
  const forebay::Order order({.samples = dataset.size(), .batch_size = 1, .seed = 17});
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t id = order.sample(0, i % dataset.size());
    sum += dataset.name(id).size() + static_cast<std::uint64_t>(dataset.sample(id).label);
  }
  return sum;
}

std::unique_ptr<Dataset> read_whole(const std::string& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  std::vector<std::byte> bytes(static_cast<std::size_t>(in.tellg()));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  auto dataset =
      forebay::data::restore_index(forebay::data::index_in_memory(forebay::data::owned_bytes(std::move(bytes)), file));
  forebay::data::image_of(*dataset)->check();
  return dataset;
}

int open(bool whole, const std::string& file, std::uint64_t count) {
  const ProcessMemory before = process_memory();
  std::unique_ptr<Dataset> dataset;
  std::uint64_t fingerprint = 0;
  const double open_s = seconds([&] {
    dataset = whole ? read_whole(file) : forebay::load_index(file);
    fingerprint = forebay::fingerprint(*dataset);
  });
  const ProcessMemory opened = process_memory();
  std::uint64_t sum = 0;
  const double first_s = seconds([&] { sum = look_up(*dataset, count); });
  const double again_s = seconds([&] { sum -= look_up(*dataset, count); });
  const ProcessMemory used = process_memory();
  const auto per_lookup = [&](double taken) { return taken * 1e9 / static_cast<double>(count); };
  std::printf(
      "{\"samples\": %llu, \"bytes\": %zu, \"open_s\": %.6f, \"open_own_mb\": %.2f, "
      "\"used_own_mb\": %.2f, \"first_ns\": %.0f, \"again_ns\": %.0f, "
      "\"fingerprint\": \"%016llx\"}\n",
      static_cast<unsigned long long>(dataset->size()), forebay::data::image_of(*dataset)->bytes(), open_s,
      opened.own - before.own, used.own - before.own, per_lookup(first_s), per_lookup(again_s),
      static_cast<unsigned long long>(fingerprint));
  return sum == 0 ? 0 : 1;
}

constexpr std::uint64_t kIds = 100'000;
constexpr int kRuns = 11;

// Of this thread alone: whoever else runs on the machine takes no part of it.
double cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

// ns per turn: the median of several runs.
template <typename Turn>
double per_turn(Turn&& turn) {
  std::vector<double> runs;
  for (int run = 0; run < kRuns; ++run) {
    const double start = cpu_ns();
    for (std::uint64_t i = 0; i < kIds; ++i) turn(i);
    runs.push_back((cpu_ns() - start) / static_cast<double>(kIds));
  }
  return forebay::bench::percentile(runs, 0.5);
}

void measure_order(std::uint64_t samples) {
  const double before = process_memory().peak;
  std::uint64_t sum = 0;
  const double setup_ns = per_turn([&](std::uint64_t i) {
    const forebay::Order order({.samples = samples, .batch_size = 64, .seed = i});
    sum += order.batches();
  });
  const forebay::Order order({.samples = samples, .batch_size = 64, .seed = 17});
  std::uint64_t position = 0;
  const double id_ns = per_turn([&](std::uint64_t i) {
    sum += order.sample(i & 7U, position);
    position += 9973;
    if (position >= samples) position -= samples;
  });
  const double grown = process_memory().peak - before;
  std::printf(
      "{\"samples\": %llu, \"setup_ns\": %.1f, \"id_ns\": %.1f, \"bytes\": %zu, \"grown_mb\": %.2f, "
      "\"sum\": %llu}\n",
      static_cast<unsigned long long>(samples), setup_ns, id_ns, sizeof(forebay::Order), grown,
      static_cast<unsigned long long>(sum));
}

int run(const std::vector<std::string>& arguments) {
  const std::string_view command = arguments.empty() ? "" : std::string_view(arguments[0]);
  if (command == "order" && arguments.size() > 1) {
    for (std::size_t i = 1; i < arguments.size(); ++i) measure_order(std::stoull(arguments[i]));
    return 0;
  }
  if (command == "build" && arguments.size() == 4) return build(arguments[1], arguments[2], arguments[3]);
  if (command == "synthesize" && arguments.size() == 3) return synthesize(std::stoull(arguments[1]), arguments[2]);
  if ((command == "open" || command == "read") && arguments.size() == 3) {
    return open(command == "read", arguments[1], std::stoull(arguments[2]));
  }
  std::fputs("usage: bench_index build FORMAT PATH FILE | synthesize N FILE | open FILE N | read FILE N | order N...\n",
             stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
