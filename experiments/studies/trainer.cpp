// Trains a small net on what a feeder serves, either in virtual time (--times: when each step was served in a
// simulation, whose recording the feeder replays) or in real time (--pace), and prints held-out results over that time
// as one line of JSON. The learning rate falls to 0 with the share of the time that is over.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <torch/torch.h>
#include <CLI/CLI.hpp>
#include <forebay/config.hpp>
#include <forebay/feeder.hpp>

#include "batches.hpp"
#include "net.hpp"

namespace study {
namespace {

// The weights of a net at one moment, and the statistics that it keeps.
class Weights {
 public:
  explicit Weights(torch::nn::Sequential& net) {
    for (const auto& weight : all_of(net)) kept_.push_back(weight.detach().clone());
  }
  void put_into(torch::nn::Sequential& net) const {
    const torch::NoGradGuard no_grad;
    const auto weights = all_of(net);
    for (std::size_t i = 0; i < kept_.size(); ++i) weights[i].copy_(kept_[i]);
  }

 private:
  static std::vector<torch::Tensor> all_of(torch::nn::Sequential& net) {
    auto all = net->parameters();
    for (const auto& statistic : net->buffers()) all.push_back(statistic);
    return all;
  }

  std::vector<torch::Tensor> kept_;
};

// The held-out samples: decoded once, centre-cropped, in memory.
class HeldOut {
 public:
  // `options`: of training, with what is different for these data already in it.
  explicit HeldOut(forebay::Options options) {
    options.run = {.epochs = 1, .steps = 0, .eval = true};
    options.dataset.batch_size = 250;
    options.transform.crop = forebay::Crop::center;
    options.transform.center_fraction = 1;
    options.transform.mirror = 0;
    options.transform.when = forebay::When::enqueue;
    options.policy = {};
    options.storage = {};
    options.telemetry.dir.clear();
    forebay::Feeder feeder(std::move(options));
    while (auto lease = feeder.next()) {
      const Batch batch = batch_of(*lease);
      batches_.push_back({.images = batch.images.clone(), .labels = batch.labels.clone()});
      samples_ += lease->size();
    }
  }

  [[nodiscard]] std::int64_t samples() const noexcept { return samples_; }

  // How many of them the net gets right.
  [[nodiscard]] std::int64_t right(torch::nn::Sequential& net) const {
    const torch::NoGradGuard no_grad;
    net->eval();
    std::int64_t right = 0;
    for (const Batch& batch : batches_) {
      right += net->forward(batch.images).argmax(1).eq(batch.labels).sum().item<std::int64_t>();
    }
    return right;
  }

 private:
  std::vector<Batch> batches_;
  std::int64_t samples_ = 0;
};

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;
  std::vector<std::string> held_out;  // overrides on top of those
  std::string net = "small";
  std::string times;
  double pace = 0;   // seconds of a step
  double until = 0;  // steps' times; a unit is one step
  double lr = 0.05;
  int curve = 10;
  std::size_t echo = 0;
  std::size_t buffer = 1024;
  std::size_t nodes = 0;
  bool by_class = false;
  double weight_from = 0;  // 0: all uses weigh 1
  double weight_power = 1;
  std::string weigh = "loss";  // or the learning "rate"
};

// What a batch's n-th use counts: min(1, (from / n)^power).
double weight_of(const Arguments& arguments, std::uint64_t use_index) {
  if (arguments.weight_from <= 0) return 1;
  const double share = arguments.weight_from / static_cast<double>(use_index + 1);
  return share < 1 ? std::pow(share, arguments.weight_power) : 1;
}

std::vector<double> read_times(const std::string& file) {
  std::ifstream in(file);
  std::vector<double> times;
  for (double time = 0; in >> time;) times.push_back(time);
  if (times.empty()) throw forebay::Error("--times " + file + ": there are no numbers in it");
  return times;
}

// The time at which each step begins, in steps.
class Axis {
 public:
  Axis(const Arguments& arguments, std::vector<double> times) : pace_(arguments.pace), times_(std::move(times)) {}

  // When the step whose batch next() has just returned begins.
  double begin(std::uint64_t step, Seconds in_next) {
    if (pace_ <= 0) return times_[step];
    const auto now = Clock::now();
    if (!start_) start_ = due_ = now;
    // A step that did not wait begins when the one before was due to end, so that waking up late does not add up.
    const auto begins = in_next.count() > pace_ / 10 ? std::max(now, due_) : due_;
    due_ = begins + std::chrono::duration_cast<Clock::duration>(Seconds(pace_));
    return Seconds(begins - *start_).count() / pace_;
  }

  void end() const {
    if (pace_ > 0) std::this_thread::sleep_until(due_);
  }

 private:
  double pace_;
  std::vector<double> times_;
  std::optional<Clock::time_point> start_;
  Clock::time_point due_;
};

struct Point {
  double time = 0;
  std::uint64_t steps = 0;
  Weights weights;
};

class Training {
 public:
  Training(const Arguments& arguments, const forebay::Options& options, std::vector<double> times)
      : arguments_(arguments),
        feeder_(options),
        axis_(arguments, std::move(times)),
        echo_(std::max<std::size_t>(arguments.echo, 1), arguments.buffer, options.seed),
        nodes_(std::max<std::size_t>(arguments.nodes, 1), arguments.by_class) {
    torch::manual_seed(options.seed);
    net_ = make_net(arguments.net, static_cast<std::int64_t>(feeder_.dataset().classes().size()));
    optimizer_.emplace(net_->parameters(), torch::optim::SGDOptions(arguments.lr).momentum(0.9));
  }

  void run(std::uint64_t steps) {
    for (std::uint64_t step = 0; step < steps; ++step) {
      const auto asked = Clock::now();
      if (arguments_.echo > 0 || arguments_.nodes > 0) {
        const Batch batch = arguments_.echo > 0 ? echo_.draw(feeder_) : nodes_.draw(feeder_);
        if (!make(step, batch, {}, 1)) break;
        continue;
      }
      const auto lease = feeder_.next();
      if (!lease) break;
      const Seconds in_next = Clock::now() - asked;
      if (!make(step, batch_of(*lease), in_next, weight_of(arguments_, lease->use_index()))) break;
      fresh_ += lease->is_fresh() ? 1 : 0;
    }
    keep_until(arguments_.until);
    feeder_.close();
  }

  [[nodiscard]] std::string results(const HeldOut& held_out) {
    std::string curve;
    for (const Point& point : points_) {
      point.weights.put_into(net_);
      curve += (curve.empty() ? "" : ", ") + std::to_string(held_out.right(net_));
    }
    return "{\"right\": [" + curve + "], \"of\": " + std::to_string(held_out.samples()) +
           ", \"steps\": " + std::to_string(steps_) + ", \"fresh\": " + std::to_string(fresh_);
  }

 private:
  // One step; false if it does not end in time, and was not made.
  bool make(std::uint64_t step, const Batch& batch, Seconds in_next, double weight) {
    const double begins = axis_.begin(step, in_next);
    constexpr double kRounding = 1e-6;
    if (begins + 1 > arguments_.until + kRounding) return false;
    keep_until(begins + 1 - kRounding);
    const bool weighs_rate = arguments_.weigh == "rate";
    const double rate = learning_rate(begins / arguments_.until) * (weighs_rate ? weight : 1);
    for (auto& group : optimizer_->param_groups()) {
      static_cast<torch::optim::SGDOptions&>(group.options()).lr(rate);
    }
    optimizer_->zero_grad();
    const auto loss = torch::nn::functional::cross_entropy(forward(batch.images), batch.labels);
    (weighs_rate ? loss : loss * weight).backward();
    optimizer_->step();
    ++steps_;
    axis_.end();
    return true;
  }

  // Statistics of a batch are those of each node's own, and the net keeps those of the first, as PyTorch's
  // DistributedDataParallel does.
  torch::Tensor forward(const torch::Tensor& images) {
    if (arguments_.nodes == 0 || net_->buffers().empty()) return net_->forward(images);
    std::vector<torch::Tensor> made;
    for (const auto& of_node : images.chunk(static_cast<std::int64_t>(arguments_.nodes))) {
      for (const auto& module : net_->modules()) {
        auto* norm = module->as<torch::nn::BatchNorm2d>();
        if (norm != nullptr) norm->options.momentum(made.empty() ? 0.1 : 0);
      }
      made.push_back(net_->forward(of_node));
    }
    return torch::cat(made);
  }

  // Rises in the first twentieth of the time, so that a high one does not kill the net, then falls to 0.
  [[nodiscard]] double learning_rate(double used) const {
    constexpr double kRise = 0.05;
    return arguments_.lr * (used < kRise ? used / kRise : (1 - used) / (1 - kRise));
  }

  // Keeps the weights of all points of the curve before `time`, which are those of now.
  void keep_until(double time) {
    for (;;) {
      const double due = arguments_.until * static_cast<double>(points_.size() + 1) / arguments_.curve;
      if (points_.size() == static_cast<std::size_t>(arguments_.curve) || due > time) return;
      points_.push_back({.time = due, .steps = steps_, .weights = Weights(net_)});
    }
  }

  const Arguments& arguments_;
  forebay::Feeder feeder_;
  Axis axis_;
  EchoBuffer echo_;
  NodeBatches nodes_;
  torch::nn::Sequential net_;
  std::optional<torch::optim::SGD> optimizer_;
  std::vector<Point> points_;
  std::uint64_t steps_ = 0;
  std::uint64_t fresh_ = 0;
};

double cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void run(const Arguments& arguments) {
  std::vector<double> times;
  if (arguments.pace <= 0) times = read_times(arguments.times);
  auto options = forebay::load_options(arguments.config, arguments.overrides);
  const std::uint64_t steps = arguments.pace > 0 ? std::numeric_limits<std::uint64_t>::max() : times.size();
  options.run.steps = std::int64_t{1} << 40;  // more than any run makes
  auto overrides = arguments.overrides;
  overrides.insert(overrides.end(), arguments.held_out.begin(), arguments.held_out.end());
  const HeldOut held_out(forebay::load_options(arguments.config, overrides));

  const double cpu_before = cpu_s();
  const auto start = Clock::now();
  Training training(arguments, options, std::move(times));
  training.run(steps);
  const double cpu = cpu_s() - cpu_before;
  const double wall = Seconds(Clock::now() - start).count();
  std::printf("%s, \"cpu_s\": %.2f, \"wall_s\": %.2f}\n", training.results(held_out).c_str(), cpu, wall);
}

}  // namespace
}  // namespace study

int main(int argc, char** argv) {
  study::Arguments arguments;
  CLI::App app("Trains a small net on replayed or paced steps", "study_trainer");
  app.add_option("CONFIG", arguments.config, "Forebay's configuration file")->required();
  app.add_option("--set", arguments.overrides, "override a key of it")->allow_extra_args(false);
  app.add_option("--held-out", arguments.held_out, "override a key for the held-out data")->allow_extra_args(false);
  app.add_option("--net", arguments.net, "small, norm or cnn");
  CLI::Option* times = app.add_option("--times", arguments.times, "file: when each step is served, in steps");
  app.add_option("--pace", arguments.pace, "seconds that a step takes, most of it slept")->excludes(times);
  app.add_option("--until", arguments.until, "the time at which training ends, in steps")->required();
  app.add_option("--lr", arguments.lr, "learning rate at the start");
  app.add_option("--curve", arguments.curve, "points in time of which the weights are evaluated")
      ->check(CLI::Range(1, 1000));
  app.add_option("--echo", arguments.echo, "data echoing: how often each example is used");
  app.add_option("--buffer", arguments.buffer, "data echoing: examples in the shuffle buffer");
  app.add_option("--nodes", arguments.nodes, "a step takes a batch from each of so many parts of the epoch");
  app.add_flag("--by-class", arguments.by_class, "the parts are pieces of the data sorted by class");
  app.add_option("--weight-from", arguments.weight_from, "the first use of a batch that counts less; 0: none does");
  app.add_option("--weight-power", arguments.weight_power, "use n counts (weight-from / n) to the power of this");
  app.add_option("--weigh", arguments.weigh, "what is multiplied by it: the loss or the learning rate")
      ->check(CLI::IsMember({"loss", "rate"}));
  CLI11_PARSE(app, argc, argv);
  torch::set_num_threads(1);
  at::globalContext().setFlushDenormal(true);  // tiny gradients would slow the steps tenfold
  try {
    study::run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "study_trainer: %s\n", error.what());
    return 1;
  }
  return 0;
}
