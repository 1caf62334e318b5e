#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"

// Declares what the C++ snippets in docs/recipes.md leave to the surrounding program.
namespace {

using MyDataset = forebay::testing::MemoryDataset;

struct Mpi {
  [[nodiscard]] const forebay::Communicator& world() const { return *world_; }

 private:
  std::unique_ptr<forebay::Communicator> world_ = forebay::solo_communicator();
};

template <typename... Parts>
void train_step(const Parts&... /*parts*/) {}

struct Points {
  void move(const forebay::Box& /*region*/, bool /*is_mirrored*/) const {}
};
[[maybe_unused]] Points my_points(std::uint64_t /*id*/) { return {}; }

}  // namespace

// A snippet may declare these itself, and need not use what it declares.
#define RECIPE_PARAMETERS                                                                     \
  [[maybe_unused]] forebay::Feeder &feeder, [[maybe_unused]] const forebay::Options &options, \
      [[maybe_unused]] std::optional<forebay::Lease>&batch, [[maybe_unused]] const Mpi &mpi
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-variable"
