#pragma once

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The ways in which outside bytes get into Forebay, each with a function that a fuzzer calls.
// scripts/fuzz runs them for a while; the test `fuzz_corpus` runs the inputs that were worth
// keeping.
namespace forebay::fuzz {

struct Target {
  std::string_view name;
  // Uses the bytes as what the target's name says. Returns whether they were accepted. They may be
  // refused only with the documented errors; any other exception is a finding, and so is anything
  // that a sanitizer reports.
  bool (*use)(std::string_view input);
  // Inputs that are accepted, for the fuzzer to start from.
  std::vector<std::string> (*seeds)();
};

[[nodiscard]] std::span<const Target> targets();
// Null if no target has this name.
[[nodiscard]] const Target* find_target(std::string_view name);

// The most pixels that an image may have to be decoded: 100,000, or FOREBAY_FUZZ_PIXELS, where the
// fuzzer limits the memory instead.
[[nodiscard]] std::int64_t most_pixels();

// text_targets.cpp
bool use_config(std::string_view input);
std::vector<std::string> config_seeds();
bool use_state(std::string_view input);
std::vector<std::string> state_seeds();
bool use_recording(std::string_view input);
std::vector<std::string> recording_seeds();
bool use_trace(std::string_view input);
std::vector<std::string> trace_seeds();

// byte_targets.cpp
bool use_csv(std::string_view input);
std::vector<std::string> csv_seeds();
bool use_exif(std::string_view input);
std::vector<std::string> exif_seeds();
bool use_npy_header(std::string_view input);
std::vector<std::string> npy_header_seeds();

// example_targets.cpp
bool use_tf_example(std::string_view input);
std::vector<std::string> tf_example_seeds();

// dataset_targets.cpp
template <int kContainer>
bool use_container(std::string_view input);
template <int kContainer>
std::vector<std::string> container_seeds();
inline constexpr int kContainers = 7;
bool use_npz(std::string_view input);
std::vector<std::string> npz_seeds();
bool use_table(std::string_view input);
std::vector<std::string> table_seeds();
bool use_coco(std::string_view input);
std::vector<std::string> coco_seeds();
bool use_voc(std::string_view input);
std::vector<std::string> voc_seeds();
bool use_yolo(std::string_view input);
std::vector<std::string> yolo_seeds();
bool use_data_yaml(std::string_view input);
std::vector<std::string> data_yaml_seeds();
bool use_index(std::string_view input);
std::vector<std::string> index_seeds();

// jpeg_targets.cpp
bool use_jpeg(std::string_view input);
std::vector<std::string> jpeg_seeds();
bool use_packed(std::string_view input);
std::vector<std::string> packed_seeds();

// pack_targets.cpp
bool use_pack(std::string_view input);
std::vector<std::string> pack_seeds();

// image_targets.cpp; no seeds for formats whose library is missing from this build
bool use_png(std::string_view input);
std::vector<std::string> png_seeds();
bool use_webp(std::string_view input);
std::vector<std::string> webp_seeds();
bool use_tiff(std::string_view input);
std::vector<std::string> tiff_seeds();
bool use_npy_image(std::string_view input);
std::vector<std::string> npy_image_seeds();
bool use_bmp(std::string_view input);
std::vector<std::string> bmp_seeds();
bool use_pnm(std::string_view input);
std::vector<std::string> pnm_seeds();

// rank_targets.cpp
bool use_ranks(std::string_view input);
std::vector<std::string> ranks_seeds();

// announcement_targets.cpp
bool use_announcement(std::string_view input);
std::vector<std::string> announcement_seeds();

// run_targets.cpp
bool use_telemetry(std::string_view input);
std::vector<std::string> telemetry_seeds();

// c_targets.cpp
bool use_c_interface(std::string_view input);
std::vector<std::string> c_interface_seeds();

// store_targets.cpp
bool use_cache_entry(std::string_view input);
std::vector<std::string> cache_entry_seeds();
bool use_url(std::string_view input);
std::vector<std::string> url_seeds();
bool use_list_page(std::string_view input);
std::vector<std::string> list_page_seeds();

// video_targets.cpp; no seeds if videos cannot be made or read
bool use_video(std::string_view input);
std::vector<std::string> video_seeds();
bool use_clip(std::string_view input);
std::vector<std::string> clip_seeds();

// vector_targets.cpp
bool use_transform(std::string_view input);
std::vector<std::string> transform_seeds();

// Reads everything about the first samples. Errors of single samples are allowed.
void look_at(const Dataset& dataset);

// Indexes the path, and uses the dataset, also after it was serialized and restored. Returns false
// if it was refused.
bool use_path(const DatasetOptions& options);

}  // namespace forebay::fuzz
