#pragma once

#include <cstdint>
#include <string>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>

#include <nlohmann/json.hpp>

namespace forebay::cli {

// The result of `forebay index --decode-index`.
struct DecodePoints {
  std::uint64_t images = 0;       // JPEG files or records, including fields of kind "image"
  std::uint64_t image_bytes = 0;  // of them
  std::uint64_t known = 0;        // how many of them can be decoded from the middle
  std::uint64_t unreadable = 0;   // files that could not be read or decoded
  std::uint64_t bytes = 0;        // of the decode index, if it was written
  bool is_kept = false;           // an existing index was kept, because the new one would be empty
};

// Reads all images of a dataset and writes their decode index. The file is the same for any number
// of threads and on any machine. Throws Error naming the file, or the sample that the store fails
// to deliver; then nothing is replaced.
[[nodiscard]] DecodePoints save_decode_points(const Dataset& dataset, const TransformOptions& transform,
                                              const std::string& file, const IndexProgress& progress);

// For people.
[[nodiscard]] std::string to_text(const DecodePoints& points, const std::string& file);
// For programs.
[[nodiscard]] nlohmann::ordered_json to_json(const DecodePoints& points, const std::string& file);

}  // namespace forebay::cli
