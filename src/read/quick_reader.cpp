#include "quick_reader.hpp"

#include <utility>

namespace forebay {

QuickReader::QuickReader(const ReaderLinks& links, WorkerStatus& status)
    : links_(links), reader_(links_, {}, never_, workload_, nullptr, status) {}

std::size_t QuickReader::read(std::span<EncodedSample> samples) {
  std::size_t here = 0;
  for (EncodedSample& sample : samples) {
    if (!sample.is_read && !read_one(sample)) continue;
    if (&sample != &samples[here]) samples[here] = std::move(sample);
    ++here;
  }
  reader_.end_reads();
  return here;
}

bool QuickReader::read_one(EncodedSample& sample) {
  if (links_.pace->is_quick()) {
    switch (reader_.read_now(sample)) {
      case Reader::Outcome::read: return true;
      case Reader::Outcome::bad: return false;
      case Reader::Outcome::later: break;
    }
  }
  links_.requests.push_urgent({&sample.request, 1});
  return false;
}

}  // namespace forebay
