// One piece of work, repeated, with its instructions counted by callgrind: count_instructions CASE DATA.
// Prints how many units of work were counted. Runs without valgrind too, and then counts nothing.

#include <valgrind/callgrind.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/feeder.hpp>
#include <forebay/order.hpp>
#include <forebay/policy.hpp>

#include "data/memory_target.hpp"
#include "make/sample_maker.hpp"
#include "memory_dataset.hpp"
#include "read/byte_budget.hpp"
#include "read/queues.hpp"

namespace {

using namespace forebay;
using namespace forebay::make;
using namespace forebay::read;

// Work that comes in units, and how many one call does.
using Work = std::function<int()>;

struct Encoded {
  std::unique_ptr<Dataset> dataset;
  std::vector<std::vector<std::byte>> files;  // by sample

  explicit Encoded(const std::string& path) {
    DatasetOptions options;
    options.path = path;
    dataset = build_dataset(options);
    for (std::uint64_t id = 0; id < dataset->size(); ++id) {
      data::MemoryTarget target;
      dataset->read(id, target);
      files.push_back(std::move(target.bytes));
    }
  }
};

std::shared_ptr<SampleMaker> maker_of(const TransformOptions& options) {
  const OperationChain operations(OperationRegistry::builtin(), options, false);
  return std::make_shared<SampleMaker>(options, 17, false, operations);
}

// Every sample of a dataset once, from bytes in memory to its place.
Work samples(const std::string& path, const TransformOptions& options) {
  auto encoded = std::make_shared<Encoded>(path);
  auto maker = maker_of(options);
  auto workspace = std::make_shared<SampleMaker::Workspace>();
  auto out = std::make_shared<std::vector<std::byte>>(maker->sample_bytes());
  return [=] {
    for (std::uint64_t id = 0; id < encoded->files.size(); ++id) {
      maker->make(encoded->files[id], encoded->dataset->sample(id), 0, id, std::span(*out), *workspace);
    }
    return static_cast<int>(encoded->files.size());
  };
}

// The objects of each image with one decode.
Work objects(const std::string& path, const TransformOptions& options) {
  auto encoded = std::make_shared<Encoded>(path);
  auto maker = maker_of(options);
  auto workspace = std::make_shared<SampleMaker::Workspace>();
  auto out = std::make_shared<std::vector<std::byte>>(maker->sample_bytes());
  return [=] {
    const Dataset& dataset = *encoded->dataset;
    std::vector<SampleMaker::Member> members;
    for (std::uint64_t id = 0; id < dataset.size(); ++id) {
      members.push_back({.sample = dataset.sample(id), .epoch = 0, .position = id, .out = std::span(*out)});
      if (id + 1 < dataset.size() && dataset.source(id + 1) == dataset.source(id)) continue;
      if (!maker->make_together(encoded->files[id], members, *workspace)) throw std::runtime_error("an object is bad");
      members.clear();
    }
    return static_cast<int>(dataset.size());
  };
}

// What a sample costs on its way from the issuer to a decoder, in one thread.
Work hand_over() {
  struct Stages {
    Order order{{.samples = 1'000'000, .batch_size = 64, .seed = 17}};
    ReadQueue requests;
    ByteBudget budget{256 << 20};
    EncodedQueue encoded{16};
    std::vector<ReadRequest> batch = std::vector<ReadRequest>(64);
    std::vector<EncodedSample> samples = std::vector<EncodedSample>(16);
    std::uint64_t position = 0;
    std::uint64_t turn = 0;
  };
  auto stages = std::make_shared<Stages>();
  return [stages] {
    Stages& s = *stages;
    constexpr int kBatches = 20;
    for (int i = 0; i < kBatches; ++i) {
      for (ReadRequest& request : s.batch) {
        request.order = s.position;
        request.position = s.position++;
        request.sample = s.order.sample(0, request.position);
        request.turn = s.turn;
      }
      s.encoded.begin_turn(s.turn++);
      s.requests.push(s.batch);
      for (std::size_t done = 0; done < s.batch.size();) {
        std::array<ReadRequest, 16> taken;
        const std::size_t count = s.requests.take(taken);
        for (std::size_t k = 0; k < count; ++k) {
          s.samples[k] = {.request = taken[k], .bytes = s.budget.take(taken[k].order, 2000)};
        }
        s.encoded.push(std::span(s.samples).first(count));
        std::array<EncodedSample, 16> received;
        for (std::size_t got = 0; got < count;) {
          const std::size_t more = s.encoded.take(received);
          for (std::size_t k = 0; k < more; ++k) s.budget.give_back(std::move(received[k].bytes));
          got += more;
        }
        done += count;
      }
    }
    return kBatches * 64;
  };
}

Work policy(const std::string& name) {
  std::shared_ptr<Policy> made = PolicyRegistry::builtin().make({.name = name});
  return [made] {
    constexpr int kSteps = 1000;
    for (int step = 0; step < kSteps; ++step) {
      Signals signals;
      signals.capacity = 16;
      signals.step = static_cast<std::uint64_t>(step);
      signals.depth = static_cast<std::uint32_t>(step % 17);
      signals.uses = 1;
      signals.produced = signals.step;
      signals.now_s = 0.01 * step;
      const Decision decision = made->decide(signals);
      made->served(decision == Decision::wait ? Decision::reuse : decision, signals);
    }
    return kSteps;
  };
}

// Steps of a single rank that serve a resident batch again: next() and the end of the lease.
Work reuses() {
  Options options = testing::memory_options(4);
  options.queue.capacity = 16;
  options.policy.name = "interval";
  options.policy.interval = INT32_MAX;
  options.run.steps = INT32_MAX;
  Parts parts;
  parts.dataset = std::make_shared<testing::MemoryDataset>(4096);
  const auto feeder = std::make_shared<Feeder>(options, std::move(parts));
  return [feeder] {
    constexpr int kSteps = 2000;
    for (int step = 0; step < kSteps; ++step) (void)feeder->next();
    return kSteps;
  };
}

Work work_of(const std::string& name, const std::string& data) {
  TransformOptions small;
  small.size = {32, 32};
  TransformOptions bytes;
  bytes.dtype = DType::uint8;
  bytes.layout = Layout::nhwc;
  TransformOptions operated;
  operated.operations = {"colour", "erase"};
  TransformOptions full;
  full.decode = Decode::full;
  const std::map<std::string, std::function<Work()>> cases{
      {"photograph", [&] { return samples(data + "/photographs", {}); }},
      {"photograph_full_decode", [&] { return samples(data + "/photographs", full); }},
      {"photograph_uint8_nhwc", [&] { return samples(data + "/photographs", bytes); }},
      {"photograph_operations", [&] { return samples(data + "/photographs", operated); }},
      {"small_image", [&] { return samples(data + "/small", small); }},
      {"object_alone", [&] { return samples(data + "/objects", small); }},
      {"object_with_others", [&] { return objects(data + "/objects", small); }},
      {"hand_over", [] { return hand_over(); }},
      {"reuse", [] { return reuses(); }},
      {"policy_adaptive", [] { return policy("adaptive"); }},
  };
  return cases.at(name)();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: count_instructions CASE DATA\n", stderr);
    return 2;
  }
  try {
    const Work work = work_of(argv[1], argv[2]);
    work();  // what is allocated once, and code that is bound at its first call
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_TOGGLE_COLLECT;  // for this thread alone
    const int units = work();
    CALLGRIND_STOP_INSTRUMENTATION;
    std::printf("%d\n", units);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "count_instructions: %s: %s\n", argv[1], error.what());
    return 1;
  }
}
