#include "staging.hpp"

namespace forebay::ring {

Staging::Staging(device::Device& device, std::size_t batch_bytes, std::uint32_t batches)
    : device_(device),
      batch_bytes_(batch_bytes),
      arena_(device.allocate_staging(batch_bytes * batches)),
      base_(arena_->bytes().data()) {
  for (std::uint32_t i = 0; i < batches; ++i) copied_.push_back(device.make_event());
}

void Staging::copy(std::uint64_t turn, std::byte* to, StreamUses& uses, StreamView stream) {
  uses.put_after(stream);  // S3
  device_.copy_in(to, place(turn), batch_bytes_, stream);
}

}  // namespace forebay::ring
