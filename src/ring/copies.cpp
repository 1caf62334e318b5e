#include "copies.hpp"

namespace forebay::ring {

// In the order of the stream: wait until the last users of the slot are done, copy, draw the views
// of the first serving, and mark the end of both. Publication waits for that mark. Copies of one
// stream end in the order of their start, so first_ and last_ of a queue are all there is to know.
void Copies::start(std::uint32_t slot_number) {
  const SlotStore::Slot& slot = store_.slot(slot_number);
  store_.complete_for_device(slot_number);
  store_.staging()->copy(slot.turn, store_.images(slot_number), *slot.stream_uses, stream_);
  store_.draw(slot_number, stream_);
  store_.staging()->mark(slot.turn, stream_);
  turn(last_++) = slot.turn;
}

void Copies::publish_complete() {
  while (!empty() && store_.staging()->is_copied(turn(first_))) ring_.publish(turn(first_++));
}

void Copies::publish_oldest() {
  store_.staging()->wait_copied(turn(first_));
  ring_.publish(turn(first_++));
}

}  // namespace forebay::ring
