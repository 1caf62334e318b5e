// The functions that libFuzzer calls. FOREBAY_FUZZ_TARGET names the target. With
// FOREBAY_FUZZ_SEEDS=FOLDER, the target's seeds are first written to that folder.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "targets.hpp"

namespace {

const forebay::fuzz::Target* target = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* const name = std::getenv("FOREBAY_FUZZ_TARGET");
  target = name == nullptr ? nullptr : forebay::fuzz::find_target(name);
  if (target == nullptr) {
    std::fprintf(stderr, "FOREBAY_FUZZ_TARGET must be one of:");
    for (const auto& one : forebay::fuzz::targets()) std::fprintf(stderr, " %s", std::string(one.name).c_str());
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  if (const char* const folder = std::getenv("FOREBAY_FUZZ_SEEDS")) {
    int number = 0;
    for (const std::string& seed : target->seeds()) {
      std::ofstream(std::filesystem::path(folder) / ("seed" + std::to_string(number++)), std::ios::binary) << seed;
    }
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)target->use({reinterpret_cast<const char*>(data), size});
  return 0;
}
