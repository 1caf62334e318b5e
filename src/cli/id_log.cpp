#include "id_log.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <forebay/error.hpp>

#include "measure/run_files.hpp"

namespace forebay {

std::uint64_t batch_hash(const Lease& batch) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  const TensorView images = batch.images();
  if (images.device == DeviceKind::host) {
    XXH3_64bits_update(&state, images.data, images.bytes());
  } else {
    std::vector<std::byte> copy(images.bytes());
    batch.copy_to_host(copy);
    XXH3_64bits_update(&state, copy.data(), copy.size());
  }
  XXH3_64bits_update(&state, batch.labels().data(), batch.labels().size_bytes());
  return XXH3_64bits_digest(&state);
}

IdLog::IdLog(const std::filesystem::path& dir, std::uint32_t rank, bool resumes)
    : file_(dir / ("ids." + std::to_string(rank) + ".jsonl")) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (resumes) end_last_line(file_);
  out_.open(file_, resumes ? std::ios::app : std::ios::trunc);
  if (!out_) throw ConfigError("--log-ids: cannot write " + file_.string() + ": " + std::strerror(errno));
}

void IdLog::write(const Lease& batch) {
  out_ << fmt::format(R"({{"step":{},"epoch":{},"use_index":{},"batch":{},"ids":[{}],"hash":"{:016x}"}})"
                      "\n",
                      batch.step(), batch.epoch(), batch.use_index(), batch.batch(), fmt::join(batch.ids(), ","),
                      batch_hash(batch));
  out_.flush();
  if (!out_) throw Error("--log-ids: cannot write " + file_.string() + ": " + std::strerror(errno));
}

}  // namespace forebay
