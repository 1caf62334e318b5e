#include "read/byte_budget.hpp"
#include "base/poison.hpp"
#include "base/wait.hpp"
#include "test.hpp"

// The limit on bytes in flight: in which order requests are admitted, how buffers are reused and
// grow, and what happens when the budget is closed.
namespace forebay::test_byte_budget {
namespace {

using namespace forebay::read;
using forebay::testing::eventually;

bool takes_stopped(ByteBudget& budget, std::uint64_t order, std::size_t bytes) {
  try {
    static_cast<void>(budget.take(order, bytes));
  } catch (const Stopped&) {
    return true;
  }
  return false;
}

}  // namespace

TEST_CASE("among waiting requests the lowest order goes first") {
  ByteBudget budget(10);
  auto first = budget.take(0, 10);
  std::mutex mutex;
  std::vector<std::uint64_t> granted;
  std::vector<std::jthread> threads;
  for (const std::uint64_t order : {5ULL, 3ULL, 9ULL, 4ULL}) {
    threads.emplace_back([&, order] {
      auto buffer = budget.take(order, 10);
      {
        const std::lock_guard lock(mutex);
        granted.push_back(order);
      }
      budget.give_back(std::move(buffer));
    });
  }
  REQUIRE(eventually([&] { return budget.waiting() == 4; }));
  budget.give_back(std::move(first));
  threads.clear();
  CHECK(granted == std::vector<std::uint64_t>{3, 4, 5, 9});
  CHECK(budget.in_flight() == 0);
}

TEST_CASE("the most in flight stays within the limit, except for a sample that is alone") {
  ByteBudget budget(100);
  std::vector<std::jthread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&budget, thread] {
      for (std::uint64_t i = 0; i < 500; ++i) {
        budget.give_back(budget.take(i * 4 + thread, 1 + (i * 37 + thread * 11) % 100));
      }
    });
  }
  threads.clear();
  CHECK(budget.most_in_flight() > 0);
  CHECK(budget.most_in_flight() <= 100);
  budget.give_back(budget.take(9999, 250));
  CHECK(budget.most_in_flight() == 250);
  CHECK(budget.in_flight() == 0);
}

TEST_CASE("a later request passes while the earlier one has not asked, not while it waits") {
  ByteBudget budget(10);
  auto later = budget.take(7, 8);
  std::atomic<bool> early_granted{false};
  std::atomic<bool> late_was_after_early{false};
  std::jthread early([&] {
    auto buffer = budget.take(1, 10);
    early_granted = true;
    budget.give_back(std::move(buffer));
  });
  REQUIRE(eventually([&] { return budget.waiting() == 1; }));
  std::jthread late([&] {
    auto buffer = budget.take(8, 1);  // would fit, but order 1 is waiting
    late_was_after_early = early_granted.load();
    budget.give_back(std::move(buffer));
  });
  REQUIRE(eventually([&] { return budget.waiting() == 2; }));
  auto earliest = budget.take(0, 2);  // fits, and is needed before all waiting ones
  CHECK(budget.in_flight() == 10);
  budget.give_back(std::move(earliest));
  CHECK_FALSE(early_granted);
  budget.give_back(std::move(later));
  early.join();
  late.join();
  CHECK(early_granted);
  CHECK(late_was_after_early);
}

TEST_CASE("a sample larger than the whole budget is admitted alone") {
  ByteBudget budget(10);
  auto small = budget.take(0, 1);
  std::atomic<bool> admitted{false};
  std::vector<std::byte> large;
  std::jthread thread([&] {
    large = budget.take(1, 1000);
    admitted = true;
  });
  REQUIRE(eventually([&] { return budget.waiting() == 1; }));
  CHECK_FALSE(admitted);
  budget.give_back(std::move(small));
  thread.join();
  CHECK(large.size() == 1000);
  CHECK(budget.in_flight() == 1000);
  std::jthread next([&] { budget.give_back(budget.take(2, 1)); });
  REQUIRE(eventually([&] { return budget.waiting() == 1; }));
  budget.give_back(std::move(large));
  next.join();
  CHECK(budget.in_flight() == 0);
}

TEST_CASE("buffers are reused, but never a large one for a small sample") {
  ByteBudget budget(1 << 20);
  auto buffer = budget.take(0, 5000);
  const std::byte* const address = buffer.data();
  budget.give_back(std::move(buffer));
  auto small = budget.take(1, 100);
  CHECK(small.size() == 100);
  CHECK(small.data() != address);
  auto similar = budget.take(2, 4500);
  CHECK(similar.size() == 4500);
  CHECK(similar.data() == address);
  budget.give_back(std::move(small));
  budget.give_back(std::move(similar));
}

TEST_CASE("what is kept for the next samples and what is in flight are together no more than the limit") {
  constexpr std::size_t kLimit = 1 << 20;
  ByteBudget budget(kLimit);
  const auto held = [&] { return budget.idle() + budget.in_flight(); };
  std::vector<std::vector<std::byte>> buffers;
  for (std::uint64_t order = 0; order < 16; ++order) buffers.push_back(budget.take(order, kLimit / 16));
  for (auto& buffer : buffers) {
    budget.give_back(std::exchange(buffer, {}));
    CHECK(held() <= kLimit);
  }
  CHECK(budget.idle() == kLimit);
  // Of another size, so that no idle buffer can be reused.
  for (std::uint64_t order = 16; order < 19; ++order) {
    buffers[order - 16] = budget.take(order, kLimit / 5);
    CHECK(held() <= kLimit);
  }
  auto large = std::move(buffers[0]);
  budget.grow(16, large, 3 * kLimit);
  CHECK(budget.idle() == 0);
  budget.give_back(std::move(large));
  CHECK(held() <= kLimit);
}

TEST_CASE("a sample that is too large to be kept is freed when it comes back, also beside others") {
  ByteBudget budget(10'000);
  std::array<forebay::read::EncodedSample, 2> samples;
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i].bytes = budget.take(i, 5000);
  budget.grow(0, samples[0].bytes, 50'000);
  budget.give_back(samples);
  CHECK(samples[0].bytes.capacity() == 0);
  CHECK(samples[1].bytes.capacity() == 0);
  CHECK(budget.in_flight() == 0);
  CHECK(budget.idle() <= 10'000);
}

TEST_CASE("running out of memory is an error that takes nothing from the budget") {
  ByteBudget budget(100);
  CHECK_THROWS_AS(static_cast<void>(budget.take(0, std::numeric_limits<std::size_t>::max())), std::length_error);
  CHECK(budget.in_flight() == 0);
}

TEST_CASE("closing stops present and future takers") {
  ByteBudget budget(10);
  auto buffer = budget.take(0, 10);
  std::atomic<int> stopped{0};
  std::vector<std::jthread> threads;
  for (std::uint64_t order = 1; order <= 3; ++order)
    threads.emplace_back([&, order] { stopped += takes_stopped(budget, order, 1) ? 1 : 0; });
  REQUIRE(eventually([&] { return budget.waiting() == 3; }));
  budget.close();
  threads.clear();
  CHECK(stopped == 3);
  CHECK(takes_stopped(budget, 9, 0));
  budget.give_back(std::move(buffer));
  CHECK(budget.in_flight() == 0);
}

TEST_CASE("a buffer grows within the limit without waiting, and keeps what is in it") {
  ByteBudget budget(100'000);
  auto buffer = budget.take(0, 5000);
  std::ranges::fill(buffer, std::byte{7});
  CHECK(budget.try_grow(buffer, 20'000));
  CHECK(buffer.size() == 25'000);
  CHECK(std::all_of(buffer.begin(), buffer.begin() + 5000, [](std::byte b) { return b == std::byte{7}; }));
  CHECK(budget.in_flight() == 25'000);
  CHECK_FALSE(budget.try_grow(buffer, 75'001));
  budget.shrink(buffer, 6000);
  CHECK(buffer.size() == 6000);
  CHECK(budget.in_flight() == 6000);
  budget.give_back(std::move(buffer));
  CHECK(budget.in_flight() == 0);
}

TEST_CASE("one buffer at a time grows past the limit, the earliest first, and taking waits for those that grow") {
  ByteBudget budget(10);
  auto first = budget.take(1, 4);
  auto second = budget.take(2, 4);
  // 2 bytes are left, and both want 4 more. The earlier order may exceed the limit immediately.
  budget.grow(1, first, 4);
  CHECK(budget.in_flight() == 12);
  std::atomic<bool> grew{false};
  std::atomic<bool> took{false};
  std::jthread grower([&] {
    budget.grow(2, second, 4);
    grew = true;
  });
  CHECK(eventually([&] { return budget.waiting() == 1; }));
  std::jthread taker([&] {
    auto buffer = budget.take(0, 1);
    took = true;
    budget.give_back(std::move(buffer));
  });
  CHECK(eventually([&] { return budget.waiting() == 2; }));
  CHECK_FALSE(grew);
  CHECK_FALSE(took);
  // A buffer past the limit may grow further: the others wait until it is returned.
  budget.grow(1, first, 100);
  CHECK(first.size() == 108);
  CHECK_FALSE(grew);
  budget.give_back(std::move(first));
  CHECK(eventually([&] { return grew.load(); }));
  CHECK(eventually([&] { return took.load(); }));
  grower.join();
  taker.join();
  budget.give_back(std::move(second));
  CHECK(budget.in_flight() == 0);
}

TEST_CASE("a sample that was alone because it is larger than the budget can grow") {
  ByteBudget budget(10);
  auto large = budget.take(3, 50);
  budget.grow(3, large, 50);
  CHECK(budget.in_flight() == 100);
  budget.give_back(std::move(large));
  auto next = budget.take(4, 10);
  CHECK_FALSE(budget.try_grow(next, 1));
  budget.grow(4, next, 1);
  budget.give_back(std::move(next));
  CHECK(budget.in_flight() == 0);
}

TEST_CASE("closing stops who waits to grow, whose buffer stays as it was") {
  ByteBudget budget(10);
  auto first = budget.take(0, 5);
  auto second = budget.take(1, 5);
  budget.grow(0, first, 1);
  std::atomic<bool> stopped{false};
  std::jthread grower([&] {
    try {
      budget.grow(1, second, 1);
    } catch (const Stopped&) {
      stopped = true;
    }
  });
  CHECK(eventually([&] { return budget.waiting() == 1; }));
  budget.close();
  CHECK(eventually([&] { return stopped.load(); }));
  grower.join();
  CHECK(second.size() == 5);
  budget.give_back(std::move(first));
  budget.give_back(std::move(second));
  CHECK(budget.in_flight() == 0);
}

TEST_CASE("AddressSanitizer sees what is read behind a buffer, and of one that was given back" *
          doctest::skip(!forebay::kPoisons)) {
  ByteBudget budget(1 << 20);
  const auto ends_at = [](const std::vector<std::byte>& buffer, std::size_t size) {
    return !forebay::is_poisoned(buffer.data() + size - 1) && forebay::is_poisoned(buffer.data() + size);
  };
  auto buffer = budget.take(0, 100);
  CHECK(ends_at(buffer, 100));
  budget.grow(0, buffer, 50);
  CHECK(ends_at(buffer, 150));
  budget.grow(0, buffer, 10'000);
  CHECK(ends_at(buffer, 10'150));
  budget.shrink(buffer, 17);
  CHECK(ends_at(buffer, 17));
  const std::byte* const begin = buffer.data();
  budget.give_back(std::move(buffer));
  CHECK(forebay::is_poisoned(begin));
  auto again = budget.take(1, 9'000);
  CHECK(again.data() == begin);
  CHECK(ends_at(again, 9'000));
  budget.give_back(std::move(again));
}

}  // namespace forebay::test_byte_budget
