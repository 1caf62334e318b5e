// Random jobs on random numbers of ranks that are stopped and go on: every batch of every epoch is served fresh exactly
// once. README.md has what is checked.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/mpi.hpp>

#include "once_job.hpp"
#include "support.hpp"

namespace {

using namespace forebay::testing;

// A text that a signal handler can write, whenever it comes: set() fills the copy that is not in use.
class TextAtSignal {
 public:
  void set(const std::string& text) {
    std::array<char, 4096>& next = copies_[1 - static_cast<std::size_t>(current_)];
    const std::size_t length = std::min(text.size(), next.size() - 1);
    std::memcpy(next.data(), text.data(), length);
    next[length] = '\0';
    std::atomic_signal_fence(std::memory_order_release);
    current_ = 1 - current_;
  }
  // Nothing can be done about an output that does not take it.
  void write() const {
    const char* const text = copies_[static_cast<std::size_t>(current_)].data();
    [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, text, ::strlen(text));
  }

 private:
  std::array<std::array<char, 4096>, 2> copies_{};
  volatile std::sig_atomic_t current_ = 0;
};

// What is printed of a case that hangs or crashes: it is a violation too, and must be known to be replayed.
TextAtSignal hang_text;    // NOLINT: a signal handler has no other way to reach it
TextAtSignal totals_text;  // NOLINT: what was checked until then; on rank 0

// Time in which some thread of the machine was ready to run and had no processor: a rank that sleeps until another has
// run waits for it too. In nanoseconds, 0 where the kernel does not say. A signal handler may call it.
std::uint64_t starved_ns() {
  std::array<char, 256> text{};
  const int file = ::open("/proc/pressure/cpu", O_RDONLY | O_CLOEXEC);  // some avg10=… avg60=… avg300=… total=µs
  if (file < 0) return 0;
  const ssize_t size = ::read(file, text.data(), text.size() - 1);
  ::close(file);
  constexpr const char* kName = "total=";
  const char* const total = size > 0 ? std::strstr(text.data(), kName) : nullptr;
  return total == nullptr ? 0 : 1000 * std::strtoull(total + ::strlen(kName), nullptr, 10);
}

constexpr unsigned kCase_s = 60;       // of a case, without the time that it was starved of processors
constexpr unsigned kMostCase_s = 900;  // with it
struct CaseBegan {
  std::int64_t at_s = 0;
  std::uint64_t starved_ns = 0;
};
CaseBegan case_began;  // NOLINT

std::int64_t monotonic_s() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

// A case that was starved gets that time in addition.
void on_alarm(int /*signal*/) {
  const std::int64_t took_s = monotonic_s() - case_began.at_s;
  const auto starved_s = static_cast<std::int64_t>((starved_ns() - case_began.starved_ns) / 1'000'000'000);
  const std::int64_t left_s = std::min(kCase_s - (took_s - starved_s), kMostCase_s - took_s);
  if (left_s > 0) {
    ::alarm(static_cast<unsigned>(left_s));
    return;
  }
  hang_text.write();
  totals_text.write();
  ::_exit(1);
}

void on_signal(int signal) {
  if (signal != SIGTERM && signal != SIGINT) hang_text.write();
  totals_text.write();
  ::_exit(1);  // mpirun ends the other ranks
}

void expect_an_end(const std::string& text) {
  hang_text.set(text);
  case_began = {monotonic_s(), starved_ns()};
  ::alarm(kCase_s);
}

struct Arguments {
  std::uint64_t cases = 400;
  std::uint64_t first = 0;
  std::uint64_t seed = 20261121;
  std::optional<std::uint64_t> only;
  std::string store;  // a URL that shows the folder of temporary files
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
    } else if (i + 1 < argc && name == "--store") {
      arguments.store = argv[++i];
    } else if (i + 1 < argc && (name == "--cases" || name == "--first" || name == "--seed" || name == "--only")) {
      const std::uint64_t value = std::strtoull(argv[++i], nullptr, 10);
      if (name == "--cases") arguments.cases = value;
      if (name == "--first") arguments.first = value;
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

// What was checked, and for how long.
struct Progress {
  OnceTotals totals;
  std::uint64_t cases = 0;
  std::uint64_t violated = 0;
  double longest_s = 0;
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

std::string text_of(const Progress& done, std::uint64_t seed) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1);
  const auto add = [&](const char* what, auto value) {
    out << std::left << std::setw(42) << what << ' ' << std::right << std::setw(10) << value << '\n';
  };
  const OnceTotals& totals = done.totals;
  add("seed", seed);
  add("jobs", done.cases);
  add("of them in windows", totals.in_windows);
  add("of them on a container", totals.in_container);
  add("of these in a store", totals.in_store);
  add("of these with a cache", totals.cached);
  add("processes of jobs, one after the other", totals.parts);
  add("jobs that ran to their end", totals.ended);
  add("kills after the last save", totals.kills);
  add("stops and resumes", totals.resumes);
  add("resumes on another number of ranks", totals.rank_changes);
  add("steps", totals.steps);
  add("epochs completed", totals.epochs);
  add("records served fresh", totals.records);
  add("steps of ranks in lockstep compared", totals.agreed);
  add("steps read back from their records", totals.logged);
  add("of them under a cap on uses", totals.capped);
  add("longest stop, ms", totals.longest_stop_ms);
  add("batches served fresh", totals.fresh);
  add("of them handed over from rank to rank", totals.handed_over);
  add("states checked", totals.states);
  add("largest state, bytes (limit 65535)", totals.largest_state);
  add("longest case, s", done.longest_s);
  add("all cases, s", seconds_since(done.started));
  add("jobs with violations", done.violated);
  return out.str();
}

int check_cases(const Arguments& arguments, Stage& stage, const std::filesystem::path& directory) {
  OnceLimits limits{.world = stage.size()};
  if (!arguments.store.empty()) limits = {.world = stage.size(), .samples = kMostInStore, .served = 10'000};
  const std::filesystem::path shown = std::filesystem::relative(directory, std::filesystem::temp_directory_path());
  const std::string store = arguments.store.empty() ? "" : arguments.store + "/" + shown.string() + "/";
  const std::uint64_t first = arguments.only.value_or(arguments.first);
  const std::uint64_t last = arguments.only.value_or(arguments.first + arguments.cases - 1);
  Progress done;
  for (std::uint64_t number = first; number <= last; ++number) {
    // Case 0 is of a kind of its own.
    const OnceCase job =
        number == 0 ? large_state_case(number, limits) : in_some_way(draw_case(arguments.seed, number, limits), store);
    const std::string title = "case " + std::to_string(number) + ": " + describe(job);
    expect_an_end("VIOLATION " + title + "\n  rank " + std::to_string(stage.rank()) + " hangs or crashed\n");
    const auto case_started = std::chrono::steady_clock::now();
    const OnceResult result = run_case(job, stage, directory);
    const double took = seconds_since(case_started);
    ++done.cases;
    done.totals += result.totals;
    done.longest_s = std::max(done.longest_s, took);
    if (!result.violations.empty()) ++done.violated;
    if (stage.rank() != 0) continue;
    totals_text.set("interrupted; until then:\n" + text_of(done, arguments.seed));
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
  if (stage.rank() == 0) std::fputs(text_of(done, arguments.seed).c_str(), stdout);
  return done.violated > 0 ? 1 : 0;
}

int check_identities(Stage& stage) {
  std::uint64_t violations = 0;
  std::uint64_t mismatches = 0;
  if (stage.rank() == 0) std::printf("ranks  mode      threads  stops  batches compared  mismatches  handed over\n");
  for (const std::uint32_t ranks : {1U, 2U, 4U}) {
    if (ranks > stage.size()) continue;
    expect_an_end("VIOLATION identity on " + std::to_string(ranks) + " ranks hangs\n");
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
    std::fputs(
        "usage: mpirun -n 4 exactly_once [--first CASE] [--cases N] [--seed S] [--only CASE] [--store URL] [--verbose] "
        "| --identity\n",
        stderr);
    return 2;
  }
  forebay::MpiSession session(argc, argv);
  for (const int signal : {SIGABRT, SIGSEGV, SIGTERM, SIGINT}) std::signal(signal, on_signal);
  std::signal(SIGALRM, on_alarm);
  Stage stage(MPI_COMM_WORLD);
  const TemporaryDirectory mine;
  const std::filesystem::path directory = stage.gather(mine.path().string())[0];
  const int code = arguments->identity ? check_identities(stage) : check_cases(*arguments, stage, directory);
  (void)stage.gather("");  // rank 0's folder is not needed any more
  return code;
}
