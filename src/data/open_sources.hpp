#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/file_io.hpp"

namespace forebay {

// Source files of records stay open once they have been read from, so that a record costs one read. At most kMostOpen
// do, so that a data set of many shards leaves descriptors for the rest of the program; others are opened for each
// read. Any thread may call.
class OpenSources {
 public:
  static constexpr std::uint32_t kMostOpen = 256;

  explicit OpenSources(std::uint64_t sources)
      : sources_(sources), files_(std::make_unique<std::atomic<const OpenFile*>[]>(sources)) {}
  ~OpenSources() {
    for (std::uint64_t i = 0; i < sources_; ++i) delete files_[i].load(std::memory_order_relaxed);
  }
  OpenSources(const OpenSources&) = delete;
  OpenSources& operator=(const OpenSources&) = delete;

  // Calls use(file) with the source, which open() opens if it is not open; if that throws, the next call opens it
  // again. REQUIRES: source < sources.
  template <typename Open, typename Use>
  void with(std::uint64_t source, Open&& open, Use&& use) {
    auto& place = files_[source];
    // Acquire and release: the file is complete when the pointer is seen. Two threads may both open it; one is kept.
    if (const OpenFile* file = place.load(std::memory_order_acquire)) return use(*file);
    auto opened = std::make_unique<const OpenFile>(open());
    if (kept_.fetch_add(1, std::memory_order_relaxed) < kMostOpen) {
      const OpenFile* first = nullptr;
      if (place.compare_exchange_strong(first, opened.get(), std::memory_order_acq_rel)) return use(*opened.release());
    }
    kept_.fetch_sub(1, std::memory_order_relaxed);
    use(*opened);
  }

 private:
  std::uint64_t sources_;
  std::unique_ptr<std::atomic<const OpenFile*>[]> files_;  // null until it is open
  std::atomic<std::uint32_t> kept_{0};
};

}  // namespace forebay
