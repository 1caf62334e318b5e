#pragma once

#include <cstdint>
#include <string>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>

#include <nlohmann/json.hpp>

namespace forebay::cli {

// What `forebay index --decode-index` found.
struct DecodePoints {
  std::uint64_t images = 0;       // JPEG files, or records, fields of kind "image" included
  std::uint64_t image_bytes = 0;  // of them
  std::uint64_t known = 0;        // of them: decoding can begin in the middle
  std::uint64_t unreadable = 0;   // that could not be read, or decoded
  std::uint64_t bytes = 0;        // of the decode index, if it was written
  bool is_kept = false;           // it was there and was not replaced, because an empty one would gain nothing
};

// Reads all images of a dataset, and writes the decode index of them. The same file for any number of threads and on
// any machine. Throws Error naming the file, or a sample that the store keeps failing to give; nothing is replaced
// then.
[[nodiscard]] DecodePoints save_decode_points(const Dataset& dataset, const TransformOptions& transform,
                                              const std::string& file, const IndexProgress& progress);

// For people.
[[nodiscard]] std::string to_text(const DecodePoints& points, const std::string& file);
// For programs.
[[nodiscard]] nlohmann::ordered_json to_json(const DecodePoints& points, const std::string& file);

}  // namespace forebay::cli
