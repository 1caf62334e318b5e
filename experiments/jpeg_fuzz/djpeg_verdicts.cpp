#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <forebay/error.hpp>

#include "jpeg/pixel_kernels.hpp"
#include "jpeg_damage.hpp"
#include "jpeg_plain_files.hpp"
#include "jpeg_support.hpp"
#include "make/jpeg_decoder.hpp"
#include "pack/jpeg_packer.hpp"

extern char** environ;

// JPEG files damaged as files are in the field, and the djpeg that is installed to say which of them are. Whatever it
// reports must be refused, whatever it does not must be decoded: by Forebay's own decoder, by libjpeg-turbo alone, and
// packed, where such a file can be packed at all. FOREBAY_PHOTOS names a folder of photographs that are damaged too.
namespace {

using namespace forebay;
using namespace forebay::jpeg;
using namespace forebay::make;
using namespace forebay::pack;
using forebay::testing::DjpegVerdict;
using forebay::testing::FieldDamage;
using forebay::testing::JpegBytes;

constexpr ImageOptions kOptions{.max_pixels = 8'000'000};
constexpr std::array<const char*, forebay::testing::kFieldDamages> kNames{
    "one bit", "4 KiB overwritten", "4 KiB zeroed", "blocks swapped", "bytes inserted", "bytes deleted", "truncated"};

JpegBytes read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

std::vector<JpegBytes> photographs() {
  std::vector<JpegBytes> files;
  const char* const folder = std::getenv("FOREBAY_PHOTOS");
  if (folder == nullptr) return files;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  for (const auto& path : paths) {
    JpegBytes file = read_file(path);
    const bool is_jpeg = file.size() > 64 && file[0] == std::byte{0xff} && file[1] == std::byte{0xd8};
    if (is_jpeg && testing::djpeg_verdict(file) == DjpegVerdict::whole) files.push_back(std::move(file));
  }
  return files;
}

std::vector<JpegBytes> generated() {
  std::vector<JpegBytes> files = testing::plain_files({{300, 200}, {90, 501}});
  for (int kind = 0; kind < 16; ++kind) {
    testing::Recipe recipe{.width = 320, .height = 240};
    recipe.progressive = kind % 4 == 1;
    recipe.arithmetic = kind % 4 == 2;
    recipe.separate_scans = kind % 4 == 3;
    recipe.optimised = kind / 4 % 2 == 1 && kind % 4 != 2;
    recipe.restart_interval = kind / 8 == 1 ? 9 : 0;
    files.push_back(make_jpeg(recipe));
    if (kind % 4 == 3) continue;
    recipe.input = JCS_CMYK;
    recipe.stored = kind / 8 == 1 ? JCS_YCCK : JCS_CMYK;
    recipe.components = 4;
    files.push_back(make_jpeg(recipe));
  }
  return files;
}

// The exit code of djpeg, which reads the file from its standard input as from any other.
int run_djpeg(const std::string& path) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, path.c_str(), O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string name = "djpeg";
  std::array<char*, 2> arguments{name.data(), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, name.c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failed != 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) == 127) {
    throw std::runtime_error("djpeg does not run; install libjpeg-turbo-progs");
  }
  return WEXITSTATUS(status);
}

struct Counts {
  std::uint64_t whole = 0;
  std::uint64_t odd = 0;
  std::uint64_t damaged = 0;
  std::uint64_t limits = 0;  // refused for what djpeg has no limit for
  std::uint64_t wrong = 0;
};

class Verdicts {
 public:
  Verdicts(std::uint64_t seed, const PixelKernels* kernels) : random_(seed), own_(kernels) {
    const auto plain = testing::plain_files({{300, 200}});
    packer_.emplace(testing::tables_for(plain));
  }
  ~Verdicts() { std::filesystem::remove(scratch_); }
  Verdicts(const Verdicts&) = delete;
  Verdicts& operator=(const Verdicts&) = delete;

  void compare_one(std::uint64_t execution) {
    const std::vector<JpegBytes>& from = !photographs_.empty() && random_.below(4) != 0 ? photographs_ : generated_;
    JpegBytes file = from[random_.below(from.size())];
    const std::size_t kind = execution % kNames.size();
    testing::damage_as(static_cast<FieldDamage>(kind), file, random_);
    Counts& counts = counts_[kind];
    const std::string refused = refusal(own_, file);
    if (refused.find("max_pixels") != std::string::npos || refused.find("components:") != std::string::npos ||
        refused.find("scans") != std::string::npos) {
      ++counts.limits;
      return;
    }
    write(scratch_, file);
    const int code = run_djpeg(scratch_);
    const DjpegVerdict verdict = testing::djpeg_verdict(file);
    const bool is_damaged = verdict == DjpegVerdict::damaged;
    ++(is_damaged ? counts.damaged : verdict == DjpegVerdict::whole ? counts.whole : counts.odd);
    const bool packs = packer_->pack(file).has_value();
    if ((code == 0) == (verdict == DjpegVerdict::whole) && is_damaged == !refused.empty() &&
        refused == refusal(turbo_, file) && !(packs && is_damaged)) {
      return;
    }
    const std::string name = "djpeg_verdicts." + std::to_string(execution) + ".jpg";
    write(name, file);
    ++counts.wrong;
    std::printf("%s (%s): djpeg ends with %d; %s\n", name.c_str(), kNames[kind], code,
                refused.empty() ? "decoded" : refused.c_str());
  }

  [[nodiscard]] std::uint64_t report() const {
    std::printf("%zu generated files, %zu photographs\n", generated_.size(), photographs_.size());
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      const Counts& counts = counts_[i];
      std::printf("%-18s %6llu whole, %4llu odd headers, %6llu damaged, %3llu beyond limits, %llu wrong\n", kNames[i],
                  static_cast<unsigned long long>(counts.whole), static_cast<unsigned long long>(counts.odd),
                  static_cast<unsigned long long>(counts.damaged), static_cast<unsigned long long>(counts.limits),
                  static_cast<unsigned long long>(counts.wrong));
      wrong += counts.wrong;
    }
    return wrong;
  }

 private:
  static void write(const std::string& path, const JpegBytes& file) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  }
  std::string refusal(JpegDecoder& decoder, const JpegBytes& file) {
    try {
      decoder.decode(file, kOptions, image_);
      return {};
    } catch (const SampleError& error) {
      return error.what();
    }
  }

  Random random_;
  JpegDecoder own_;
  JpegDecoder turbo_;
  std::optional<JpegPacker> packer_;
  std::vector<JpegBytes> generated_ = generated();
  std::vector<JpegBytes> photographs_ = photographs();
  std::string scratch_ =
      std::filesystem::temp_directory_path() / ("djpeg_verdicts." + std::to_string(::getpid()) + ".jpg");
  Image image_;
  std::array<Counts, kNames.size()> counts_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: djpeg_verdicts EXECUTIONS [SEED]\n", stderr);
    return 2;
  }
  try {
    const std::uint64_t executions = std::strtoull(argv[1], nullptr, 10);
    const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
    std::printf("seed %llu, %llu executions: ", static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(executions));
    const PixelKernels* const kernels = trusted_pixel_kernels();
    if (kernels == nullptr) throw std::runtime_error("no kernels agree with libjpeg-turbo");
    Verdicts verdicts(seed, kernels);
    for (std::uint64_t i = 0; i < executions; ++i) verdicts.compare_one(i);
    return verdicts.report() == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "djpeg_verdicts: %s\n", error.what());
    return 1;
  }
}
