#include <unistd.h>
#include <forebay/communicator.hpp>
#include <forebay/feeder.hpp>
#include <forebay/mpi.hpp>
#include <iostream>

#include "memory_dataset.hpp"
#include "process.hpp"
#include "test.hpp"

// The end of a job cannot be tested from inside: this program runs itself under mpirun with a
// scenario's name, and checks the exit code and the output.
namespace {

using namespace forebay;
using namespace forebay::testing;

// The job of scenarios with a feeder: two samples per batch and rank.
struct Served {
  forebay::Options options = forebay::testing::memory_options(2);
  std::uint64_t samples = 4000;

  explicit Served(double watchdog_s) {
    options.run.steps = 1000;
    options.policy.watchdog_s = forebay::testing::kSanitized ? 2 * watchdog_s : watchdog_s;
  }
  [[nodiscard]] forebay::Feeder feeder(const MpiSession& session, MemoryDataset::Hook before_read = {}) const {
    return {options, session.world(),
            forebay::Parts{.dataset = std::make_shared<MemoryDataset>(samples, std::move(before_read))}};
  }
};

// From the given read on, rank 1's reads never end.
int read_for_ever(int argc, char** argv, int from) {
  const MpiSession session(argc, argv);
  std::atomic<int> reads{0};
  const auto hang = [&, is_hanging = session.rank() == 1](std::uint64_t) {
    if (++reads > from && is_hanging) std::this_thread::sleep_for(std::chrono::hours(1));
  };
  try {
    forebay::Feeder feeder = Served(2).feeder(session, hang);
    while (feeder.next()) {
    }
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;
    return 5;
  }
  return 0;
}

// A program that manages MPI itself, so there is no session that could end the job.
int read_for_ever_without_session(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  int code = 0;
  try {
    const auto ranks = forebay::make_communicator(MPI_COMM_WORLD);
    const Served job(2);
    auto reads = std::make_shared<std::atomic<int>>(0);
    const bool hangs = ranks->rank() == 1;
    forebay::Feeder feeder(job.options, *ranks,
                           forebay::Parts{.dataset = std::make_shared<MemoryDataset>(job.samples, [=](std::uint64_t) {
                                            if (++*reads > 20 && hangs)
                                              std::this_thread::sleep_for(std::chrono::hours(1));
                                          })});
    while (feeder.next()) {
    }
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;
    code = 5;
  }
  MPI_Finalize();
  return code;
}

// The session ends the job while another thread holds the lock of a stream for ever.
int abort_beside_a_read(int argc, char** argv) {
  const MpiSession session(argc, argv);
  if (session.rank() == 1) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) return 3;
    std::FILE* const stream = ::fdopen(ends[0], "r");
    std::thread([stream] {
      char byte = 0;
      (void)std::fread(&byte, 1, 1, stream);
    }).detach();
    // Wait until the thread has it.
    while (::ftrylockfile(stream) == 0) {
      ::funlockfile(stream);
      std::this_thread::yield();
    }
    throw Error("rank 1's own error");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return 0;
}

// Rank 1 fails while rank 0 is in a collective call that it could not leave by itself.
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
  std::optional<forebay::Feeder> feeder;
  std::optional<forebay::Feeder> destroyed_late;
  {
    const MpiSession session(argc, argv);
    const Served job(30);
    feeder.emplace(job.feeder(session));
    destroyed_late.emplace(job.feeder(session));
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

// Rank 0 leaves its loop after the sixth step; rank 1 waits for it in its own all-reduce, or makes
// no further step.
int break_alone(int argc, char** argv, bool waits_outside) {
  const MpiSession session(argc, argv);
  try {
    forebay::Feeder feeder = Served(3).feeder(session);
    while (auto batch = feeder.next()) {
      int one = 1;
      const bool is_last = batch->step() == 5;
      if (waits_outside && is_last && session.rank() == 1) std::this_thread::sleep_for(std::chrono::hours(1));
      if (!waits_outside) MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      if (!waits_outside && is_last && session.rank() == 0) break;
    }
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;  // it heard in time
    return 5;
  }
  return 0;
}

// Rank 1 leaves between two epochs, when rank 0 has the first batch of the next one and waits in
// its own all-reduce.
int break_between_epochs(int argc, char** argv) {
  const MpiSession session(argc, argv);
  Served job(3);
  job.options.run.steps = 0;
  job.options.run.epochs = 3;
  job.samples = 40;
  forebay::Feeder feeder = job.feeder(session);
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

// Rank 1 does not take part in a save, during the run or after its last step, and rank 0's program
// catches the error of its save.
int save_alone(int argc, char** argv, std::int64_t steps) {
  const MpiSession session(argc, argv);
  try {
    Served job(3);
    job.options.run.steps = steps;
    forebay::Feeder feeder = job.feeder(session);
    for (int step = 0; step < 4; ++step) {
      if (!feeder.next() && step < steps) return 3;
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

int uncaught(int argc, char** argv) {
  const MpiSession session(argc, argv);
  fail_on_rank_1(session, nullptr);
  return 4;
}

struct Scenario {
  const char* name;
  const char* shows;
  int (*play)(int argc, char** argv);
  std::vector<int> codes;         // permitted exit codes of mpirun
  std::vector<const char*> says;  // texts that must be printed
  const char* never_says = "no such text";
};

const std::vector<Scenario> kScenarios{
    {"leaves",
     "an exception that leaves the session ends all ranks with code 1",
     [](int argc, char** argv) { return leave_by_exception(argc, argv, nullptr); },
     {1},
     {"rank 1: an exception is leaving"},
     "reached the handler outside"},
    {"leaves-noted",
     "a noted failure is printed as the cause",
     [](int argc, char** argv) { return leave_by_exception(argc, argv, "rank 1: disk gone"); },
     {1},
     {"forebay: rank 1: disk gone"}},
    {"uncaught",
     "an uncaught exception ends all ranks with code 1 and its text",
     uncaught,
     {1},
     {"uncaught exception: the trainer's own error"}},
    {"thread", "so does one of another thread", throw_from_a_thread, {1}, {"uncaught exception: a worker's error"}},
    {"handled", "an exception handled inside the session changes nothing", handle_inside, {0}, {}},
    {"single",
     "MPI initialised with too low a thread level is refused with the call to make",
     initialised_single,
     {0},
     {"MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED"}},
    {"trainer",
     "a session in a program that initialised MPI itself leaves it running",
     initialised_by_trainer,
     {0},
     {}},
    {"outlive", "communicators that outlive MPI touch it no more", outlive_mpi, {0}, {}},
    {"outlive-feeder",
     "a feeder that outlives MPI touches it no more, and says so when it is used",
     feeder_outlives_mpi,
     {0},
     {}},
    {"breaks-between",
     "a rank that leaves between epochs while another trains on the next ends the job by name",
     break_between_epochs,
     {1},
     {"rank 1 has left after step "}},
    {"saves-alone",
     "a save that a rank never joins ends the job with the error that the program caught",
     [](int argc, char** argv) { return save_alone(argc, argv, 1000); },
     {1},
     {"caught", "for rank 1, not heard of"}},
    {"saves-alone-at-the-end",
     "so does one after the last step",
     [](int argc, char** argv) { return save_alone(argc, argv, 3); },
     {1},
     {"caught", "for rank 1, not heard of"}},
    {"reads-for-ever",
     "a rank whose read never ends throws its error, as the others do, and leaves the read behind",
     [](int argc, char** argv) { return read_for_ever(argc, argv, 20); },
     {5},
     {"rank 1: no fresh batch for ", "left behind: ", "reading from the store"}},
    {"reads-for-ever-at-first",
     "so does one whose first read never ends",
     [](int argc, char** argv) { return read_for_ever(argc, argv, 0); },
     {5},
     {"rank 1: no fresh batch for ", "left behind: ", "reading from the store"}},
    {"reads-for-ever-without-session",
     "so does one of a program that has no session",
     read_for_ever_without_session,
     {5},
     {"rank 1: no fresh batch for ", "left behind: ", "reading from the store"}},
    {"aborts-beside-a-read",
     "a thread that sits in a stream's read does not keep the session from ending the job",
     abort_beside_a_read,
     {1},
     {"rank 1: uncaught exception: rank 1's own error"}},
    {"breaks",
     "a rank that leaves while another waits for it in the trainer's own collective ends the job by name",
     [](int argc, char** argv) { return break_alone(argc, argv, false); },
     {1, 5},
     {"rank 0 has left after step 5"}},
    {"stays-away",
     "a rank that never comes back is named, and no rank waits for it in MPI_Finalize",
     [](int argc, char** argv) { return break_alone(argc, argv, true); },
     {1},
     {"for rank 1, not heard of"}},
    {"launch", "a process knows that mpirun started it", say_how_launched, {0}, {"launched ranks 2"}},
};

int play(std::string_view name, int argc, char** argv) {
  const auto found = std::ranges::find(kScenarios, name, &Scenario::name);
  return found == kScenarios.end() ? 4 : found->play(argc, argv);
}

Ended run(int ranks, const std::string& scenario) {
  const forebay::testing::TemporaryDirectory dir;
  std::vector<std::string> command;
  if (ranks > 1) {
    command =
        words(mpiexec() + " -n " + std::to_string(ranks) + " --oversubscribe --bind-to none --mca btl self,vader");
  }
  for (const std::string& word :
       {std::filesystem::read_symlink("/proc/self/exe").string(), std::string("scenario"), scenario}) {
    command.push_back(word);
  }
  forebay::testing::Process process(command, dir / "output");
  const int code = process.wait(std::chrono::seconds(60));
  return {code, process.output()};
}

}  // namespace

TEST_CASE("what ends a job ends it on all ranks and says why; what does not, does not") {
  // Most scenarios just end; under a sanitizer, only those run in which one object might outlive
  // another.
  std::vector<Scenario> scenarios = kScenarios;
  if (forebay::testing::kSanitized) {
    std::erase_if(scenarios, [](const Scenario& scenario) {
      const std::string_view name = scenario.name;
      return !name.starts_with("outlive") && !name.starts_with("breaks");
    });
  }
  at_once(scenarios, [](const Scenario& scenario) {
    CAPTURES(scenario.name, scenario.shows);
    const Ended ended = run(2, scenario.name);
    CAPTURE(ended.output);
    CHECK(std::ranges::count(scenario.codes, ended.code) == 1);
    for (const char* text : scenario.says) CHECK(ended.says(text));
    CHECK_FALSE(ended.says(scenario.never_says));
  });
}

TEST_CASE("a process that mpirun did not start works as one rank") {
  if (!forebay::launched_by_mpi()) CHECK(run(1, "launch").says("alone ranks 1"));
}

// NOLINTNEXTLINE(bugprone-exception-escape): that is one of the scenarios
int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "scenario") return play(argv[2], argc, argv);
  return doctest::Context(argc, argv).run();
}
