#include "job.hpp"

namespace forebay {

std::unique_ptr<Job> Job::start(int& /*argc*/, char**& /*argv*/) { return solo_job(); }

}  // namespace forebay
