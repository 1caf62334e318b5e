// Fields of a program's own dataset arrive with their samples, fresh exactly once, whatever number of ranks, in both
// modes, under reuse, and across a resumed run.
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/feeder.hpp>

#include "field_dataset.hpp"
#include "mpi_world.hpp"

using namespace forebay;
using namespace forebay::testing;

namespace {

constexpr std::uint64_t kSamples = 96;

// How often each sample was served fresh on this rank; checks every batch.
std::map<std::uint64_t, int> served(Feeder& feeder) {
  std::map<std::uint64_t, int> times;
  while (auto batch = feeder.next()) {
    CHECK(are_right(*batch));
    if (!batch->is_fresh()) continue;
    for (const std::uint64_t id : batch->ids()) ++times[id];
  }
  return times;
}

// Over all ranks.
std::map<std::uint64_t, int> of_all(const std::map<std::uint64_t, int>& mine) {
  std::string text;
  for (const auto& [id, times] : mine) text += std::to_string(id) + "=" + std::to_string(times) + ";";
  std::map<std::uint64_t, int> all;
  const auto communicator = world().duplicate();
  for (const std::string& part : communicator->all_gather(text)) {
    for (std::size_t at = 0; at < part.size();) {
      const std::size_t equals = part.find('=', at);
      const std::size_t end = part.find(';', at);
      all[std::stoull(part.substr(at, equals - at))] += std::stoi(part.substr(equals + 1, end - equals - 1));
      at = end + 1;
    }
  }
  communicator->close(30);
  return all;
}

}  // namespace

TEST_CASE("every sample comes once with its own fields") {
  Options options = memory_options(4);
  options.policy.name = "adaptive";
  SUBCASE("assembled as tensors") {}
  SUBCASE("kept as canvases") { options.transform.when = When::dequeue; }
  SUBCASE("with one thread of each kind and room for little") {
    options.workers.io = options.workers.decode = 1;
    options.workers.bytes = 1;
  }
  Feeder feeder(options, world(), Parts{.dataset = std::make_shared<FieldDataset>(kSamples)});
  const auto times = of_all(served(feeder));
  CHECK(times.size() == kSamples);
  for (const auto& [id, count] : times) {
    CAPTURE(id);
    CHECK(count == 1);
  }
  feeder.close();
}

TEST_CASE("a sample with a bad field is replaced by one whose fields are its own") {
  auto dataset = std::make_shared<FieldDataset>(kSamples);
  dataset->replace_field = [](std::uint64_t id, const Field& field, FieldDataset::Bytes& bytes) {
    if (field.name != "age" || id % 10 != 3) return false;
    FieldDataset::add(bytes, std::numeric_limits<double>::quiet_NaN());
    return true;
  };
  Feeder feeder(memory_options(4), world(), Parts{.dataset = dataset});
  const auto times = of_all(served(feeder));
  for (const auto& [id, count] : times) CHECK(id % 10 != 3);
  feeder.close();
}
