// A feeder on a GPU that is refused a thread, on the fake runtime: an error, and nothing left on
// the GPU.
#include <forebay/feeder.hpp>

#include "fake_cuda.hpp"
#include "memory_dataset.hpp"
#include "test.hpp"
#include "thread_limit.hpp"

namespace {

using namespace forebay;
using namespace forebay::testing;

}  // namespace

TEST_CASE("a feeder on a GPU that is refused any of its threads throws, and leaves nothing behind") {
  std::thread([] {}).join();
  FakeCuda cuda;
  const std::size_t memory = cuda.memory_left();
  const std::size_t streams = cuda.streams_and_events();
  Options options = memory_options(4);
  options.device = "cuda";
  options.run.epochs = 1;
  SUBCASE("tensors") {}
  SUBCASE("canvases") {
    options.transform.when = When::dequeue;
    options.transform.canvas = {4, 4};
  }
  for (const auto refuses : {ThreadLimit::Refuses::one, ThreadLimit::Refuses::all}) {
    const int threads = refuse_each_thread(
        refuses,
        [&] {
          CHECK(cuda.memory_left() == memory);
          CHECK(cuda.streams_and_events() == streams);
          Feeder feeder(options, Parts{.dataset = std::make_shared<MemoryDataset>(24)});
          int served = 0;
          while (feeder.next()) ++served;
          CHECK(served == 6);
        },
        true);
    // Readers, decoders, issuer; uploader, profiler and clock; and those of individual calls.
    CHECK(threads > 2 + 2 + 1 + 3);
    CHECK(cuda.memory_left() == memory);
    CHECK(cuda.streams_and_events() == streams);
  }
  CHECK(cuda.misuse().empty());
}
