#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <cstdint>

#include "nvtx.hpp"

namespace forebay {
namespace {

// Created at the first range, so that a profiler shows Forebay's ranges under their own name.
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

void nvtx_name_thread(const char* name) noexcept { nvtxNameOsThreadA(static_cast<std::uint32_t>(::gettid()), name); }

}  // namespace forebay
