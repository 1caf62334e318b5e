#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/error.hpp>

#include "base/retry.hpp"
#include "data/memory_target.hpp"

namespace forebay::archive {

// The bytes that read(target) reads; transient errors are retried. `id` only names the sample in
// messages. Throws SampleError.
template <typename Read>
[[nodiscard]] std::vector<std::byte> bytes_by(const StorePatience& patience, const Dataset& dataset, std::uint64_t id,
                                              Read&& read) {
  return read_patiently([&] { return dataset.name(id); },
                        [&] {
                          data::MemoryTarget target;
                          read(target);
                          return std::move(target.bytes);
                        },
                        patience);
}

// Ends the command because the store keeps failing. That says nothing about the data: a dataset
// must not shrink, and a packed set must not pass for damaged, because its store had an outage.
[[noreturn]] inline void end_for_store(const std::string& name, const SampleError& error) {
  throw Error(name + ": " + error.what() + "; run the command again when the store is well, which resumes");
}

// Returns what read() returns; transient errors are retried. Throws Error, naming `name`, if the
// store keeps failing; SampleError if the data is bad.
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
