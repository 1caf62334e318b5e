#include "quick_reader.hpp"

#include <sys/resource.h>
#include <algorithm>
#include <utility>

namespace forebay::read {
namespace {

// The number of blocks that the system has read from disks for the calling thread. Constant where
// the system does not count them.
long blocks_read() noexcept {
  rusage usage{};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_inblock : 0;
}

}  // namespace

QuickReader::QuickReader(const ReaderLinks& links, WorkerStatus& status)
    : links_(links), status_(status), reader_(links_, {}, never_, workload_, nullptr, status) {}

// The thread's count of blocks shows whether a disk was read. That costs two system calls for a
// group of samples, and none per sample.
std::size_t QuickReader::read(std::span<EncodedSample> samples) {
  if (std::ranges::all_of(samples, &EncodedSample::is_read)) return samples.size();
  const long before = blocks_read();
  std::size_t here = 0;
  std::size_t reads = 0;
  for (EncodedSample& sample : samples) {
    if (!sample.is_read) {
      if (!read_one(sample)) continue;
      ++reads;
    }
    if (&sample != &samples[here]) samples[here] = std::move(sample);
    ++here;
  }
  reader_.end_reads();
  links_.pace->add_group(reads, blocks_read() != before, status_.last_set_ns());
  return here;
}

// Whatever does not succeed at once goes to the readers, ahead of other requests, because its slot
// has been claimed for longer than theirs.
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

}  // namespace forebay::read
