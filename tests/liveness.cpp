// Who is missed, and what is said of it, by ranks that hear each other. Their time is the test's.

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/error.hpp>

#include "eventually.hpp"
#include "fake_job.hpp"
#include "ranks/liveness.hpp"
#include "support.hpp"

namespace forebay {
namespace {

using std::chrono::milliseconds;
using testing::error_of;
using testing::eventually;
using testing::FakeJob;

constexpr double kLimit = 1;
constexpr double kGivenUp = kLimit + 1 + 0.25 * kLimit;  // as Liveness waits

struct Passing {
  void pass(double time_s) {
    for (const auto end = now + std::chrono::duration<double>(time_s); now < end; time.tick(now)) now += kPeriod;
  }

  static constexpr milliseconds kPeriod{10};
  RunningTime::Clock::time_point now;
  RunningTime time{kPeriod, {}};
};

// One rank, which has begun its first step.
struct Present {
  Present(Communicator& communicator, const Passing& passing) : liveness(communicator, {&passing.time, kLimit}) {
    step();
  }
  void step() {
    liveness.begin(steps++);
    liveness.has_posted();
  }
  // Why the rank gives the others up; empty when it goes on waiting.
  std::string wait() {
    return error_of([this] { liveness.wait_for_reports(); });
  }
  // Until it gives them up.
  std::string wait_in_vain() {
    std::string cause;
    CHECK(eventually([&] { return !(cause = wait()).empty(); }));
    return cause;
  }

  Liveness liveness;
  std::uint64_t steps = 0;
};

// What a rank says as it gives up reaches nobody before `wanted` of them have said it.
struct LateWords final : FakeJob::SameRank {
  LateWords(Communicator& rank, std::atomic<int>& given_up, int wanted)
      : SameRank(rank), given_up_(given_up), wanted_(wanted) {}

  void tell(std::string_view text) override {
    SameRank::tell(text);
    if (text.starts_with("gave-up")) {
      ++given_up_;
      CHECK(eventually([this] { return given_up_ == wanted_; }));
    }
  }
  [[nodiscard]] std::optional<Notice> listen() override {
    return is_deaf && given_up_ < wanted_ ? std::nullopt : SameRank::listen();
  }

  bool is_deaf = false;
  std::atomic<int>& given_up_;
  int wanted_;
};

TEST_CASE("ranks that give another one up at the same moment throw one text") {
  FakeJob job(3);
  Passing passing;
  std::atomic<int> given_up{0};
  LateWords first(job.rank(0), given_up, 2);
  LateWords second(job.rank(1), given_up, 2);
  Present a(first, passing);
  Present b(second, passing);
  CHECK(a.wait().empty());
  CHECK(b.wait().empty());
  passing.pass(kGivenUp - 0.2);
  for (int looks = 0; looks < 3; ++looks) {
    CHECK(a.wait().empty());  // both say that they are here
    CHECK(b.wait().empty());
  }
  passing.pass(0.4);
  first.is_deaf = second.is_deaf = true;
  std::vector<std::string> causes(3);
  job.run([&](Communicator& rank) {
    if (rank.rank() < 2) causes[rank.rank()] = (rank.rank() == 0 ? a : b).wait_in_vain();
  });
  CHECK(causes[0].find("rank 0 has waited ") == 0);
  CHECK(causes[0].find(" for rank 2, not heard of since") != std::string::npos);
  CHECK(causes[1] == causes[0]);
  CHECK(a.liveness.cause() == causes[0]);
  CHECK(b.liveness.cause() == causes[0]);
}

// As when a rank falls silent in the middle of a reduction.
TEST_CASE("a rank that was left a step behind is not blamed for the one that both wait for") {
  for (const bool behind_speaks_first : {false, true}) {
    CAPTURE(behind_speaks_first);
    FakeJob job(3);
    Passing passing;
    Present ahead(job.rank(0), passing);
    Present behind(job.rank(1), passing);
    ahead.step();
    CHECK(ahead.wait().empty());
    CHECK(behind.wait().empty());
    passing.pass(kGivenUp - 0.2);
    if (behind_speaks_first) CHECK(behind.wait().empty());
    for (int looks = 0; looks < 3; ++looks) {
      CHECK(ahead.wait().empty());
      CHECK(behind.wait().empty());
    }
    passing.pass(0.4);
    const std::string cause = ahead.wait_in_vain();
    CHECK(cause.find("rank 0 has waited ") == 0);
    CHECK(cause.find(" for rank 2, not heard of since") != std::string::npos);
    CHECK(behind.wait_in_vain() == cause);
  }
}

TEST_CASE("a rank that is busy with what the others wait for is waited for as long as it says so") {
  FakeJob job(2);
  Passing passing;
  Present writer(job.rank(0), passing);
  Present waiter(job.rank(1), passing);
  for (int times = 0; times < 5; ++times) {
    CHECK(waiter.wait().empty());
    passing.pass(kGivenUp - 0.2);
    CHECK(waiter.wait().empty());
    writer.liveness.excuse();
  }
  CHECK(waiter.wait().empty());
  passing.pass(kGivenUp + 0.2);
  CHECK(waiter.wait_in_vain().find(" for rank 0, not heard of since") != std::string::npos);
}

TEST_CASE("a rank that comes back after it was given up throws what the others have thrown") {
  FakeJob job(2);
  Passing passing;
  Present here(job.rank(0), passing);
  Present gone(job.rank(1), passing);
  CHECK(here.wait().empty());
  passing.pass(kGivenUp + 0.2);
  const std::string cause = here.wait_in_vain();
  CHECK(cause.find(" for rank 1, not heard of since") != std::string::npos);
  CHECK(gone.wait_in_vain() == cause);
  CHECK_THROWS_AS(gone.step(), Error);
}

}  // namespace
}  // namespace forebay
