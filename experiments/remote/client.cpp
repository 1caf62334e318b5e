// What a store's client takes of a core: ranges of 8 MiB and whole small objects, one at a time, and signatures.
// bench_remote_client LARGE_URL SMALL_URL: an object of 64 MiB or more, and one of 110 kB, read again and again. Prints
// JSON.
#include <sys/resource.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <span>
#include <vector>

#include "store/objects.hpp"
#include "store/signature.hpp"

namespace {

double processor_s() {
  ::rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const ::timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// Processor time of one call, after a few that make connections.
template <typename Call>
double cost_s(unsigned times, const Call& call) {
  for (unsigned i = 0; i < 3; ++i) call();
  const double begun = processor_s();
  for (unsigned i = 0; i < times; ++i) call();
  return (processor_s() - begun) / times;
}

void measure(const char* large, const char* small) {
  constexpr std::size_t kRange = std::size_t{8} << 20U;
  const forebay::OpenFile file = forebay::store::open_object(large);
  std::vector<std::byte> memory(kRange);
  const std::span<std::byte> piece(memory);
  std::minstd_rand random(17);
  std::uniform_int_distribution<std::size_t> places(0, file.size - kRange);
  const double range = cost_s(128, [&] { file.remote->read(places(random), std::span(&piece, 1)); });

  std::size_t bytes = 0;
  const double object = cost_s(4000, [&] {
    (void)forebay::store::read_object(small, [&](std::size_t size) {
      bytes = size;
      return piece.first(size);
    });
  });

  forebay::store::Signer signer;
  forebay::store::Keys keys;
  keys.id = "AKIDEXAMPLE";
  keys.secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
  std::size_t signed_headers = 0;
  const double signature = cost_s(100'000, [&] {
    signed_headers += signer
                          .headers(keys, "us-east-1", "127.0.0.1:9000", "/photos/circle/00000001.jpg", "",
                                   std::chrono::system_clock::now())
                          .size();
  });
  std::printf("{\"core_s_per_GB\": %.3f, \"us_per_object\": %.1f, \"object_bytes\": %zu, \"us_per_signature\": %.2f}\n",
              range / kRange * 1e9, object * 1e6, bytes, signed_headers > 0 ? signature * 1e6 : 0.0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("bench_remote_client LARGE_URL SMALL_URL\n", stderr);
    return 2;
  }
  try {
    measure(argv[1], argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_remote_client: %s\n", error.what());
    return 1;
  }
}
