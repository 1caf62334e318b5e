#include "copies.hpp"

namespace forebay::ring {

// The copy goes to the stream at once; publication waits for its event. Copies of one stream end in
// the order of their start, which is why first_ and last_ of a queue are all there is to know.
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
