#include "job.hpp"

namespace forebay {
namespace {

class SoloJob final : public Job {
 public:
  [[nodiscard]] const Communicator& world() const noexcept override { return *world_; }
  void all_reduce(std::size_t /*bytes*/) override {}

 private:
  std::unique_ptr<Communicator> world_ = solo_communicator();
};

}  // namespace

std::unique_ptr<Job> solo_job() { return std::make_unique<SoloJob>(); }

}  // namespace forebay
