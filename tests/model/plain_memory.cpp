#include "plain_memory.hpp"

#include <algorithm>

namespace forebay::model {

PlainMemory::Word& PlainMemory::word(std::uintptr_t address) {
  const std::uintptr_t number = address / kPage;
  if (last_ == nullptr || number != last_number_) {
    grows_ = true;
    std::unique_ptr<Page>& page = pages_[number];
    if (!page) page = std::make_unique<Page>();
    last_ = page.get();
    last_number_ = number;
    grows_ = false;
  }
  last_->execution = execution_;
  Word& found = last_->words[address % kPage / kWord];
  if (found.execution != execution_) {
    found = {};
    found.execution = execution_;
  }
  return found;
}

void PlainMemory::forget(std::uintptr_t begin, std::size_t bytes) noexcept {
  if (grows_) return;
  const std::uintptr_t end = begin + bytes;
  for (std::uintptr_t number = begin / kPage; number * kPage < end; ++number) {
    const auto page = pages_.find(number);
    if (page == pages_.end() || page->second->execution != execution_) continue;
    const std::uintptr_t first = std::max(begin, number * kPage);
    const std::uintptr_t last = std::min(end, (number + 1) * kPage);
    for (std::uintptr_t at = first / kWord * kWord; at < last; at += kWord) {
      page->second->words[at % kPage / kWord].execution = 0;
    }
  }
}

bool PlainMemory::is_race(std::uintptr_t begin, std::size_t bytes, const Access& access, const Knowledge& known,
                          Access& other) {
  for (std::uintptr_t at = begin / kWord * kWord; at < begin + bytes; at += kWord) {
    Word& touched = word(at);
    if (touched.written > known.clock[touched.writer]) {
      other = {.thread = touched.writer, .is_write = true, .code = touched.writer_code};
      return true;
    }
    if (!access.is_write) {
      touched.read[access.thread] = known.clock[access.thread];
      touched.reader_code = access.code;
      continue;
    }
    for (std::size_t reader = 0; reader < kMostThreads; ++reader) {
      if (touched.read[reader] <= known.clock[reader]) continue;
      other = {.thread = reader, .is_write = false, .code = touched.reader_code};
      return true;
    }
    touched.written = known.clock[access.thread];
    touched.writer = static_cast<std::uint32_t>(access.thread);
    touched.writer_code = access.code;
  }
  return false;
}

}  // namespace forebay::model
