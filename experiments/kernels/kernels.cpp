// From decoded pixels to a sample in the ring: what each step costs with each kind of kernels. See README.md.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <forebay/options.hpp>
#include <forebay/random.hpp>

#include "hot_path/measure.hpp"
#include "make/kernels.hpp"
#include "make/resizer.hpp"
#include "make/transform.hpp"

namespace {

using forebay::DType;
using forebay::Image;
using forebay::Kernels;
using forebay::Layout;
using forebay::bench::Figure;
using Stores = forebay::Transform::Stores;

constexpr std::size_t kLine = 64;
constexpr std::size_t kBatch = 64;
// Short enough that a round is seldom cut by the scheduler.
constexpr double kRoundUs = 5000;

// Memory as the ring's slots are: touched, and at the beginning of a cache line. Samples are written one after another.
class Ring {
 public:
  explicit Ring(std::size_t bytes)
      : size_(bytes), memory_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kLine}))) {
    std::memset(memory_.get(), 1, bytes);
  }

  std::span<std::byte> next(std::size_t bytes) {
    if (at_ + bytes > size_) at_ = 0;
    const std::span place(memory_.get() + at_, bytes);
    at_ += bytes;
    return place;
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{kLine}); }
  };
  std::size_t size_;
  std::size_t at_ = 0;
  std::unique_ptr<std::byte, Free> memory_;
};

Image noise(std::int32_t width, std::int32_t height) {
  forebay::Random random(1);
  Image image;
  image.resize(width, height);
  for (auto& pixel : image.pixels) pixel = static_cast<std::uint8_t>(random.bits());
  return image;
}

// Something that is timed: run(n) does it n times.
struct Subject {
  std::string name;
  std::function<void(std::size_t)> run;
  std::size_t repeats = 1;
  Figure figure{};  // µs each
};

// Processor time of this thread: what others do to it by taking turns does not count.
double now_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

double us_each(const Subject& subject) {
  const double start = now_us();
  subject.run(subject.repeats);
  return (now_us() - start) / static_cast<double>(subject.repeats);
}

// All subjects take turns, so that what disturbs the machine disturbs them alike.
void measure(std::vector<Subject>& subjects, int rounds, double round_us) {
  for (auto& subject : subjects) {
    const double first = std::max(us_each(subject), 0.1);
    subject.repeats = static_cast<std::size_t>(std::clamp(round_us / first, 2.0, 100'000.0));
  }
  for (int round = 0; round < rounds; ++round) {
    for (auto& subject : subjects) subject.figure.rounds.push_back(us_each(subject));
  }
}

// Writes as fast as memory takes it, past the caches where the processor can.
void fill(std::span<std::byte> place) {
#ifdef __SSE2__
  const __m128i value = _mm_set1_epi8(1);
  for (std::size_t i = 0; i + sizeof value <= place.size(); i += sizeof value) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(place.data() + i), value);
  }
  _mm_sfence();
#else
  std::memset(place.data(), 1, place.size());
#endif
}

// As a trainer's copy to its device would: every byte once.
std::uint64_t read(std::span<const std::byte> place) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + 8 <= place.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, place.data() + i, sizeof word);
    sum += word;
  }
  return sum;
}

std::string_view name_of(DType dtype) { return forebay::to_string(dtype); }

forebay::TransformOptions options_of(std::int64_t side, DType dtype, Layout layout) {
  forebay::TransformOptions options;
  options.crop = forebay::Crop::none;
  options.mirror = 0.5;
  options.size = {side, side};
  options.dtype = dtype;
  options.layout = layout;
  return options;
}

Subject whole(std::string name, const Image& image, const forebay::TransformOptions& options, Stores stores, Ring& ring,
              const Kernels& kernels = forebay::best_kernels()) {
  auto transform = std::make_shared<forebay::Transform>(options, 1, false, stores, kernels);
  auto scratch = std::make_shared<forebay::Resizer>(kernels);
  return {std::move(name), [=, &image, &ring](std::size_t count) {
            for (std::size_t i = 0; i < count; ++i) {
              transform->apply(image, {}, 0, i, ring.next(transform->sample_bytes()), *scratch);
            }
          }};
}

// Without its tables: as after another image of the same size.
Subject resize_only(std::string name, const Image& image, std::int32_t side, const Kernels& kernels) {
  auto resizer = std::make_shared<forebay::Resizer>(kernels);
  return {std::move(name), [=, &image](std::size_t count) {
            for (std::size_t i = 0; i < count; ++i) {
              resizer->begin(image, {0, 0, image.width, image.height}, side, side, false);
              for (std::int32_t y = 0; y < side; ++y) {
                if (resizer->row(y) == nullptr) std::abort();
              }
            }
          }};
}

// What a crop of another size costs before its first row.
Subject tables(std::string name, const Image& image, std::int32_t side, const Kernels& kernels) {
  auto resizer = std::make_shared<forebay::Resizer>(kernels);
  return {std::move(name), [=, &image](std::size_t count) {
            for (std::size_t i = 0; i < count; ++i) {
              const auto less = static_cast<std::int32_t>(i % 2);
              resizer->begin(image, {0, 0, image.width - less, image.height - less}, side, side, false);
            }
          }};
}

// Rows that were resized already; `rows` are those of one sample.
Subject convert_only(std::string name, const forebay::TransformOptions& options, Stores stores, Ring& ring,
                     const std::vector<std::uint8_t>& rows) {
  forebay::Conversion conversion;
  conversion.dtype = options.dtype;
  conversion.layout = options.layout;
  conversion.width = static_cast<std::size_t>(options.size[1]);
  const auto height = static_cast<std::size_t>(options.size[0]);
  conversion.plane = height * conversion.width;
  conversion.stream = stores == Stores::streaming;
  conversion.scale = {0.017F, 0.0175F, 0.0174F};
  conversion.offset = {-2.1F, -2.0F, -1.8F};
  const std::size_t row_bytes =
      conversion.width * forebay::size_of(options.dtype) * (options.layout == Layout::nchw ? 1 : 3);
  const std::size_t sample = 3 * conversion.plane * forebay::size_of(options.dtype);
  return {std::move(name), [=, &ring, &rows](std::size_t count) {
            for (std::size_t i = 0; i < count; ++i) {
              std::byte* const to = ring.next(sample).data();
              for (std::size_t y = 0; y < height; ++y) {
                forebay::best_kernels().convert(rows.data() + y * conversion.width * forebay::kPixelBytes, conversion,
                                                to + y * row_bytes);
              }
              if (conversion.stream) forebay::finish_streaming();
            }
          }};
}

void by_kernels(Ring& ring, int rounds) {
  struct Case {
    std::int32_t width, height, side;
  };
  std::printf("\nµs per image, float32 NCHW, written past the caches: median of %d alternating rounds [range]\n",
              rounds);
  for (const auto& [width, height, side] :
       {Case{500, 375, 224}, Case{288, 288, 224}, Case{160, 120, 224}, Case{1500, 1125, 224}, Case{32, 32, 32}}) {
    const auto image = noise(width, height);
    std::vector<Subject> subjects;
    for (const auto& kernels : forebay::supported_kernels()) {
      const std::string name = kernels.name;
      const auto options = options_of(side, DType::float32, Layout::nchw);
      subjects.push_back(tables(name + " tables", image, side, kernels));
      subjects.push_back(resize_only(name + " resize", image, side, kernels));
      subjects.push_back(whole(name + " in all", image, options, Stores::streaming, ring, kernels));
    }
    measure(subjects, rounds, kRoundUs);
    std::printf("%dx%d -> %dx%d\n", width, height, side, side);
    const std::size_t scalar = subjects.size() - 3;
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      std::printf("  %-16s %-36s %6.2f times the scalar speed\n", subjects[i].name.c_str(),
                  subjects[i].figure.text().c_str(),
                  subjects[scalar + i % 3].figure.median() / subjects[i].figure.median());
    }
  }
}

void by_format(Ring& ring, int rounds) {
  std::printf("\n288x288 -> 224x224 by dtype and layout, µs per image, and normalise + store alone\n");
  const auto image = noise(288, 288);
  const std::vector<std::uint8_t> rows(std::size_t{224} * 224 * forebay::kPixelBytes, 7);
  std::vector<Subject> subjects;
  std::vector<std::size_t> bytes;
  const auto add = [&](Subject subject, std::size_t written) {
    subjects.push_back(std::move(subject));
    bytes.push_back(written);
  };
  for (const auto layout : {Layout::nchw, Layout::nhwc}) {
    for (const auto dtype : {DType::float32, DType::float16, DType::bfloat16, DType::uint8}) {
      const auto options = options_of(224, dtype, layout);
      const std::string name = std::string(name_of(dtype)) + (layout == Layout::nchw ? " nchw" : " nhwc");
      const std::size_t written = std::size_t{224} * 224 * 3 * forebay::size_of(dtype);
      for (const auto stores : {Stores::normal, Stores::streaming}) {
        const std::string how = stores == Stores::streaming ? ", past caches" : ", normal";
        add(whole(name + how + ", in all", image, options, stores, ring), written);
        add(convert_only(name + how + ", alone", options, stores, ring, rows), written);
      }
    }
  }
  const std::size_t sample = std::size_t{224} * 224 * 3 * 4;
  Ring one(sample);
  add(convert_only("float32 nchw, into one place, alone", options_of(224, DType::float32, Layout::nchw), Stores::normal,
                   one, rows),
      sample);
  add({"fill of the ring, past caches",
       [&](std::size_t count) {
         for (std::size_t i = 0; i < count; ++i) fill(ring.next(sample));
       }},
      sample);
  measure(subjects, rounds, kRoundUs);
  const double fill_speed = static_cast<double>(sample) / subjects.back().figure.median();
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const double speed = static_cast<double>(bytes[i]) / subjects[i].figure.median();
    std::printf("  %-38s %-34s %6.2f GB/s, %4.2f of the fill\n", subjects[i].name.c_str(),
                subjects[i].figure.text().c_str(), speed / 1000, speed / fill_speed);
  }
}

// A batch is written and then read: what the writer saves must not be lost to the reader.
void with_reader(std::int32_t side, int rounds) {
  const auto image = noise(side * 9 / 7, side * 9 / 7);
  const auto options = options_of(side, DType::float32, Layout::nchw);
  const std::size_t sample = static_cast<std::size_t>(side) * static_cast<std::size_t>(side) * 3 * 4;
  std::printf("\nµs per image to make a batch of %zu (%dx%d -> %dx%d, float32 NCHW, %.1f MB) and to read it then\n",
              kBatch, image.width, image.height, side, side, static_cast<double>(kBatch * sample) / 1e6);
  for (const std::size_t batches : {1U, 4U, 16U}) {
    Ring ring(batches * kBatch * sample);
    std::vector<Subject> subjects;
    std::uint64_t sum = 0;
    for (const auto stores : {Stores::normal, Stores::streaming}) {
      auto transform = std::make_shared<forebay::Transform>(options, 1, false, stores);
      auto scratch = std::make_shared<forebay::Resizer>();
      subjects.push_back(
          {stores == Stores::streaming ? "past caches" : "normal", [=, &image, &ring, &sum](std::size_t count) {
             for (std::size_t done = 0; done < count; done += kBatch) {
               const auto batch = ring.next(kBatch * sample);
               for (std::size_t i = 0; i < kBatch; ++i) {
                 transform->apply(image, {}, 0, i, batch.subspan(i * sample, sample), *scratch);
               }
               sum += read(batch);
             }
           }});
      subjects.back().repeats = std::max<std::size_t>(1, 224 / static_cast<std::size_t>(side)) * kBatch;
    }
    for (int round = 0; round <= rounds; ++round) {
      for (auto& subject : subjects) {
        const double us = us_each(subject);
        if (round > 0) subject.figure.rounds.push_back(us);
      }
    }
    for (const auto& subject : subjects) {
      std::printf("  ring of %3zu MB, %-12s %s\n", batches * kBatch * sample / 1'000'000, subject.name.c_str(),
                  subject.figure.text().c_str());
    }
    if (sum == 0) std::abort();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 11;
  if (rounds < 1) {
    std::fprintf(stderr, "usage: %s [ROUNDS]\n", argv[0]);
    return 2;
  }
  const std::size_t batch = kBatch * 224 * 224 * 3 * 4;
  Ring ring(4 * batch);
  std::printf("kernels:");
  for (const auto& kernels : forebay::supported_kernels()) std::printf(" %s", kernels.name);
  std::printf("; ring of %zu MB\n", 4 * batch / 1'000'000);
  by_kernels(ring, rounds);
  by_format(ring, rounds);
  for (const std::int32_t side : {32, 64, 96, 128, 224}) with_reader(side, rounds);
  return 0;
}
