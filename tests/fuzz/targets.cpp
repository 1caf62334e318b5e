#include "targets.hpp"

#include <algorithm>
#include <array>

namespace forebay::fuzz {

std::span<const Target> targets() {
  static constexpr std::array kAll{
      Target{"config", use_config, config_seeds},
      Target{"state", use_state, state_seeds},
      Target{"recording", use_recording, recording_seeds},
      Target{"trace", use_trace, trace_seeds},
      Target{"csv", use_csv, csv_seeds},
      Target{"exif", use_exif, exif_seeds},
      Target{"npy_header", use_npy_header, npy_header_seeds},
      Target{"tf_example", use_tf_example, tf_example_seeds},
      Target{"tfrecord", use_container<0>, container_seeds<0>},
      Target{"webdataset", use_container<1>, container_seeds<1>},
      Target{"recordio", use_container<2>, container_seeds<2>},
      Target{"lmdb", use_container<3>, container_seeds<3>},
      Target{"cifar", use_container<4>, container_seeds<4>},
      Target{"idx", use_container<5>, container_seeds<5>},
      Target{"npy", use_container<6>, container_seeds<6>},
      Target{"npz", use_npz, npz_seeds},
      Target{"table", use_table, table_seeds},
      Target{"coco", use_coco, coco_seeds},
      Target{"voc", use_voc, voc_seeds},
      Target{"yolo", use_yolo, yolo_seeds},
      Target{"data_yaml", use_data_yaml, data_yaml_seeds},
      Target{"index", use_index, index_seeds},
      Target{"pack", use_pack, pack_seeds},
      Target{"png", use_png, png_seeds},
      Target{"webp", use_webp, webp_seeds},
      Target{"tiff", use_tiff, tiff_seeds},
      Target{"npy_image", use_npy_image, npy_image_seeds},
      Target{"bmp", use_bmp, bmp_seeds},
      Target{"pnm", use_pnm, pnm_seeds},
      Target{"jpeg", use_jpeg, jpeg_seeds},
      Target{"packed", use_packed, packed_seeds},
      Target{"ranks", use_ranks, ranks_seeds},
      Target{"announcement", use_announcement, announcement_seeds},
      Target{"telemetry", use_telemetry, telemetry_seeds},
      Target{"c_interface", use_c_interface, c_interface_seeds},
      Target{"cache_entry", use_cache_entry, cache_entry_seeds},
      Target{"url", use_url, url_seeds},
      Target{"list_page", use_list_page, list_page_seeds},
      Target{"video", use_video, video_seeds},
      Target{"clip", use_clip, clip_seeds},
      Target{"transform", use_transform, transform_seeds},
  };
  return kAll;
}

const Target* find_target(std::string_view name) {
  const auto found = std::ranges::find(targets(), name, &Target::name);
  return found == targets().end() ? nullptr : &*found;
}

}  // namespace forebay::fuzz
