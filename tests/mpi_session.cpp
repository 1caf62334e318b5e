#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <sys/wait.h>

#include <forebay/communicator.hpp>
#include <forebay/error.hpp>
#include <forebay/feeder.hpp>
#include <forebay/mpi.hpp>

#include "memory_dataset.hpp"

// What ends a job cannot be tested inside it: this program runs itself under mpirun with a scenario's name and looks
// at the exit code and at what was printed.
namespace {

using forebay::Error;
using forebay::MpiSession;

struct Ended {
  int code = -1;
  std::string output;  // both streams
};

Ended run(const std::string& command) {
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  Ended ended;
  std::array<char, 4096> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) ended.output.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

std::string self() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

Ended run_alone(const std::string& scenario) { return run("timeout 60 " + self() + " scenario " + scenario); }

Ended run_ranks(const std::string& scenario) {
  return run("timeout 60 " FOREBAY_MPIEXEC " -n 2 --oversubscribe --bind-to none --mca btl self,vader " + self() +
             " scenario " + scenario);
}

bool contains(const Ended& ended, std::string_view text) { return ended.output.find(text) != std::string::npos; }

// Rank 1 fails while rank 0 is in a collective call that it would never leave alone.
void fail_on_rank_1(const MpiSession& session, const char* noted) {
  if (session.rank() == 1) {
    if (noted != nullptr) session.world().duplicate()->note_failure(noted);
    throw Error("the trainer's own error");
  }
  if (noted != nullptr) static_cast<void>(session.world().duplicate());
  MPI_Barrier(MPI_COMM_WORLD);
}

int leave_by_exception(int argc, char** argv, const char* noted) {
  try {
    const MpiSession session(argc, argv);
    fail_on_rank_1(session, noted);
  } catch (const std::exception&) {
    std::cout << "reached the handler outside" << std::endl;
  }
  return 3;
}

int handle_inside(int argc, char** argv) {
  const MpiSession session(argc, argv);
  try {
    throw Error("handled");
  } catch (const Error&) {
    MPI_Barrier(MPI_COMM_WORLD);
  }
  return 0;
}

int throw_from_a_thread(int argc, char** argv) {
  const MpiSession session(argc, argv);
  if (session.rank() == 1) std::thread([] { throw Error("a worker's error"); }).join();
  MPI_Barrier(MPI_COMM_WORLD);
  return 3;
}

int initialised_single(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int code = 3;
  try {
    const MpiSession session(argc, argv);
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;
    code = 0;
  }
  MPI_Finalize();
  return code;
}

int initialised_by_trainer(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  { const MpiSession session(argc, argv); }
  MPI_Barrier(MPI_COMM_WORLD);  // still alive
  MPI_Finalize();
  return 0;
}

int outlive_mpi(int argc, char** argv) {
  std::unique_ptr<forebay::Communicator> closed_late;
  std::unique_ptr<forebay::Communicator> destroyed_late;
  std::array<std::int64_t, 1> value{1};
  {
    const MpiSession session(argc, argv);
    closed_late = session.world().duplicate();
    destroyed_late = session.world().duplicate();
    destroyed_late->start_reduction(0, value);
    closed_late->tell("late");
  }
  static_cast<void>(closed_late->close(1));
  return 0;
}

int feeder_outlives_mpi(int argc, char** argv) {
  std::unique_ptr<forebay::Feeder> feeder;
  std::optional<forebay::Feeder> destroyed_late;
  {
    const MpiSession session(argc, argv);
    forebay::Options options = forebay::testing::memory_options(2);
    options.run.steps = 1000;
    forebay::Parts parts;
    parts.dataset = std::make_shared<forebay::testing::MemoryDataset>(4000);
    feeder = std::make_unique<forebay::Feeder>(options, session.world(), parts);
    destroyed_late.emplace(options, session.world(), parts);
    for (int step = 0; step < 5; ++step) {
      if (!feeder->next() || !destroyed_late->next()) return 3;
    }
  }
  for (const auto& call : {std::function<void()>([&] { static_cast<void>(feeder->state()); }),
                           std::function<void()>([&] { static_cast<void>(feeder->next()); })}) {
    try {
      call();
      return 6;
    } catch (const Error& error) {
      if (std::string_view(error.what()).find("MPI was finalised") == std::string_view::npos) return 7;
    }
  }
  feeder->close();
  return 0;
}

// Rank 0 breaks after the sixth step; rank 1 waits for it in its own all-reduce, or does not ask for a step any more.
int break_alone(int argc, char** argv, bool waits_outside) {
  const MpiSession session(argc, argv);
  forebay::Options options = forebay::testing::memory_options(2);
  options.run.steps = 1000;
  options.policy.watchdog_s = 6;
  forebay::Parts parts;
  parts.dataset = std::make_shared<forebay::testing::MemoryDataset>(4000);
  try {
    forebay::Feeder feeder(options, session.world(), parts);
    while (auto batch = feeder.next()) {
      int one = 1;
      const bool is_last = batch->step() == 5;
      if (waits_outside && is_last && session.rank() == 1) std::this_thread::sleep_for(std::chrono::hours(1));
      if (!waits_outside) MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      if (!waits_outside && is_last && session.rank() == 0) break;
    }
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;  // it was told in time
    return 5;
  }
  return 0;
}

// Rank 1 leaves between two epochs, when rank 0 has the first batch of the next and waits for it in its own all-reduce.
int break_between_epochs(int argc, char** argv) {
  const MpiSession session(argc, argv);
  forebay::Options options = forebay::testing::memory_options(2);
  options.run.epochs = 3;
  options.policy.watchdog_s = 6;
  forebay::Parts parts;
  parts.dataset = std::make_shared<forebay::testing::MemoryDataset>(40);
  forebay::Feeder feeder(options, session.world(), parts);
  int one = 1;
  while (feeder.next_epoch()) {
    if (feeder.epochs_completed() == 1 && session.rank() == 1) {
      MPI_Recv(&one, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      std::cout << "after " << feeder.steps() << " steps" << std::endl;
      break;
    }
    while (auto batch = feeder.next()) {
      if (feeder.epochs_completed() == 1) MPI_Send(&one, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
      MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
  }
  return 0;
}

// Rank 1 does not come, and rank 0's program catches what its save says of that.
int save_alone(int argc, char** argv) {
  const MpiSession session(argc, argv);
  forebay::Options options = forebay::testing::memory_options(2);
  options.run.steps = 1000;
  options.policy.watchdog_s = 3;
  forebay::Parts parts;
  parts.dataset = std::make_shared<forebay::testing::MemoryDataset>(4000);
  try {
    forebay::Feeder feeder(options, session.world(), parts);
    for (int step = 0; step < 3; ++step) {
      if (!feeder.next()) return 3;
    }
    if (session.rank() == 1) std::this_thread::sleep_for(std::chrono::hours(1));
    feeder.save("never written");
  } catch (const Error&) {
    std::cout << "caught" << std::endl;
    return 5;
  }
  return 0;
}

int say_how_launched(int argc, char** argv) {
  const bool launched = forebay::launched_by_mpi();
  const MpiSession session(argc, argv);
  if (session.rank() == 0) std::cout << (launched ? "launched" : "alone") << " ranks " << session.size() << std::endl;
  return 0;
}

int play(const std::string& scenario, int argc, char** argv) {
  if (scenario == "leaves") return leave_by_exception(argc, argv, nullptr);
  if (scenario == "leaves-noted") return leave_by_exception(argc, argv, "rank 1: disk gone");
  if (scenario == "uncaught") {
    const MpiSession session(argc, argv);
    fail_on_rank_1(session, nullptr);
  }
  if (scenario == "thread") return throw_from_a_thread(argc, argv);
  if (scenario == "handled") return handle_inside(argc, argv);
  if (scenario == "single") return initialised_single(argc, argv);
  if (scenario == "trainer") return initialised_by_trainer(argc, argv);
  if (scenario == "outlive") return outlive_mpi(argc, argv);
  if (scenario == "breaks") return break_alone(argc, argv, false);
  if (scenario == "stays-away") return break_alone(argc, argv, true);
  if (scenario == "outlive-feeder") return feeder_outlives_mpi(argc, argv);
  if (scenario == "breaks-between") return break_between_epochs(argc, argv);
  if (scenario == "saves-alone") return save_alone(argc, argv);
  if (scenario == "launch") return say_how_launched(argc, argv);
  return 4;
}

}  // namespace

TEST_CASE("an exception that leaves the session ends all ranks with code 1") {
  const Ended ended = run_ranks("leaves");
  CAPTURE(ended.output);
  CHECK(ended.code == 1);
  CHECK(contains(ended, "rank 1: an exception is leaving"));
  CHECK_FALSE(contains(ended, "reached the handler outside"));
}

TEST_CASE("a noted failure is printed as the cause") {
  const Ended ended = run_ranks("leaves-noted");
  CAPTURE(ended.output);
  CHECK(ended.code == 1);
  CHECK(contains(ended, "forebay: rank 1: disk gone"));
}

TEST_CASE("an uncaught exception ends all ranks with code 1 and its text") {
  for (const char* scenario : {"uncaught", "thread"}) {
    const Ended ended = run_ranks(scenario);
    CAPTURE(ended.output);
    CHECK(ended.code == 1);
    CHECK(contains(ended, scenario == std::string("thread") ? "uncaught exception: a worker's error"
                                                            : "uncaught exception: the trainer's own error"));
  }
}

TEST_CASE("an exception handled inside the session changes nothing") { CHECK(run_ranks("handled").code == 0); }

TEST_CASE("MPI initialised with too low a thread level is refused with the call to make") {
  const Ended ended = run_ranks("single");
  CAPTURE(ended.output);
  CHECK(ended.code == 0);
  CHECK(contains(ended, "MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED"));
}

TEST_CASE("a session in a program that initialised MPI itself leaves it running") {
  CHECK(run_ranks("trainer").code == 0);
}

TEST_CASE("communicators that outlive MPI touch it no more") {
  const Ended ended = run_ranks("outlive");
  CAPTURE(ended.output);
  CHECK(ended.code == 0);
}

TEST_CASE("a feeder that outlives MPI touches it no more, and says so when it is used") {
  const Ended ended = run_ranks("outlive-feeder");
  CAPTURE(ended.output);
  CHECK(ended.code == 0);
}

TEST_CASE("a rank that leaves between epochs while another trains on the next ends the job by name") {
  const Ended ended = run_ranks("breaks-between");
  CAPTURE(ended.output);
  CHECK(ended.code == 1);
  CHECK(contains(ended, "rank 1 has left after step "));
}

TEST_CASE("a save that a rank never joins ends the job with the error that the program caught") {
  const Ended ended = run_ranks("saves-alone");
  CAPTURE(ended.output);
  CHECK(ended.code == 1);
  CHECK(contains(ended, "caught"));
  CHECK(contains(ended, "for rank 1, not heard of"));
}

TEST_CASE("a rank that leaves while another waits for it in the trainer's own collective ends the job by name") {
  const Ended ended = run_ranks("breaks");
  CAPTURE(ended.output);
  CHECK((ended.code == 1 || ended.code == 5));
  CHECK(contains(ended, "rank 0 has left after step 5"));
}

TEST_CASE("a rank that never comes back is named, and no rank waits for it in MPI_Finalize") {
  const Ended ended = run_ranks("stays-away");
  CAPTURE(ended.output);
  CHECK(ended.code == 1);
  CHECK(contains(ended, "for rank 1, not heard of"));
}

TEST_CASE("a process knows whether mpirun started it, and works as one rank if not") {
  CHECK(contains(run_ranks("launch"), "launched ranks 2"));
  if (!forebay::launched_by_mpi()) CHECK(contains(run_alone("launch"), "alone ranks 1"));
}

// NOLINTNEXTLINE(bugprone-exception-escape): that is one of the scenarios
int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "scenario") return play(argv[2], argc, argv);
  return doctest::Context(argc, argv).run();
}
