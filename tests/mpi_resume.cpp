#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>

#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"
#include "mpi_world.hpp"

namespace forebay::testing {
namespace {

// Ranks that wait for the others at the end of an epoch have nothing resident yet when the job begins in that place.
TEST_CASE("a rank that goes on with nothing left of the epoch serves padding that has samples") {
  const std::uint64_t ranks = world().size();
  for (const MpiMode mode : {MpiMode::local, MpiMode::lockstep}) {
    Options options = memory_options(2);
    options.run.epochs = 2;
    options.mpi.epoch_end = EpochEnd::reuse;
    const auto parts = [&] {
      Parts made;
      made.dataset = std::make_shared<MemoryDataset>(4 * ranks);
      return made;
    };
    // One rank serves all of the epoch but the last batch, which is the last rank's.
    std::string state;
    {
      Feeder alone(options, parts());
      for (std::uint64_t batch = 0; batch + 1 < 2 * ranks; ++batch) CHECK(alone.next()->is_fresh());
      state = alone.state();
    }
    options.mpi.mode = mode;
    Feeder feeder(options, world(), parts());
    feeder.restore_state(state);
    std::uint64_t fresh = 0;
    for (bool is_first = true; auto batch = feeder.next(); is_first = false) {
      CHECK(batch->size() == 2);
      if (is_first) CHECK(batch->is_fresh() == (world().rank() + 1 == ranks));
      if (batch->is_fresh()) ++fresh;
    }
    CHECK(fresh == 2 + (world().rank() + 1 == ranks ? 1 : 0));
    CHECK(feeder.epochs_completed() == 2);
    feeder.close();
  }
}

}  // namespace
}  // namespace forebay::testing
