#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/error.hpp>

#include "base/retry.hpp"

namespace forebay::archive {

// The bytes that read(target) reads of a dataset's sample. Throws SampleError.
template <typename Read>
[[nodiscard]] std::vector<std::byte> bytes_by(const StorePatience& patience, const Dataset& dataset, std::uint64_t id,
                                              Read&& read) {
  class Target final : public ReadTarget {
   public:
    std::span<std::byte> reserve(std::size_t size) override {
      bytes.resize(size);
      return bytes;
    }
    std::vector<std::byte> bytes;
  };
  return read_patiently([&] { return dataset.name(id); },
                        [&] {
                          Target target;
                          read(target);
                          return std::move(target.bytes);
                        },
                        patience);
}

// For a store that fails again and again. It says nothing about the data: a dataset must not shrink, nor a packed set
// pass for damaged, because its store had a bad moment.
[[noreturn]] inline void end_for_store(const std::string& name, const SampleError& error) {
  throw Error(name + ": " + error.what() + "; run the command again when the store is well, which resumes");
}

// What read() returns. Throws Error, naming what `name` is, if the store fails again and again; SampleError for what
// is wrong with the data.
template <typename Read>
auto read_from_store(const StorePatience& patience, const std::string& name, Read&& read) {
  try {
    return read_patiently(name, std::forward<Read>(read), patience);
  } catch (const SampleError& error) {
    if (error.is_transient()) end_for_store(name, error);
    throw;
  }
}

}  // namespace forebay::archive
