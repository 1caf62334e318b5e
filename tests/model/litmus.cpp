// Small programs whose possible outcomes are settled by the C++ standard. Each is a known shape;
// for the names, see "Herding cats" (Alglave, Maranget and Tautschnig, 2014). An outcome is what
// the loads returned, in the order of their threads.
#include <array>
#include <atomic>
#include <memory>

#include "scenario.hpp"

namespace forebay::model {
namespace {

using enum std::memory_order;
using Order = std::memory_order;

struct Shared {
  std::atomic<int> x{0};
  std::atomic<int> y{0};
  std::array<int, 4> seen{};
};

template <typename... Numbers>
std::string text(Numbers... numbers) {
  std::string all;
  ((all += std::to_string(numbers)), ...);
  return all;
}

template <Order kStore, Order kLoad>
void message_passing() {
  const auto s = std::make_unique<Shared>();
  spawn("writer", [&] {
    s->x.store(1, relaxed);
    s->y.store(1, kStore);
  });
  const int flag = s->y.load(kLoad);
  const int data = s->x.load(relaxed);
  join();
  outcome(text(flag, data));
}

void message_passing_by_fences() {
  const auto s = std::make_unique<Shared>();
  spawn("writer", [&] {
    s->x.store(1, relaxed);
    std::atomic_thread_fence(release);
    s->y.store(1, relaxed);
  });
  const int flag = s->y.load(relaxed);
  std::atomic_thread_fence(acquire);
  const int data = s->x.load(relaxed);
  join();
  outcome(text(flag, data));
}

template <Order kStore, Order kLoad>
void store_buffering() {
  const auto s = std::make_unique<Shared>();
  spawn("other", [&] {
    s->y.store(1, kStore);
    s->seen[1] = s->x.load(kLoad);
  });
  s->x.store(1, kStore);
  s->seen[0] = s->y.load(kLoad);
  join();
  outcome(text(s->seen[0], s->seen[1]));
}

void store_buffering_with_fences() {
  const auto s = std::make_unique<Shared>();
  spawn("other", [&] {
    s->y.store(1, relaxed);
    std::atomic_thread_fence(seq_cst);
    s->seen[1] = s->x.load(relaxed);
  });
  s->x.store(1, relaxed);
  std::atomic_thread_fence(seq_cst);
  s->seen[0] = s->y.load(relaxed);
  join();
  outcome(text(s->seen[0], s->seen[1]));
}

template <Order kStore, Order kLoad>
void independent_readers() {
  const auto s = std::make_unique<Shared>();
  spawn("writer of x", [&] { s->x.store(1, kStore); });
  spawn("writer of y", [&] { s->y.store(1, kStore); });
  spawn("reader", [&] {
    s->seen[0] = s->x.load(kLoad);
    s->seen[1] = s->y.load(kLoad);
  });
  s->seen[2] = s->y.load(kLoad);
  s->seen[3] = s->x.load(kLoad);
  join();
  const bool differ = s->seen == std::array{1, 0, 1, 0};
  outcome(differ ? "the readers disagree" : "they agree");
}

template <Order kStore>
void two_writers_each() {
  const auto s = std::make_unique<Shared>();
  spawn("other", [&] {
    s->y.store(1, kStore);
    s->x.store(2, kStore);
  });
  s->x.store(1, kStore);
  s->y.store(2, kStore);
  join();
  outcome(text(s->x.load(relaxed), s->y.load(relaxed)));
}

void coherence() {
  const auto s = std::make_unique<Shared>();
  spawn("writer", [&] {
    s->x.store(1, relaxed);
    s->x.store(2, relaxed);
  });
  const int first = s->x.load(relaxed);
  const int second = s->x.load(relaxed);
  join();
  outcome(text(first, second));
}

void release_sequence() {
  const auto s = std::make_unique<Shared>();
  spawn("writer", [&] {
    s->x.store(1, relaxed);
    s->y.store(1, release);
  });
  spawn("adder", [&] { s->y.fetch_add(2, relaxed); });
  const int flag = s->y.load(acquire);
  const int data = s->x.load(relaxed);
  join();
  outcome(text(flag, data));
}

void counting() {
  const auto s = std::make_unique<Shared>();
  const auto add = [&] { s->x.fetch_add(1, relaxed); };
  spawn("adder", add);
  spawn("adder 2", add);
  add();
  join();
  outcome(text(s->x.load(relaxed)));
}

void load_buffering() {
  const auto s = std::make_unique<Shared>();
  spawn("other", [&] {
    s->seen[1] = s->y.load(relaxed);
    s->x.store(1, relaxed);
  });
  s->seen[0] = s->x.load(relaxed);
  s->y.store(1, relaxed);
  join();
  outcome(text(s->seen[0], s->seen[1]));
}

}  // namespace

std::vector<Litmus> litmus_tests() {
  return {
      {{"MP, relaxed", message_passing<relaxed, relaxed>}, {"00", "01", "10", "11"}},
      {{"MP, only released", message_passing<release, relaxed>}, {"00", "01", "10", "11"}},
      {{"MP, only acquired", message_passing<relaxed, acquire>}, {"00", "01", "10", "11"}},
      {{"MP, released and acquired", message_passing<release, acquire>}, {"00", "01", "11"}},
      {{"MP, by fences", message_passing_by_fences}, {"00", "01", "11"}},
      {{"SB, released and acquired", store_buffering<release, acquire>}, {"00", "01", "10", "11"}},
      {{"SB, seq_cst", store_buffering<seq_cst, seq_cst>}, {"01", "10", "11"}},
      {{"SB, by fences", store_buffering_with_fences}, {"01", "10", "11"}},
      {{"IRIW, released and acquired", independent_readers<release, acquire>}, {"they agree", "the readers disagree"}},
      {{"IRIW, seq_cst", independent_readers<seq_cst, seq_cst>}, {"they agree"}},
      {{"2+2W, relaxed", two_writers_each<relaxed>}, {"11", "12", "21", "22"}},
      {{"2+2W, seq_cst", two_writers_each<seq_cst>}, {"12", "21", "22"}},
      {{"CoRR", coherence}, {"00", "01", "02", "11", "12", "22"}},
      {{"release sequence", release_sequence}, {"00", "01", "11", "20", "21", "31"}},
      {{"atomic additions", counting}, {"3"}},
      // C++ also permits "11", which the explorer does not look for.
      {{"LB, not explored", load_buffering}, {"00", "01", "10"}},
  };
}

}  // namespace forebay::model
