#include <cstring>
#include <string>

#include "codec_files.hpp"

namespace forebay::testing {
namespace {

constexpr int kWidth = 31;
constexpr int kHeight = 17;

enum class Order { rows_columns, channels_last, channels_first };

struct NpyRecipe {
  std::string what;
  Order order = Order::channels_last;
  int channels = 3;
  std::string type = "|u1";
  bool fortran = false;
  int version = 1;
};

std::vector<int> shape_of(const NpyRecipe& recipe) {
  switch (recipe.order) {
    case Order::rows_columns: return {kHeight, kWidth};
    case Order::channels_last: return {kHeight, kWidth, recipe.channels};
    default: return {recipe.channels, kHeight, kWidth};
  }
}

unsigned element_at(const NpyRecipe& recipe, const std::vector<int>& index) {
  const unsigned most = recipe.type.ends_with('2') ? 65535U : recipe.type == "|b1" ? 1U : 255U;
  switch (recipe.order) {
    case Order::rows_columns: return pattern(index[1], index[0], 0, most);
    case Order::channels_last: return pattern(index[1], index[0], index[2], most);
    default: return pattern(index[2], index[1], index[0], most);
  }
}

std::string header_of(const NpyRecipe& recipe) {
  std::string shape;
  for (const int extent : shape_of(recipe)) shape += std::to_string(extent) + ", ";
  std::string text = "{'descr': '" + recipe.type + "', 'fortran_order': " + (recipe.fortran ? "True" : "False") +
                     ", 'shape': (" + shape.substr(0, shape.size() - 2) + "), }\n";
  std::string header = "\x93NUMPY";
  header += static_cast<char>(recipe.version);
  header += '\0';
  for (unsigned i = 0; i < (recipe.version == 1 ? 2U : 4U); ++i)
    header += static_cast<char>(text.size() >> (8 * i) & 0xffU);
  return header + text;
}

CodecFile npy_file(const NpyRecipe& recipe) {
  std::string content = header_of(recipe);
  const std::vector<int> shape = shape_of(recipe);
  std::vector<int> index(shape.size());
  std::size_t count = 1;
  for (const int extent : shape) count *= static_cast<std::size_t>(extent);
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned value = element_at(recipe, index);
    if (recipe.type.ends_with('2')) {
      const char upper = static_cast<char>(value >> 8U);
      const char lower = static_cast<char>(value & 0xffU);
      content += recipe.type.front() == '>' ? upper : lower;
      content += recipe.type.front() == '>' ? lower : upper;
    } else {
      content += static_cast<char>(value);
    }
    for (std::size_t k = 0; k < shape.size(); ++k) {
      const std::size_t at = recipe.fortran ? k : shape.size() - 1 - k;
      if (++index[at] < shape[at]) break;
      index[at] = 0;
    }
  }
  const auto* const first = reinterpret_cast<const std::byte*>(content.data());
  CodecFile file{.what = "npy, " + recipe.what,
                 .bytes = {first, first + content.size()},
                 .width = kWidth,
                 .height = kHeight,
                 .orientation = 1,
                 .rgb = {},
                 .values = {}};
  std::vector<std::uint8_t> values;
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      for (int channel = 0; channel < 3; ++channel) {
        const int given = recipe.channels == 1 ? 0 : channel;
        const bool is_wide = recipe.type.ends_with('2');
        const unsigned value = pattern(x, y, given, is_wide ? 65535 : 255);
        if (is_wide && channel < recipe.channels) file.wide.push_back(static_cast<float>(value));
        file.rgb.push_back(static_cast<std::uint8_t>(is_wide ? value >> 8U : value));
      }
      values.push_back(static_cast<std::uint8_t>(pattern(x, y, 0, 255)));
    }
  }
  if (recipe.channels == 1 && recipe.type.ends_with('1')) file.values = values;
  return file;
}

}  // namespace

std::vector<CodecFile> npy_files() {
  std::vector<CodecFile> files;
  for (const bool fortran : {false, true}) {
    for (const std::string type : {"|u1", "<u2", ">u2"}) {
      const std::string name = type + (fortran ? ", Fortran order" : "");
      files.push_back(npy_file(
          {.what = "H x W, " + name, .order = Order::rows_columns, .channels = 1, .type = type, .fortran = fortran}));
      files.push_back(npy_file({.what = "H x W x 1, " + name, .channels = 1, .type = type, .fortran = fortran}));
      files.push_back(npy_file({.what = "H x W x 3, " + name, .type = type, .fortran = fortran}));
      files.push_back(
          npy_file({.what = "3 x H x W, " + name, .order = Order::channels_first, .type = type, .fortran = fortran}));
      files.push_back(npy_file({.what = "1 x H x W, " + name,
                                .order = Order::channels_first,
                                .channels = 1,
                                .type = type,
                                .fortran = fortran}));
    }
  }
  files.push_back(npy_file({.what = "version 2", .version = 2}));
  files.push_back(npy_file({.what = "version 3", .version = 3}));
  return files;
}

}  // namespace forebay::testing
