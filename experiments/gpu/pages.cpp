#include "pages.hpp"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace forebay::gpu_check {
namespace {

constexpr std::size_t kPages = 16;

std::string words_of(int error) {
  // A driver may map memory that is not made of pages as Linux keeps account of them.
  if (error == EFAULT) return "the driver maps it past Linux's own account of pages";
  return std::strerror(error);
}

}  // namespace

std::string PagePlaces::text() const {
  std::size_t looked_at = 0;
  for (const auto& [node, count] : pages) looked_at += count;
  std::string text;
  for (const auto& [node, count] : pages) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " of " + std::to_string(looked_at) +
            " pages looked at lie on node " + std::to_string(node);
  }
  if (refusal.empty()) return text;
  return text + (text.empty() ? "" : "; ") + "where its pages lie cannot be asked (" + refusal + ")";
}

PagePlaces places_of_pages(std::span<const std::byte> memory) {
  PagePlaces places;
  for (std::size_t i = 0; i < kPages && !memory.empty(); ++i) {
    const std::byte* const byte = &memory[memory.size() / kPages * i];
    int node = -1;
    if (::syscall(SYS_get_mempolicy, &node, nullptr, 0, byte, MPOL_F_NODE | MPOL_F_ADDR) == 0) {
      ++places.pages[node];
    } else {
      places.refusal = words_of(errno);
    }
  }
  return places;
}

}  // namespace forebay::gpu_check
