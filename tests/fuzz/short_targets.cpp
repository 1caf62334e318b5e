#include <algorithm>
#include <array>

#include "targets.hpp"

// The fastest of the targets in targets.cpp, for a program without the others.
namespace forebay::fuzz {

std::span<const Target> targets() {
  static constexpr std::array kShort{
      Target{"csv", use_csv, csv_seeds},
      Target{"exif", use_exif, exif_seeds},
      Target{"npy_header", use_npy_header, npy_header_seeds},
      Target{"tf_example", use_tf_example, tf_example_seeds},
      Target{"transform", use_transform, transform_seeds},
  };
  return kShort;
}

const Target* find_target(std::string_view name) {
  const auto found = std::ranges::find(targets(), name, &Target::name);
  return found == targets().end() ? nullptr : &*found;
}

}  // namespace forebay::fuzz
