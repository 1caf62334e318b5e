#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"
#include "memory_parts.hpp"
#include "support.hpp"

namespace forebay {
namespace {

using testing::memory_options;
using testing::parts;

constexpr unsigned kLimitS = 60;

// The exit code of a fork that runs `body`; not 0 if that takes too long.
int in_a_fork(const std::function<int()>& body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(kLimitS);
    ::_exit(body());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool is_refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string_view(error.what()).find("fork") != std::string_view::npos;
  }
  return false;
}

TEST_CASE("in a fork every call that could wait for a thread is refused, and the parent's run continues") {
  auto feeder = std::make_unique<Feeder>(memory_options(8), parts(40));
  auto batch = feeder->next();
  REQUIRE(batch);
  CHECK_FALSE(feeder->is_forked());
  const int refused = in_a_fork([&] {
    const std::vector<std::function<void()>> calls{
        [&] { (void)feeder->next(); },
        [&] { (void)feeder->next_epoch(); },
        [&] { (void)feeder->state(); },
        [&] { feeder->save("never-written"); },
        [&] { feeder->finish_saves(); },
        [&] { feeder->restore("never-read"); },
        [&] { (void)feeder->restore_if_present("never-read"); },
        [&] { feeder->restore_state("{}"); },
        [&] { (void)feeder->summary(); },
        [&] { (void)feeder->profile(); },
        [&] { feeder->close(); },
        [&] { feeder->require_own_process(); },
    };
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (!is_refused(calls[i])) return static_cast<int>(i) + 1;
    }
    feeder->request_stop();
    batch->release();
    if (!feeder->is_forked() || feeder->steps() != 1) return 100;
    feeder.reset();  // joins nothing
    return 0;
  });
  CHECK(refused == 0);
  int steps = 1;
  while (feeder->next()) ++steps;
  CHECK(steps == 5);
  CHECK_NOTHROW(feeder->close());
}

TEST_CASE("a fork makes feeders of its own, also out of one that had a feeder before") {
  if (testing::kSanitized) return;  // ThreadSanitizer ends a fork that starts threads
  Feeder feeder(memory_options(8), parts(16));
  REQUIRE(feeder.next());
  const int served = in_a_fork([&] {
    Feeder own(memory_options(8), parts(40));
    int steps = 0;
    while (own.next()) ++steps;
    feeder = std::move(own);  // drops the parent's
    return steps == 5 && !feeder.is_forked() ? in_a_fork([&] { return feeder.is_forked() ? 0 : 2; }) : 1;
  });
  CHECK(served == 0);
  CHECK(feeder.next());
}

}  // namespace
}  // namespace forebay
