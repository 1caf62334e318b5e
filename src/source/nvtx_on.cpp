#include "nvtx.hpp"

#include <nvtx3/nvToolsExt.h>

namespace forebay {
namespace {

// Made once, at the first range, so that a profiler shows Forebay's ranges under a name of their own.
nvtxDomainHandle_t domain() noexcept {
  static auto* const made = nvtxDomainCreateA("forebay");
  return made;
}

}  // namespace

void nvtx_begin(const char* name) noexcept {
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &range);
}

void nvtx_end() noexcept { nvtxDomainRangePop(domain()); }

}  // namespace forebay
