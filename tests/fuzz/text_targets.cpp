#include <cstddef>
#include <filesystem>
#include <span>
#include <stdexcept>

#include <forebay/config.hpp>
#include <forebay/error.hpp>

#include "data/npy.hpp"
#include "dataset_support.hpp"
#include "make/exif.hpp"
#include "measure/recording.hpp"
#include "order/job_state.hpp"
#include "state_text.hpp"
#include "states.hpp"
#include "support.hpp"
#include "targets.hpp"

namespace forebay::fuzz {
namespace {

// Never holds what a broken promise holds: whatever catches errors of Forebay's lets it pass.
[[noreturn]] void broken(const std::string& promise) { throw std::logic_error(promise); }

}  // namespace

// A configuration, and overrides after it, each behind a zero byte. What is accepted is written, read and the same.
bool use_config(std::string_view input) {
  const std::size_t end = std::min(input.find('\0'), input.size());
  std::vector<std::string> overrides;
  for (std::size_t at = end; at < input.size() && overrides.size() < 8;) {
    const std::size_t next = std::min(input.find('\0', at + 1), input.size());
    overrides.emplace_back(input.substr(at + 1, next - at - 1));
    at = next;
  }
  std::string written;
  try {
    written = to_toml(parse_options(input.substr(0, end), "input", overrides));
  } catch (const ConfigError&) {
    return false;
  }
  try {
    if (to_toml(parse_options(written, "written")) != written) broken("what to_toml() writes is read differently");
  } catch (const ConfigError& error) {
    broken(std::string("what to_toml() writes is refused: ") + error.what());
  }
  return true;
}

std::vector<std::string> config_seeds() {
  using namespace std::string_literals;
  return {to_toml(Options()),
          "seed = 7\n[dataset]\npath = \"d\"\n[transform]\nsize = [32, 48]\nmean = [0.1, 0.2, 0.3]\n",
          "[dataset]\npath = \"d\"\n\0queue.capacity=\"auto\"\0transform.mirror=0.25"s};
}

// With the checksum that it should have, and its pieces, if they are not compressed, as they should be.
bool use_state(std::string_view input) {
  std::string text(input);
  auto json = nlohmann::ordered_json::parse(input, nullptr, false);
  if (json.is_object()) {
    try {
      if (json.contains("left") && !json["left"].contains("zlib")) json["left"] = testing::packed(json["left"].dump());
      text = testing::sealed(json);
    } catch (const nlohmann::json::exception&) {  // no UTF-8
    }
  }
  JobState state;
  try {
    state = parse_state(text, "input");
  } catch (const ConfigError&) {
    return false;
  }
  if (parse_state(to_text(state), "written") != state) broken("what to_text() writes is another state");
  return true;
}

std::vector<std::string> state_seeds() {
  const std::string text = to_text(testing::small_state());
  auto open = nlohmann::ordered_json::parse(text);
  open["left"] = testing::unpacked(open["left"]);
  return {text, open.dump()};
}

bool use_recording(std::string_view input) {
  static const testing::TemporaryDirectory folder;
  testing::replace_file(folder / "decisions.0.jsonl", input);
  try {
    (void)read_recording(folder / "decisions.0.jsonl");
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

std::vector<std::string> recording_seeds() {
  const std::vector<std::uint64_t> runs{3, 2, 1};
  return {header_line({}) + decisions_line(0, runs),
          header_line({}) + decisions_line(0, runs) + decisions_line(6, runs)};
}

bool use_exif(std::string_view input) {
  const std::span bytes = testing::bytes_of(input);
  for (const int orientation : {exif_orientation(bytes), tiff_orientation(bytes)}) {
    if (orientation < 1 || orientation > 8) broken("an orientation that is none");
  }
  return exif_orientation(bytes) != 1 || tiff_orientation(bytes) != 1;
}

std::vector<std::string> exif_seeds() {
  using namespace std::string_literals;
  const std::string tiff = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"s;
  return {tiff, "Exif\0\0"s + tiff, "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"s};
}

bool use_npy_header(std::string_view input) {
  const std::span bytes = testing::bytes_of(input);
  bool is_accepted = false;
  try {
    const NpyArray array = parse_npy(bytes);
    (void)element_bytes_of(array);
    (void)header_of_entry(array);
    is_accepted = true;
  } catch (const Error&) {
  }
  try {
    std::size_t begin = 0;
    (void)parse_npy_header(bytes, begin);
    if (begin > bytes.size()) broken("an array begins behind its file");
  } catch (const Error&) {
  }
  return is_accepted;
}

std::vector<std::string> npy_header_seeds() {
  const std::string text = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1, 1), }\n";
  return {std::string("\x93NUMPY\1\0", 8) + static_cast<char>(text.size()) + '\0' + text + std::string(8, 'x')};
}

}  // namespace forebay::fuzz
