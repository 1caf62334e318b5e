// The ring, and the waiting and leases around it, under a weak-memory explorer: the real sources, every invariant, and
// every memory order that they name. docs/trust.md says what that promises and what it does not.
//
//   FOREBAY_MODEL_FACTOR=100      looks for so many times as long
//   FOREBAY_MODEL_DEVIATIONS=3    and for rarer executions among those that it looks at in turn
//   FOREBAY_SEED=N                seeds the random ones
#include <sys/single_threaded.h>

#include "model/explorer.hpp"
#include "model/stronger_than_needed.hpp"
#include "test.hpp"

namespace forebay::model {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const given = std::getenv(name);
  return given == nullptr ? otherwise : std::strtoull(given, nullptr, 10);
}

Limits limits(std::uint64_t executions, std::uint64_t walks) {
  const std::uint64_t factor = from_environment("FOREBAY_MODEL_FACTOR", 1);
  return {.deviations = static_cast<unsigned>(from_environment("FOREBAY_MODEL_DEVIATIONS", 2)),
          .executions = executions * factor,
          .walks = walks * factor,
          .seed = from_environment("FOREBAY_SEED", 20261)};
}

// Shared by all cases. It has visited the places in the sources that name a memory order.
Explorer& explorer() {
  static Explorer one = [] {
    // In a process with one thread, libstdc++ counts references to shared objects without atomic
    // operations; this one stands for many threads.
    __libc_single_threaded = 0;
    Explorer made;
    for (const Scenario& scenario : scenarios()) (void)made.explore(scenario, {.executions = 200, .walks = 50});
    return made;
  }();
  return one;
}

std::vector<std::memory_order> weaker(const Sites::Site& site) {
  using enum std::memory_order;
  switch (site.order) {
    case acquire:
    case release: return {relaxed};
    case acq_rel: return {acquire, release, relaxed};
    case seq_cst:
      if (site.kind == Sites::Kind::load) return {acquire, relaxed};
      if (site.kind == Sites::Kind::store) return {release, relaxed};
      return {acq_rel, acquire, release, relaxed};
    default: return {};
  }
}

TEST_CASE("the explorer finds the outcomes that C++ permits, and no others") {
  constexpr unsigned kEnough = 20;  // more than an execution has choices
  for (const Litmus& litmus : litmus_tests()) {
    const Result result =
        explorer().explore(litmus.scenario, {.deviations = kEnough, .executions = 2000000, .walks = 0});
    CAPTURE(litmus.scenario.name);
    CHECK_MESSAGE(result.failure.empty(), result.failure);
    CHECK(result.deviations == kEnough);
    CHECK(result.outcomes == litmus.outcomes);
  }
}

TEST_CASE("all invariants hold in every execution that was looked at") {
  const Limits most = limits(2000, 500);
  MESSAGE("seed " << most.seed);
  for (const Scenario& scenario : scenarios()) {
    const Result result = explorer().explore(scenario, most);
    CHECK_MESSAGE(result.failure.empty(), result.failure);
    const std::string name = scenario.name;
    MESSAGE(name << ": " << result.executions << " executions of " << result.steps / result.executions
                 << " steps, among them all with " << result.deviations << " deviations or fewer");
    CHECK_MESSAGE(result.deviations > 0, name << ": not even all with one deviation");
  }
}

TEST_CASE("a scenario comes to every memory order that the sources name") {
  const std::vector<Sites::Site>& sites = explorer().sites().all();
  const std::vector<NamedOrder> named = orders_in_sources();
  CHECK(named.size() > 30);
  for (std::size_t i = 1; i < named.size(); ++i) {
    CHECK_MESSAGE((named[i].file != named[i - 1].file || named[i].line != named[i - 1].line), named[i].file, ":",
                  named[i].line, " names two orders; give each a line, so that they are weakened one at a time");
  }
  for (const NamedOrder& order : named) {
    const auto is_it = [&](const Sites::Site& site) {
      return site.file == order.file && site.line == order.line && order_name(site.order) == order.name;
    };
    CHECK_MESSAGE(std::any_of(sites.begin(), sites.end(), is_it), order.file, ":", order.line,
                  ": no scenario comes to ", order.name, ", or another operation stands in the same line");
  }
}

// The failure in one of the scenarios that reach a site while its operation is done with a weaker
// order.
std::string failure_with(std::size_t site, std::memory_order order, Limits limits) {
  const std::set<std::string> names = explorer().sites().all()[site].scenarios;
  limits.traces = false;
  explorer().sites().weaken(site, order);
  std::string failure;
  for (const Scenario& scenario : scenarios()) {
    if (failure.empty() && names.contains(scenario.name)) failure = explorer().explore(scenario, limits).failure;
  }
  explorer().sites().weaken(site, std::nullopt);
  return failure;
}

TEST_CASE("each memory order is needed, or it is said why it is stronger") {
  const std::vector<Sites::Site> sites = explorer().sites().all();
  std::size_t found = 0;
  std::size_t listed = 0;
  std::set<const Unneeded*> used;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    if (!sites[i].file.starts_with("src/")) continue;
    for (const std::memory_order order : weaker(sites[i])) {
      const std::string mutant = sites[i].file + ":" + std::to_string(sites[i].line) + ", " +
                                 std::string(order_name(sites[i].order)) + " as " + std::string(order_name(order));
      const Unneeded* const known = unneeded(sites[i].file, sites[i].line, order);
      const std::string failure = failure_with(i, order, known != nullptr ? limits(100, 100) : limits(600, 400));
      if (known != nullptr) {
        ++listed;
        used.insert(known);
        CHECK_MESSAGE(failure.empty(), mutant, " is listed as stronger than needed: ", failure);
        MESSAGE(mutant << ": not found. " << known->why);
      } else {
        ++found;
        CHECK_MESSAGE(!failure.empty(), mutant, ": no scenario finds it");
        MESSAGE(mutant << ": found, " << failure);
      }
    }
  }
  MESSAGE(found << " weaker orders found, " << listed << " listed as not needed");
  CHECK(found > 30);
  CHECK_MESSAGE(used.size() == count_of_unneeded(), "tests/model/stronger_than_needed.cpp lists what no source names");
}

}  // namespace
}  // namespace forebay::model
