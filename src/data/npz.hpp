#pragma once

#include <forebay/dataset.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "npy.hpp"
#include "zip_file.hpp"

// Arrays in .npz archives. A path of a sample or a field may name one: "depth/a.npz:depth" is the array "depth" (the
// member "depth.npy") of the archive "depth/a.npz", and "a.npz:" the only one in it. Any thread may call.
namespace forebay::data {

struct ArrayPlace {
  std::string archive;
  std::string array;  // "": the only one
};
// Nothing if the path names a file.
[[nodiscard]] std::optional<ArrayPlace> array_place(std::string_view path);

// The member that holds this array. Throws SampleError listing the existing arrays.
[[nodiscard]] const ZipMember& find_array(const ZipFile& archive, std::string_view array);

// Reads the array of an archive into the target, as an npy file. Throws SampleError.
void read_array(const OpenFile& file, std::string_view array, ReadTarget& target);

// problem_of_file() for paths that may name an array.
[[nodiscard]] std::string problem_of_source(const std::string& path);

}  // namespace forebay::data
