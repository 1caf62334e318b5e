#pragma once

#include "device/device.hpp"
#include "test.hpp"

// The contract that every device must fulfil. A subject includes this once and names its benches:
//
//   FOREBAY_DEVICE_CONTRACT(HostBench, SimulatedBench);
//
// A bench is constructed from a seed, which determines the order in which its streams act. It has
// device(), and kRefuses, which tells whether the device refuses impossible amounts of memory.
namespace forebay::testing {

using Bytes = std::vector<std::byte>;

inline Bytes random_bytes(Random& random, std::size_t size) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  return bytes;
}

// The bytes on the device once all earlier work of a stream is done.
inline Bytes read(device::Device& device, const std::byte* from, std::size_t size, StreamView stream) {
  Bytes bytes(size, std::byte{0xEE});
  device.copy_out(bytes.data(), from, size, stream);
  return bytes;
}

// Buffers of equal size, on the device and in staging memory.
struct Places {
  Places(device::Device& device, std::size_t each, std::size_t count, std::size_t staged_count)
      : size(each), memory(device.allocate(each * count)), staging(device.allocate_staging(each * staged_count)) {}

  [[nodiscard]] std::byte* at(std::size_t index) const { return memory->bytes().data() + index * size; }
  [[nodiscard]] std::byte* staged(std::size_t index) const { return staging->bytes().data() + index * size; }
  Bytes stage(std::size_t index, Random& random) const {
    Bytes bytes = random_bytes(random, size);
    std::memcpy(staged(index), bytes.data(), size);
    return bytes;
  }

  std::size_t size;
  std::unique_ptr<device::Arena> memory;
  std::unique_ptr<device::Arena> staging;
};

constexpr std::uint64_t kSeeds = 40;

TEST_CASE_TEMPLATE_DEFINE("device: memory is zero, aligned and as large as was asked for", Bench, device_memory) {
  Bench bench(1);
  device::Device& device = bench.device();
  const StreamView stream = device.make_stream();
  for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{100'001}}) {
    CAPTURE(size);
    const auto memory = device.allocate(size);
    const auto staging = device.allocate_staging(size);
    for (device::Arena* const arena : {memory.get(), staging.get()}) {
      CHECK(arena->bytes().size() >= size);
      CHECK(reinterpret_cast<std::uintptr_t>(arena->bytes().data()) % 4096 == 0);
      CHECK_FALSE(arena->describe().empty());
    }
    CHECK(read(device, memory->bytes().data(), size, stream) == Bytes(size));
    CHECK(Bytes(staging->bytes().begin(), staging->bytes().begin() + static_cast<std::ptrdiff_t>(size)) == Bytes(size));
  }
  CHECK_FALSE(device.describe().empty());
}

TEST_CASE_TEMPLATE_DEFINE("device: memory that nobody has is refused with its size", Bench, device_refusal) {
  if constexpr (Bench::kRefuses) {
    Bench bench(1);
    constexpr std::size_t kTooMuch = std::size_t{1} << 50;
    for (const bool staging : {false, true}) {
      const std::string error = testing::error_of([&] {
        const auto memory = staging ? bench.device().allocate_staging(kTooMuch) : bench.device().allocate(kTooMuch);
      });
      CAPTURE(error);
      CHECK(error.find("1073741824 MiB") != std::string::npos);
      CHECK(error.find("queue.capacity") != std::string::npos);
    }
  }
}

TEST_CASE_TEMPLATE_DEFINE("device: what is on one stream happens in its order", Bench, device_order) {
  constexpr std::size_t kBytes = 600;
  constexpr std::size_t kCopies = 30;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    CAPTURE(seed);
    Bench bench(seed);
    device::Device& device = bench.device();
    Random random(seed);
    const Places places(device, kBytes, 1, kCopies);
    const StreamView stream = device.make_stream();
    Bytes expected(kBytes);
    for (std::size_t copy = 0; copy < kCopies; ++copy) {
      const Bytes bytes = places.stage(copy, random);
      const std::size_t from = random.below(kBytes);
      const std::size_t size = random.below(kBytes - from + 1);
      device.copy_in(places.at(0) + from, places.staged(copy), size, stream);
      std::memcpy(expected.data() + from, bytes.data(), size);
    }
    CHECK(read(device, places.at(0), kBytes, stream) == expected);
  }
}

TEST_CASE_TEMPLATE_DEFINE("device: an event is complete from the start, and after what was before its record", Bench,
                          device_events) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    CAPTURE(seed);
    Bench bench(seed);
    device::Device& device = bench.device();
    Random random(seed);
    const Places places(device, 64, 3, 3);
    const StreamView first = device.make_stream();
    const StreamView second = device.make_stream();
    const StreamView other = device.make_stream();
    const device::DeviceEvent event = device.make_event();
    CHECK(device.is_complete(event));
    device.synchronize(event);
    device.wait(first, event);

    Bytes bytes = places.stage(0, random);
    device.copy_in(places.at(0), places.staged(0), places.size, first);
    device.record(event, first);
    CHECK(eventually([&] { return device.is_complete(event); }));
    // Once an event is complete, no stream has to wait for it.
    CHECK(read(device, places.at(0), places.size, other) == bytes);

    bytes = places.stage(1, random);
    device.copy_in(places.at(1), places.staged(1), places.size, first);
    device.record(event, first);
    device.synchronize(event);
    CHECK(device.is_complete(event));
    CHECK(read(device, places.at(1), places.size, other) == bytes);

    // The latest record counts, whichever stream it is on.
    bytes = places.stage(2, random);
    device.record(event, first);
    device.copy_in(places.at(2), places.staged(2), places.size, second);
    device.record(event, second);
    device.synchronize(event);
    CHECK(read(device, places.at(2), places.size, other) == bytes);
  }
}

TEST_CASE_TEMPLATE_DEFINE("device: streams that wait for each other's events act in turn", Bench, device_waits) {
  constexpr std::size_t kPlaces = 4;
  constexpr std::size_t kSteps = 120;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    CAPTURE(seed);
    Bench bench(seed);
    device::Device& device = bench.device();
    Random random(seed);
    const Places places(device, 48, kPlaces, kSteps);
    const std::vector<StreamView> streams{device.make_stream(), device.make_stream(), device.make_stream()};
    std::vector<device::DeviceEvent> written;
    std::vector<Bytes> expected(kPlaces, Bytes(places.size));
    for (std::size_t place = 0; place < kPlaces; ++place) written.push_back(device.make_event());
    for (std::size_t step = 0; step < kSteps; ++step) {
      const std::size_t place = random.below(kPlaces);
      const StreamView stream = streams[random.below(streams.size())];
      device.wait(stream, written[place]);
      if (random.below(4) == 0) {
        CHECK(read(device, places.at(place), places.size, stream) == expected[place]);
        continue;
      }
      expected[place] = places.stage(step, random);
      device.copy_in(places.at(place), places.staged(step), places.size, stream);
      device.record(written[place], stream);
    }
    for (std::size_t place = 0; place < kPlaces; ++place) {
      device.wait(streams[0], written[place]);
      CHECK(read(device, places.at(place), places.size, streams[0]) == expected[place]);
    }
  }
}

TEST_CASE_TEMPLATE_DEFINE("device: a wait is for the record that was there when it was asked for", Bench,
                          device_rerecord) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    CAPTURE(seed);
    Bench bench(seed);
    device::Device& device = bench.device();
    Random random(seed);
    const Places places(device, 64, 1, 2);
    const StreamView first = device.make_stream();
    const StreamView second = device.make_stream();
    const device::DeviceEvent event = device.make_event();
    places.stage(0, random);
    const Bytes last = places.stage(1, random);
    device.copy_in(places.at(0), places.staged(0), places.size, first);
    device.record(event, first);
    device.wait(second, event);
    device.copy_in(places.at(0), places.staged(1), places.size, second);
    // If the wait were for this record, the second stream would wait for itself.
    device.record(event, second);
    device.synchronize(event);
    CHECK(read(device, places.at(0), places.size, first) == last);
  }
}

TEST_CASE_TEMPLATE_DEFINE("device: any thread may use it", Bench, device_threads) {
  Bench bench(7);
  device::Device& device = bench.device();
  Random random(7);
  const Places places(device, 256, 1, 1);
  const Bytes bytes = places.stage(0, random);
  const device::DeviceEvent copied = device.make_event();
  std::thread([&] {
    device.enter_thread();
    const StreamView stream = device.make_stream();
    device.copy_in(places.at(0), places.staged(0), places.size, stream);
    device.record(copied, stream);
  }).join();
  const StreamView stream = device.make_stream();
  device.wait(stream, copied);
  CHECK(read(device, places.at(0), places.size, stream) == bytes);
}

}  // namespace forebay::testing

#define FOREBAY_DEVICE_CONTRACT(...)                       \
  TEST_CASE_TEMPLATE_INVOKE(device_memory, __VA_ARGS__);   \
  TEST_CASE_TEMPLATE_INVOKE(device_refusal, __VA_ARGS__);  \
  TEST_CASE_TEMPLATE_INVOKE(device_order, __VA_ARGS__);    \
  TEST_CASE_TEMPLATE_INVOKE(device_events, __VA_ARGS__);   \
  TEST_CASE_TEMPLATE_INVOKE(device_waits, __VA_ARGS__);    \
  TEST_CASE_TEMPLATE_INVOKE(device_rerecord, __VA_ARGS__); \
  TEST_CASE_TEMPLATE_INVOKE(device_threads, __VA_ARGS__)
