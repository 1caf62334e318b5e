// telemetry.prometheus: the text, the file and the port.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <forebay/communicator.hpp>

#include "fake_job.hpp"
#include "measure/metrics.hpp"
#include "measure/telemetry.hpp"
#include "process.hpp"
#include "ranks/liveness.hpp"
#include "screen.hpp"
#include "test.hpp"

namespace forebay::test_metrics {

using namespace forebay::measure;
using namespace forebay::ranks;
using namespace forebay::read;

namespace {

using namespace testing;
using doctest::Approx;

// A strict parser of the text exposition format 0.0.4, as far as it is used: each family has HELP,
// TYPE and its samples together, names and labels are valid, and every line ends with a line feed.
struct Family {
  std::string type;
  std::string help;
  std::optional<double> value;
  std::string labels;
};

std::map<std::string, Family> parse(const std::string& text) {
  std::map<std::string, Family> families;
  REQUIRE(text.ends_with('\n'));
  const auto is_name = [](const std::string& name) {
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
    return std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == ':'; });
  };
  std::string current;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    CAPTURE(line);
    if (line.starts_with("# HELP ")) {
      const std::size_t space = line.find(' ', 7);
      current = line.substr(7, space - 7);
      REQUIRE(is_name(current));
      REQUIRE(families.emplace(current, Family{.type = {}, .help = line.substr(space + 1), .value = {}, .labels = {}})
                  .second);
      CHECK_FALSE(families[current].help.empty());
      for (std::size_t slash = line.find('\\'); slash != std::string::npos; slash = line.find('\\', slash + 2)) {
        REQUIRE((line.substr(slash, 2) == "\\\\" || line.substr(slash, 2) == "\\n"));
      }
    } else if (line.starts_with("# TYPE ")) {
      const std::size_t space = line.find(' ', 7);
      REQUIRE(line.substr(7, space - 7) == current);
      families[current].type = line.substr(space + 1);
      REQUIRE((families[current].type == "counter" || families[current].type == "gauge"));
    } else {
      const std::size_t open = line.find('{');
      const std::size_t close = line.find("} ");
      REQUIRE(close != std::string::npos);
      REQUIRE(line.substr(0, open) == current);
      Family& family = families[current];
      REQUIRE_FALSE(family.value);
      family.labels = line.substr(open + 1, close - open - 1);
      std::size_t used = 0;
      const std::string number = line.substr(close + 2);
      family.value = std::stod(number, &used);
      REQUIRE(used == number.size());
    }
  }
  for (const auto& [name, family] : families) {
    CAPTURE(name);
    CHECK(family.value.has_value());
    CHECK((family.type == "counter") == name.ends_with("_total"));
  }
  return families;
}

TEST_CASE("figures as Prometheus reads them: counters since the start, gauges of late") {
  RankMetrics metrics{.rank = 3, .since_start = {}, .lately = {}};
  metrics.since_start.steps = 1000;
  metrics.since_start.bytes_read = std::uint64_t{1} << 60;
  metrics.since_start.read_s = 12.5;
  metrics.since_start.r = 9;
  metrics.lately.steps = 7;
  metrics.lately.queue_size = 5;
  metrics.lately.r = 3.25;
  const auto families = parse(metrics_text(metrics));
  CHECK(families.at("forebay_running").value == 1);
  CHECK(families.at("forebay_steps_total").value == 1000);
  CHECK(families.at("forebay_steps_total").labels == "rank=\"3\"");
  CHECK(families.at("forebay_bytes_read_total").value == Approx(std::ldexp(1.0, 60)));
  CHECK(families.at("forebay_read_seconds_total").value == 12.5);
  CHECK(families.at("forebay_queue_size").value == 5);
  CHECK(families.at("forebay_r").value == 3.25);
  CHECK(families.at("forebay_r").help == "mu / lambda; above 1 the queue must run dry");
  CHECK_FALSE(families.contains("forebay_stall"));  // not known
}

TEST_CASE("telemetry.prometheus names a file, a port or an address, one for each rank") {
  CHECK(metrics_place("/var/lib/f.prom", 0, 1).file == "/var/lib/f.prom");
  CHECK(metrics_place("/var/lib/f.prom", 2, 4).file == "/var/lib/f.2.prom");
  const MetricsPlace port = metrics_place("9400", 3, 4);
  CHECK(port.address == "127.0.0.1");
  CHECK(port.port == 9403);
  CHECK(metrics_place("0.0.0.0:9400", 0, 1).address == "0.0.0.0");
  CHECK(metrics_place("[::1]:9400", 0, 1).address == "::1");
  for (const char* wrong :
       {"metrics", "70000", "-1", "9400x", "localhost:9400", "1.2.3:9400", "1.2.3.4:", ":9400", "x.prom.new"}) {
    CAPTURE(wrong);
    CHECK(contains(error_of([&] { return metrics_place(wrong, 0, 1); }),
                   "telemetry.prometheus = \"" + std::string(wrong)));
  }
  CHECK(contains(error_of([&] { return metrics_place("65530", 9, 16); }), "rank 9 would have port 65539"));
}

// The answer of a server on the loopback interface within a second; `pump` makes the server work.
template <typename Pump>
std::string ask(std::uint16_t port, const std::string& request, const Pump& pump) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  ::inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  REQUIRE(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size()));
  std::string answer;
  testing::eventually([&] {
    pump();
    std::array<char, 4096> part{};
    for (;;) {
      const ssize_t got = ::recv(socket.get(), part.data(), part.size(), MSG_DONTWAIT);
      if (got <= 0) return got == 0;
      answer.append(part.data(), static_cast<std::size_t>(got));
    }
  });
  return answer;
}

TEST_CASE("a port answers whoever asks, and nobody can hold it up") {
  MetricsPort port(metrics_place("0", 0, 1));
  CHECK(contains(error_of([&] { MetricsPort(metrics_place(std::to_string(port.port()), 0, 1)); }),
                 "telemetry.prometheus: cannot serve http://127.0.0.1:" + std::to_string(port.port()) +
                     "/metrics: Address already in use"));
  double now_s = 0;
  const std::string large(1 << 20, 'x');  // more than a socket accepts at once
  const auto pump = [&] { port.serve(large, now_s); };
  const std::string answer = ask(port.port(), "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", pump);
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(contains(answer, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  CHECK(contains(answer, "Content-Length: 1048576\r\n"));
  CHECK(answer.ends_with("\r\n\r\n" + large));
  CHECK(ask(port.port(), "HEAD / HTTP/1.1\r\n\r\n", pump).ends_with("\r\n\r\n"));
  CHECK(ask(port.port(), "GET /x HTTP/1.1\r\n\r\n", pump).starts_with("HTTP/1.1 404"));
  CHECK(ask(port.port(), "POST /metrics HTTP/1.1\r\n\r\n", pump).starts_with("HTTP/1.1 405"));
  CHECK(ask(port.port(), std::string(10'000, 'a'), pump) == "");  // too long
  CHECK(ask(port.port(), "\r\n\r\n", pump).starts_with("HTTP/1.1 405"));
  // Silent connections are closed, even if there are many.
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 16; ++i) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port.port());
    ::inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    silent.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ::connect(silent.back().get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
    pump();
  }
  const std::string late = ask(port.port(), "GET / HTTP/1.1\r\n\r\n", [&] {
    pump();
    now_s += 1;
  });
  CHECK(late.starts_with("HTTP/1.1 200 OK"));
}

TEST_CASE("a rank writes its figures once a second and says when it has ended; trouble is told once") {
  const TemporaryDirectory dir;
  Screen screen;
  const WorkerTotals totals;
  const Gauges gauges{.depth = 7, .produced = 20, .blocked_s = 0, .bad_samples = 2};
  TelemetrySetup setup;
  setup.options.interval_s = 0;
  setup.options.prometheus = (dir / "sub" / "forebay.prom").string();
  setup.rank = 1;
  setup.ranks = 2;
  const auto reporter = [&] {
    return Reporter(
        setup, totals, [&] { return gauges; }, screen.log);
  };
  CHECK(contains(error_of([&] { reporter(); }), "sub/forebay.1.prom: cannot create it: No such file or directory"));
  std::filesystem::create_directory(dir / "sub");
  const auto published = [&] { return parse(read_text(dir / "sub" / "forebay.1.prom")); };
  Reporter rank = reporter();
  CHECK(rank.has_audience());
  CHECK(published().at("forebay_steps_total").value == 0);
  for (std::uint64_t i = 0; i < 10; ++i) {
    StepRecord record;
    record.step = i;
    record.t_s = static_cast<double>(i);
    record.step_s = i == 0 ? 0 : 0.75;
    record.wait_s = 0.25;
    record.size = 32;
    record.served = i % 2 == 0 ? Decision::fresh : Decision::reuse;
    rank.add(record);
    rank.tick(100 + static_cast<double>(i), 0);
  }
  const auto going = published();
  CHECK(going.at("forebay_running").value == 1);
  CHECK(going.at("forebay_steps_total").value == 10);
  CHECK(going.at("forebay_fresh_total").value == 5);
  CHECK(going.at("forebay_stall").value == Approx(0.25));
  CHECK(going.at("forebay_interval_seconds").value == Approx(5));
  CHECK(going.at("forebay_queue_size").value == 7);
  CHECK(going.at("forebay_bad_samples_total").value == 2);

  std::filesystem::rename(dir / "sub", dir / "away");
  rank.tick(111, 0);
  rank.tick(113, 0);
  CHECK(screen.count("telemetry.prometheus: cannot write") == 1);
  std::filesystem::rename(dir / "away", dir / "sub");
  rank.finish(114, 0);
  CHECK(published().at("forebay_running").value == 0);
  CHECK(std::distance(std::filesystem::directory_iterator(dir / "sub"), {}) == 1);

  // In the first seconds gauges are of all the time so far.
  Reporter young = reporter();
  for (std::uint64_t i = 0; i < 3; ++i) {
    young.add({.step = 7 * i, .served = i == 0 ? Decision::fresh : Decision::reuse});
    young.tick(0.04 + static_cast<double>(i), 0);
  }
  CHECK(published().at("forebay_step_num").value == 14);
  CHECK(published().at("forebay_fresh_fraction").value == Approx(1.0 / 3));
}

// How many messages to this rank have arrived.
std::size_t words(Communicator& rank) {
  std::size_t count = 0;
  while (rank.listen()) ++count;
  return count;
}

TEST_CASE("a rank that has heard that another wants to end does not say so as well") {
  FakeJob job(3);
  Liveness first(job.rank(0), {});
  Liveness second(job.rank(1), {});
  first.alert();
  CHECK(second.alerted());
  second.alert();
  CHECK(words(job.rank(2)) == 1);
  CHECK(words(job.rank(0)) == 0);
}

TEST_CASE("where all of many ranks want to end few say so, and where one does it says so before long") {
  constexpr std::uint32_t kRanks = 300;
  FakeJob job(kRanks);
  std::vector<std::unique_ptr<Liveness>> ranks;
  for (std::uint32_t r = 0; r < kRanks; ++r) ranks.push_back(std::make_unique<Liveness>(job.rank(r), Patience{}));
  SUBCASE("all") {
    for (std::uint32_t r = kRanks; r-- > 0;) ranks[r]->alert();
    for (std::uint32_t r = 1; r < kRanks; ++r) CHECK(ranks[r]->alerted());
    for (auto& rank : ranks) rank->alert();
    CHECK(words(job.rank(0)) == 0);
  }
  SUBCASE("the last") {
    ranks.back()->alert();
    CHECK(words(job.rank(0)) == 0);
    SUBCASE("while it waits for reports") {
      CHECK(eventually([&] {
        ranks.back()->wait_for_reports();
        return words(job.rank(0)) == 1;
      }));
    }
    SUBCASE("when it goes where it is not asked again") {
      ranks.back()->alert_at_once();
      CHECK(words(job.rank(0)) == 1);
    }
  }
}

TEST_CASE("a rank that has left hears that others resume the step, the first included") {
  for (const std::uint64_t steps : {0U, 3U}) {
    FakeJob job(2);
    Liveness leaver(job.rank(0), {});
    Liveness other(job.rank(1), {});
    for (std::uint64_t step = 0; step <= steps; ++step) {
      leaver.begin(step);
      other.begin(step);
    }
    CHECK_FALSE(leaver.has_gone_on(0));
    other.go_on();
    leaver.leave(steps, "rank 0 has left");
    CHECK(leaver.has_gone_on(steps));
    CHECK_FALSE(leaver.has_gone_on(steps + 1));
    CHECK(leaver.cause() == "rank 0 has left");
    CHECK_THROWS_WITH_AS((void)other.alerted(), "rank 0 has left", forebay::Error);
    CHECK(other.cause() == "rank 0 has left");
  }
}

}  // namespace
}  // namespace forebay::test_metrics
