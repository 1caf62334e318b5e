#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace forebay {

// The main() of both programs: EXECUTIONS [SEED]. `fuzz(executions, seed)` says how many were wrong.
template <typename Fuzz>
int fuzz_main(int argc, char** argv, const char* name, Fuzz&& fuzz) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s EXECUTIONS [SEED]\n", name);
    return 2;
  }
  try {
    const std::uint64_t executions = std::strtoull(argv[1], nullptr, 10);
    const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
    std::printf("seed %llu, %llu executions: ", static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(executions));
    return fuzz(executions, seed) == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace forebay
