#pragma once

#include <array>
#include <cstdint>
#include <forebay/dataset.hpp>
#include <memory>
#include <string_view>

// The formats that dataset.format may name, a line for each; the name is also that of the Format, which stands in the
// file that indexes it. `auto` asks them from the last to the first, so that a file made for one purpose is recognised
// before folders and text are.
#define FOREBAY_FORMATS(FORMAT) \
  FORMAT(voc)                   \
  FORMAT(filelist)              \
  FORMAT(folder)                \
  FORMAT(idx)

namespace forebay {

class PathContents;

// A kind of data set: how it is recognised, and how it becomes an index.
struct Format {
  enum class Path : std::uint8_t { folder, file, either };

  std::string_view help;   // what it is; docs/configuration.md says it in the same words
  std::string_view needs;  // what dataset.path must name, for errors: "a folder of class folders"
  Path path = Path::either;
  // Whether `auto` takes the path for this format. Throws ConfigError where it could also be read in another way.
  bool (*detect)(PathContents& contents) = nullptr;
  // Throws ConfigError naming dataset.path, what was found there and what to do when no sample comes out.
  std::unique_ptr<Dataset> (*build)(PathContents& contents) = nullptr;

  // For a format whose index holds what stands in files and is stale once they change: their hash, and what they are.
  // The hash throws ConfigError when one cannot be read.
  std::uint64_t (*hash)(const DatasetOptions& options) = nullptr;
  std::string_view hashed = {};  // "the list"
  // False: the index names files that nobody has looked for yet.
  bool finds_files = true;
};

namespace formats {
#define FOREBAY_DECLARE_FORMAT(NAME) extern const Format NAME;
FOREBAY_FORMATS(FOREBAY_DECLARE_FORMAT)
#undef FOREBAY_DECLARE_FORMAT
}  // namespace formats

struct NamedFormat {
  std::string_view name;
  const Format* format = nullptr;
};

#define FOREBAY_NAMED_FORMAT(NAME) NamedFormat{#NAME, &formats::NAME},
inline constexpr std::array kFormats{FOREBAY_FORMATS(FOREBAY_NAMED_FORMAT)};
#undef FOREBAY_NAMED_FORMAT

// What dataset.format may be, and the same as one text: "auto | voc | ...".
#define FOREBAY_FORMAT_NAME(NAME) , std::string_view(#NAME)
inline constexpr std::array kFormatChoices{std::string_view("auto") FOREBAY_FORMATS(FOREBAY_FORMAT_NAME)};
#undef FOREBAY_FORMAT_NAME
#define FOREBAY_OR_FORMAT(NAME) " | " #NAME
inline constexpr std::string_view kFormatChoicesText = "auto" FOREBAY_FORMATS(FOREBAY_OR_FORMAT);
#undef FOREBAY_OR_FORMAT

// Null when there is none of this name.
[[nodiscard]] const Format* find_format(std::string_view name) noexcept;

}  // namespace forebay
