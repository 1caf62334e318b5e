#include <forebay/forebay.h>

#include "allocation_counter.hpp"
#include "test.hpp"

// next() through the C interface, with everything that a program asks of a batch, allocates no more
// than next() itself.

namespace forebay {
namespace {

using testing::AllocationCounter;

struct Feeding {
  forebay_feeder* feeder = nullptr;

  explicit Feeding(const char* policy) {
    forebay_dataset dataset{};
    dataset.struct_size = sizeof(dataset);
    dataset.size = 200;
    dataset.sample = [](void*, std::uint64_t id, forebay_sample* sample, char*) {
      sample->label = static_cast<std::int64_t>(id % 10);
      sample->encoding = FOREBAY_RAW_PIXELS;
      sample->width = sample->height = 4;
      sample->channels = 1;
      return forebay_status{FOREBAY_OK};
    };
    dataset.read = [](void*, std::uint64_t, forebay_target* target, char*) {
      void* const room = forebay_target_reserve(target, 16);
      if (room == nullptr) return forebay_status{FOREBAY_ERROR};
      std::memset(room, 1, 16);
      return forebay_status{FOREBAY_OK};
    };
    const std::array<const char*, 9> settings{"device=host",         "dataset.batch_size=4", "transform.size=[4, 4]",
                                              "transform.crop=none", "run.steps=400",        "workers.decode=1",
                                              "workers.io=1",        "telemetry.dir=\"\"",   policy};
    forebay_feeder_options options{};
    options.struct_size = sizeof(options);
    options.dataset = &dataset;
    options.settings = settings.data();
    options.setting_count = settings.size();
    options.log = [](void*, std::int32_t, const char*) {};
    forebay_error* error = nullptr;
    forebay_feeder_new(&options, &feeder, &error);
    INFO(forebay_error_message(error));
    REQUIRE(feeder != nullptr);
  }
  ~Feeding() { forebay_feeder_free(feeder); }
  Feeding(const Feeding&) = delete;
  Feeding& operator=(const Feeding&) = delete;
};

// Makes a step; returns the number of bytes of its images, or 0 at the end.
std::uint64_t step(forebay_feeder* feeder, std::uint64_t& fresh) {
  forebay_batch* batch = nullptr;
  forebay_error* error = nullptr;
  forebay_tensor images{};
  images.struct_size = sizeof(images);
  if (forebay_feeder_next(feeder, 60, nullptr, &batch, &error) != FOREBAY_OK) return 0;
  forebay_batch_tensor(batch, 0, &images, &error);
  fresh += forebay_batch_is_fresh(batch) ? 1 : 0;
  const bool is_whole = forebay_batch_labels(batch) != nullptr && forebay_batch_ids(batch) != nullptr;
  forebay_batch_release(batch);
  return is_whole ? images.bytes : 0;
}

TEST_CASE("next() through the C interface does not allocate, fresh or reused") {
  for (const char* const policy : {"policy.name=block", "policy.name=greedy", "policy.name=adaptive"}) {
    CAPTURE(policy);
    const Feeding feeding(policy);
    std::uint64_t fresh = 0;
    std::size_t allocations = 0;
    std::size_t incomplete = 0;
    for (int number = 0; number < 400; ++number) {
      const AllocationCounter counter;
      if (step(feeding.feeder, fresh) != 4ULL * 3 * 16 * 4) ++incomplete;
      if (number > 0) allocations += counter.count();
    }
    CHECK(incomplete == 0);
    CHECK(allocations == 0);
    CHECK(fresh > 0);
  }
}

}  // namespace
}  // namespace forebay
