// What a serving of canvases costs the host, and what making them costs a decoder. See README.md.
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

#include <forebay/options.hpp>
#include <forebay/random.hpp>

#include "hot_path/measure.hpp"
#include "make/canvas_maker.hpp"
#include "make/canvas_math.hpp"
#include "make/renderers.hpp"
#include "make/transform.hpp"

namespace {

using forebay::CanvasMaker;
using forebay::DType;
using forebay::Image;
using forebay::Layout;
using forebay::TransformOptions;
using forebay::bench::Figure;

constexpr std::uint32_t kBatch = 64;
constexpr std::size_t kAlignment = 4096;

// Touched, as a slot and a output tensor are.
class Memory {
 public:
  explicit Memory(std::size_t bytes)
      : size_(bytes), bytes_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment}))) {
    std::memset(bytes_.get(), 1, bytes);
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{kAlignment}); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> bytes_;
};

// Gradients with some noise: neighbours are alike, as in photographs.
Image picture(std::int32_t width, std::int32_t height) {
  forebay::Random random(1);
  Image image;
  image.resize(width, height);
  for (std::int32_t y = 0; y < height; ++y) {
    for (std::int32_t x = 0; x < 3 * width; ++x) {
      image.row(y)[x] = static_cast<std::uint8_t>((x / 3 + 2 * y) / 4 + static_cast<std::int32_t>(random.below(16)));
    }
  }
  return image;
}

// Something that is timed: run(n) does it to a batch, for the n-th time.
struct Subject {
  std::string name;
  std::size_t read = 0;  // bytes of an image, on average
  std::size_t written = 0;
  std::function<void(std::uint64_t)> run;
  Figure figure{};  // µs per image
};

// Processor time of this thread: what others do to it by taking turns does not count.
double now_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// All subjects take turns, so that what disturbs the machine disturbs them alike.
void measure(std::vector<Subject>& subjects, int rounds) {
  for (int round = 0; round <= rounds; ++round) {
    for (auto& subject : subjects) {
      const double start = now_us();
      subject.run(static_cast<std::uint64_t>(round));
      if (round > 0) subject.figure.rounds.push_back((now_us() - start) / kBatch);
    }
  }
}

void print(const std::vector<Subject>& subjects, double copy_speed) {
  for (const auto& subject : subjects) {
    const double us = subject.figure.median();
    const double speed = static_cast<double>(subject.read + subject.written) / us;
    std::printf("  %-34s %-28s %7.0f images/s  %4zu kB read %5zu kB written  %5.2f GB/s, %4.2f of a copy\n",
                subject.name.c_str(), subject.figure.text().c_str(), 1e6 / us, subject.read / 1000,
                subject.written / 1000, speed / 1000, speed / copy_speed);
  }
}

TransformOptions options_of(DType dtype, Layout layout) {
  TransformOptions options;
  options.when = forebay::When::dequeue;
  options.dtype = dtype;
  options.layout = layout;
  return options;
}

// The share of a 500x375 photograph that a view shows, on average.
double share_shown() {
  constexpr std::uint64_t kViews = 10'000;
  const forebay::RenderPlan plan = forebay::make_render_plan({}, 1, false, kBatch);
  double pixels = 0;
  for (std::uint64_t position = 0; position < kViews; ++position) {
    const forebay::Box region = forebay::canvas_view(plan, {500, 375, 500, 375}, 0, position, 0).region;
    pixels += static_cast<double>(region.width()) * region.height();
  }
  return pixels / kViews / (500.0 * 375.0);
}

std::size_t read_of(std::size_t bytes) {
  static const double share = share_shown();
  return static_cast<std::size_t>(share * static_cast<double>(bytes));
}

// Slots enough to be out of the caches, as those of a queue are.
class Slots {
 public:
  explicit Slots(const TransformOptions& options) : format_(forebay::canvas_format(options, kBatch)) {
    const CanvasMaker maker(options);
    const Image image = picture(500, 375);
    forebay::Resizer scratch;
    for (int i = 0; i < 8; ++i) {
      slots_.emplace_back(format_.batch_bytes());
      for (std::uint32_t index = 0; index < kBatch; ++index) {
        maker.render(image, maker.view(image.width, image.height, {}), format_.place(slots_.back().bytes(), index),
                     scratch);
      }
    }
  }
  [[nodiscard]] std::span<std::byte> at(std::uint64_t turn) const { return slots_[turn % slots_.size()].bytes(); }
  [[nodiscard]] forebay::RenderBatch batch(std::uint64_t turn) const {
    return {.canvases = at(turn).data(), .size = kBatch, .epoch = 0, .first_position = 0, .use_index = turn};
  }
  [[nodiscard]] const forebay::CanvasFormat& format() const { return format_; }

 private:
  forebay::CanvasFormat format_;
  std::vector<Memory> slots_;
};

Subject serving(std::string name, const TransformOptions& options, const Slots& slots, const Memory& output) {
  auto renderer = std::make_shared<forebay::HostRenderer>(options, 1, false, kBatch);
  const std::size_t written = forebay::make_render_plan(options, 1, false, kBatch).sample_bytes();
  return {std::move(name), read_of(slots.format().place_bytes()), written,
          [=, &slots, &output](std::uint64_t turn) { renderer->render(slots.batch(turn), output.bytes().data(), {}); }};
}

Subject copy(const Slots& slots, const Memory& output) {
  const std::size_t bytes = slots.format().place_bytes() * kBatch;
  return {
      "memcpy of the canvases", slots.format().place_bytes(), slots.format().place_bytes(),
      [=, &slots, &output](std::uint64_t turn) { std::memcpy(output.bytes().data(), slots.at(turn).data(), bytes); }};
}

Subject twin(const TransformOptions& options, const Slots& slots, const Memory& output) {
  const forebay::RenderPlan plan = forebay::make_render_plan(options, 1, false, kBatch);
  auto renderer = std::make_shared<forebay::TwinRenderer>(plan);
  return {"float32 NCHW, twin (plain loops)", read_of(slots.format().place_bytes()), plan.sample_bytes(),
          [=, &slots, &output](std::uint64_t turn) { renderer->render(slots.batch(turn), output.bytes().data(), {}); }};
}

// What a decoder does once it has the pixels.
Subject making(const Image& image, const Slots& slots) {
  auto maker = std::make_shared<CanvasMaker>(options_of(DType::float32, Layout::nchw));
  auto scratch = std::make_shared<forebay::Resizer>();
  return {"canvas of " + std::to_string(image.width) + "x" + std::to_string(image.height),
          static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height) * 3,
          slots.format().place_bytes(), [=, &image, &slots](std::uint64_t turn) {
            for (std::uint32_t index = 0; index < kBatch; ++index) {
              maker->render(image, maker->view(image.width, image.height, {}),
                            slots.format().place(slots.at(turn), index), *scratch);
            }
          }};
}

// The same image made into a sample, for comparison.
Subject at_once(const Image& image, const Memory& output) {
  TransformOptions options;
  auto transform =
      std::make_shared<forebay::Transform>(options, 1, false, forebay::Transform::stores_for(options, kBatch));
  auto scratch = std::make_shared<forebay::Resizer>();
  const std::size_t bytes = transform->sample_bytes();
  return {"sample of it at once, float32 NCHW", read_of(static_cast<std::size_t>(image.width * image.height) * 3),
          bytes, [=, &image, &output](std::uint64_t turn) {
            for (std::uint32_t index = 0; index < kBatch; ++index) {
              transform->apply(image, {}, turn, index, output.bytes().subspan(index * bytes, bytes), *scratch);
            }
          }};
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 21;
  if (rounds < 1) {
    std::fprintf(stderr, "usage: %s [ROUNDS]\n", argv[0]);
    return 2;
  }
  const TransformOptions plain = options_of(DType::float32, Layout::nchw);
  const Slots slots(plain);
  const Memory output(std::size_t{kBatch} * 224 * 224 * 3 * 4);
  const Image photograph = picture(500, 375);
  const Image large = picture(1500, 1125);
  std::vector<Subject> subjects;
  subjects.push_back(copy(slots, output));
  for (const auto layout : {Layout::nchw, Layout::nhwc}) {
    for (const auto dtype : {DType::float32, DType::float16, DType::bfloat16, DType::uint8}) {
      subjects.push_back(serving(std::string(to_string(dtype)) + (layout == Layout::nchw ? " NCHW" : " NHWC"),
                                 options_of(dtype, layout), slots, output));
    }
  }
  subjects.push_back(twin(plain, slots, output));
  subjects.push_back(making(photograph, slots));
  subjects.push_back(making(large, slots));
  subjects.push_back(at_once(photograph, output));
  measure(subjects, rounds);
  std::printf("kernels: %s; batches of %u canvases of 256x256, random views of them -> 224x224\n",
              forebay::best_kernels().name, kBatch);
  std::printf("µs per image on one core: median of %d alternating rounds [range]\n", rounds);
  const Subject& copied = subjects.front();
  print(subjects, static_cast<double>(copied.read + copied.written) / copied.figure.median());
  return 0;
}
