#include "quick_reader.hpp"

namespace forebay {

QuickReader::QuickReader(const ReaderLinks& links, WorkerStatus& status)
    : links_(links), reader_(links_, {}, never_, workload_, nullptr, status) {}

bool QuickReader::read(EncodedSample& sample) {
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
