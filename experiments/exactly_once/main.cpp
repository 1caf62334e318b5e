// Random jobs on random numbers of ranks that are stopped and go on: every batch of every epoch is served fresh exactly
// once. README.md has what is checked.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/mpi.hpp>

#include "once_audit.hpp"
#include "once_case.hpp"
#include "once_identity.hpp"
#include "once_job.hpp"
#include "support.hpp"

namespace {

using namespace forebay::testing;

// What is printed of a case that hangs or crashes: it is a violation too, and must be known to be replayed.
std::array<char, 4096> hang_text{};  // NOLINT: a signal handler has no other way to reach it

void on_signal(int /*signal*/) {
  // Nothing can be done about an output that does not take it.
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, hang_text.data(), ::strlen(hang_text.data()));
  ::_exit(1);  // mpirun ends the other ranks
}

void expect_within(unsigned seconds, const std::string& text) {
  const std::size_t length = std::min(text.size(), hang_text.size() - 1);
  std::memcpy(hang_text.data(), text.data(), length);
  hang_text[length] = '\0';
  ::alarm(seconds);
}

struct Arguments {
  std::uint64_t cases = 400;
  std::uint64_t seed = 20261121;
  std::optional<std::uint64_t> only;
  bool identity = false;
  bool is_verbose = false;
};

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--identity") {
      arguments.identity = true;
    } else if (name == "--verbose") {
      arguments.is_verbose = true;
    } else if (i + 1 < argc && (name == "--cases" || name == "--seed" || name == "--only")) {
      const std::uint64_t value = std::strtoull(argv[++i], nullptr, 10);
      if (name == "--cases") arguments.cases = value;
      if (name == "--seed") arguments.seed = value;
      if (name == "--only") arguments.only = value;
    } else {
      return std::nullopt;
    }
  }
  return arguments;
}

double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

int check_cases(const Arguments& arguments, Stage& stage, const std::filesystem::path& directory) {
  const auto started = std::chrono::steady_clock::now();
  const OnceLimits limits{.world = stage.size()};
  const std::uint64_t first = arguments.only.value_or(0);
  const std::uint64_t last = arguments.only.value_or(arguments.cases - 1);
  OnceTotals totals;
  std::uint64_t cases = 0;
  std::uint64_t violated = 0;
  double longest = 0;
  for (std::uint64_t number = first; number <= last; ++number) {
    // Case 0 is of a kind of its own.
    const OnceCase job =
        number == 0 ? large_state_case(number, limits) : in_some_way(draw_case(arguments.seed, number, limits));
    const std::string title = "case " + std::to_string(number) + ": " + describe(job);
    expect_within(60, "VIOLATION " + title + "\n  rank " + std::to_string(stage.rank()) + " hangs or crashed\n");
    const auto case_started = std::chrono::steady_clock::now();
    const OnceResult result = run_case(job, stage, directory);
    const double took = seconds_since(case_started);
    ++cases;
    totals += result.totals;
    longest = std::max(longest, took);
    if (!result.violations.empty()) ++violated;
    if (stage.rank() != 0) continue;
    if (arguments.is_verbose || arguments.only) {
      std::printf("%s\n  %.2f s, %llu steps, %llu fresh, %llu handed over, largest state %llu bytes\n", title.c_str(),
                  took, static_cast<unsigned long long>(result.totals.steps),
                  static_cast<unsigned long long>(result.totals.fresh),
                  static_cast<unsigned long long>(result.totals.handed_over),
                  static_cast<unsigned long long>(result.totals.largest_state));
    }
    for (const std::string& violation : result.violations) {
      std::printf("VIOLATION %s\n  %s\n", title.c_str(), violation.c_str());
    }
    std::fflush(stdout);
  }
  ::alarm(0);
  if (stage.rank() == 0) {
    const auto print = [](const char* what, std::uint64_t value) {
      std::printf("%-42s %10llu\n", what, static_cast<unsigned long long>(value));
    };
    print("seed", arguments.seed);
    print("jobs", cases);
    print("of them in windows", totals.in_windows);
    print("of them on a container", totals.in_container);
    print("processes of jobs, one after the other", totals.parts);
    print("jobs that ran to their end", totals.ended);
    print("kills after the last save", totals.kills);
    print("stops and resumes", totals.resumes);
    print("resumes on another number of ranks", totals.rank_changes);
    print("steps", totals.steps);
    print("epochs completed", totals.epochs);
    print("records served fresh", totals.records);
    print("steps of ranks in lockstep compared", totals.agreed);
    print("steps read back from their records", totals.logged);
    print("of them under a cap on uses", totals.capped);
    print("longest stop, ms", totals.longest_stop_ms);
    print("batches served fresh", totals.fresh);
    print("of them handed over from rank to rank", totals.handed_over);
    print("states checked", totals.states);
    print("largest state, bytes (limit 65535)", totals.largest_state);
    std::printf("%-42s %10.1f\n%-42s %10.1f\n", "longest case, s", longest, "all cases, s", seconds_since(started));
    print("jobs with violations", violated);
  }
  return violated > 0 ? 1 : 0;
}

int check_identities(Stage& stage) {
  std::uint64_t violations = 0;
  std::uint64_t mismatches = 0;
  if (stage.rank() == 0) std::printf("ranks  mode      threads  stops  batches compared  mismatches  handed over\n");
  for (const std::uint32_t ranks : {1U, 2U, 4U}) {
    if (ranks > stage.size()) continue;
    expect_within(120, "VIOLATION identity on " + std::to_string(ranks) + " ranks hangs\n");
    for (const IdentityRow& row : check_identity(ranks, stage)) {
      violations += row.violations.size();
      mismatches += row.mismatches;
      if (stage.rank() != 0) continue;
      std::printf("%5u  %-8s  %7lld  %5llu  %16llu  %10llu  %11llu\n", row.ranks, row.mode.c_str(),
                  static_cast<long long>(row.threads), static_cast<unsigned long long>(row.stops),
                  static_cast<unsigned long long>(row.compared), static_cast<unsigned long long>(row.mismatches),
                  static_cast<unsigned long long>(row.handed_over));
      for (const std::string& violation : row.violations) std::printf("VIOLATION %s\n", violation.c_str());
    }
  }
  ::alarm(0);
  if (stage.rank() == 0) std::printf("mismatches %llu\n", static_cast<unsigned long long>(mismatches));
  return violations > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Arguments> arguments = parse(argc, argv);
  if (!arguments) {
    std::fputs("usage: mpirun -n 4 exactly_once [--cases N] [--seed S] [--only CASE] [--verbose] | --identity\n",
               stderr);
    return 2;
  }
  forebay::MpiSession session(argc, argv);
  for (const int signal : {SIGALRM, SIGABRT, SIGSEGV}) std::signal(signal, on_signal);
  Stage stage(MPI_COMM_WORLD);
  const TemporaryDirectory mine;
  const std::filesystem::path directory = stage.gather(mine.path().string())[0];
  const int code = arguments->identity ? check_identities(stage) : check_cases(*arguments, stage, directory);
  (void)stage.gather("");  // rank 0's folder is not needed any more
  return code;
}
