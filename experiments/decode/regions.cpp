#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

#include "jpeg/pixel_kernels.hpp"
#include "jpeg_parts.hpp"
#include "make/image_decoder.hpp"
#include "make/packed_file.hpp"
#include "pack/jpeg_packer.hpp"
#include "pack/pack_kernels.hpp"

// Random regions of JPEG files, decoded by libjpeg-turbo, by Forebay, and of the files as they are packed: every pixel
// is compared.
namespace {

using namespace forebay;
using Bytes = std::vector<std::byte>;

Bytes load(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(file)), {});
  const auto bytes = std::as_bytes(std::span(content));
  return {bytes.begin(), bytes.end()};
}

struct File {
  Bytes bytes;
  Bytes packed;
};

struct Files {
  PackTables tables;
  std::vector<File> files;
  std::size_t left_out = 0;  // what is no plain JPEG file
};

Files load_all(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  PackTraining training;
  for (const auto& path : paths) (void)training.add(load(path));
  Files files{training.finish(), {}};
  JpegPacker packer(files.tables);
  for (const auto& path : paths) {
    Bytes bytes = load(path);
    if (auto packed = packer.pack(bytes)) {
      files.files.push_back({std::move(bytes), *std::move(packed)});
    } else {
      ++files.left_out;
    }
  }
  if (files.files.empty()) throw std::runtime_error("no plain JPEG files below " + folder.string());
  return files;
}

int compare(const std::filesystem::path& folder, std::uint64_t regions) {
  const Files files = load_all(folder);
  TableCache tables([&](std::uint32_t) { return files.tables.to_bytes(); });
  const PixelKernels* const kernels = trusted_pixel_kernels();
  ImageDecoder turbo;
  ImageDecoder own(kernels);
  ImageDecoder packed(kernels, nullptr, &tables);
  Image expected;
  Image found;
  Random random(1);
  std::uint64_t differ_own = 0;
  std::uint64_t differ_packed = 0;
  for (std::uint64_t i = 0; i < regions; ++i) {
    const File& file = files.files[i % files.files.size()];
    const ImageOptions options{.exif = random.below(4) != 0, .grey = random.below(8) == 0};
    const ImageSize size = turbo.open(file.bytes, options);
    const Box region =
        random.below(50) == 0 ? Box{0, 0, size.width, size.height} : testing::random_region(random, size);
    turbo.decode(region, 1, expected);
    (void)own.open(file.bytes, options);
    own.decode(region, 1, found);
    if (!testing::same_region(found, expected, region)) ++differ_own;
    (void)packed.open(file.packed, options);
    packed.decode(region, 1, found);
    if (!testing::same_region(found, expected, region)) ++differ_packed;
  }
  std::printf(
      "%llu regions of %zu files (%zu others left out), coefficients by %s, pixels by %s: "
      "%llu differ as files, %llu packed\n",
      static_cast<unsigned long long>(regions), files.files.size(), files.left_out,
      supported_pack_kernels().front().name, kernels == nullptr ? "libjpeg-turbo" : kernels->name,
      static_cast<unsigned long long>(differ_own), static_cast<unsigned long long>(differ_packed));
  return differ_own + differ_packed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: compare_regions FOLDER [REGIONS]   (a folder of JPEG files; 100000 regions)\n");
    return 2;
  }
  try {
    return compare(argv[1], argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 100'000);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "compare_regions: %s\n", error.what());
    return 1;
  }
}
