#include "row.hpp"

namespace forebay::gpu_check {

Row nvjpeg_row(const Setup& /*setup*/) {
  return {.subject = "nvJPEG images/s, engines",
          .found = "",
          .wanted = "not part of Forebay yet",
          .verdict = Verdict::unknown};
}

}  // namespace forebay::gpu_check
