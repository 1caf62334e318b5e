// A data-parallel trainer: one process per rank, each with its own replica of a small CNN, gradients averaged with
// MPI_Allreduce. The lines that Forebay needs are marked with "Forebay".
//
//   mpirun -n 2 --bind-to none train_cnn feed.toml --val data/val

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include <torch/torch.h>
#include <forebay/feeder.hpp>
#include <forebay/mpi.hpp>

#include "arguments.hpp"
#include "batch.hpp"
#include "checkpoint.hpp"
#include "cnn.hpp"
#include "data_parallel.hpp"
#include "evaluation.hpp"
#include "report.hpp"

namespace train_cnn {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> stop_signalled{false};  // global because a signal handler has nothing else
extern "C" void on_signal(int /*signal*/) { stop_signalled.store(true, std::memory_order_relaxed); }

forebay::Options options_of(const forebay::MpiSession& mpi, const Arguments& arguments) {
  auto options = forebay::load_options(arguments.config, mpi.world(), arguments.overrides);
  options.device = "host";  // it trains on the processor, whatever GPU there is
  if (options.transform.dtype != forebay::DType::float32 || options.transform.layout != forebay::Layout::nchw)
    throw forebay::ConfigError(R"(transform.dtype must be "float32" and transform.layout "NCHW")");
  if (arguments.wall_seconds > 0) {
    options.run.steps = 0;
    options.run.epochs = std::numeric_limits<std::int32_t>::max();
  }
  return options;
}

std::int64_t count_classes(const forebay::Dataset& dataset) {
  if (dataset.classes().size() < 2)
    throw forebay::ConfigError("dataset.path: the samples must have labels of two classes or more");
  return static_cast<std::int64_t>(dataset.classes().size());
}

Cnn make_model(const forebay::Feeder& feeder) {
  torch::manual_seed(feeder.options().seed);
  return Cnn(count_classes(feeder.dataset()));
}

class Trainer {
 public:
  Trainer(const forebay::MpiSession& mpi, const Arguments& arguments)
      : mpi_(mpi),
        arguments_(arguments),
        feeder_(options_of(mpi, arguments), mpi.world(), {.stop = &stop_signalled}),  // Forebay
        model_(make_model(feeder_)),
        replicas_(*model_, MPI_COMM_WORLD),
        optimizer_(model_->parameters(), torch::optim::SGDOptions(arguments.lr).momentum(arguments.momentum)) {
    if (!arguments.val.empty()) evaluation_.emplace(feeder_, arguments.val);
    go_on();
    report_.policy = feeder_.options().policy.name;
    report_.seed = feeder_.options().seed;
    report_.classes = feeder_.dataset().classes().size();
    say("%s\n", feeder_.describe().c_str());
  }

  void train() {
    while (feeder_.next_epoch()) {           // Forebay: until the run's end
      while (auto batch = feeder_.next()) {  // Forebay: a fresh or a resident batch, nothing at the epoch's end
        const auto start = Clock::now();
        if (!begin_) begin_ = start;
        const double used = share_used(*batch);
        keep_for_curve(used);
        step(*batch, start, used);
        if (arguments_.wall_seconds > 0 && used >= 1) feeder_.request_stop();  // Forebay: all ranks stop at one step
      }
      // Forebay: all ranks are here after the same step, and nothing of the next epoch has been served
      if (feeder_.epochs_completed() > epochs_) end_epoch();
      save();
    }
    if (evaluation_ && arguments_.curve > 0 && begin_) keep(feeder_.steps());
    feeder_.close();  // Forebay
    finish();
  }

 private:
  void go_on() {
    if (arguments_.checkpoint.empty()) return;
    checkpoint_.emplace(arguments_.checkpoint, mpi_);
    const auto feeder_state = checkpoint_->load(model_, optimizer_);
    if (!feeder_state) return;
    feeder_.restore_state(*feeder_state);  // Forebay: before the first next(), on all ranks
    epochs_ = feeder_.epochs_completed();
    say("resumes after step %llu\n", static_cast<unsigned long long>(feeder_.steps()));
  }

  void save() {
    if (checkpoint_) checkpoint_->save(model_, optimizer_, feeder_.state());  // Forebay: the state is every rank's
  }

  // How much of the run is over, from 0 to 1, equal on all ranks: it decides on the learning rate.
  [[nodiscard]] double share_used(const forebay::Lease& batch) const {
    const auto& run = feeder_.options().run;
    if (arguments_.wall_seconds > 0) {
      const double trained_s = trained() - eval_s();
      return std::min(1.0, replicas_.of_first_rank(trained_s / arguments_.wall_seconds));  // one rank's clock decides
    }
    if (run.steps > 0) return static_cast<double>(batch.step()) / static_cast<double>(run.steps);
    const auto batches = static_cast<double>(feeder_.batches_per_epoch()) * static_cast<double>(run.epochs);
    const double samples = batches * static_cast<double>(feeder_.options().dataset.batch_size);
    return std::min(1.0, replicas_.of_first_rank(static_cast<double>(batch.job_fresh_samples()) / samples));
  }

  // A learning rate that falls to 0 makes the last weights comparable: those of a constant one are as good as the last
  // few batches happened to be.
  void set_learning_rate(double used) {
    for (auto& group : optimizer_.param_groups()) {
      static_cast<torch::optim::SGDOptions&>(group.options()).lr(arguments_.lr * (1 - used));
    }
  }

  // A copy of the weights takes microseconds. An evaluation here would give the store seconds to catch up.
  void keep_for_curve(double used) {
    const auto due = static_cast<double>(kept_.size() + 1);
    if (!evaluation_ || due >= arguments_.curve || used * arguments_.curve < due) return;
    keep(feeder_.steps() - 1);
  }

  void keep(std::uint64_t steps) {
    report_.curve.push_back({.trained_s = trained() - eval_s(), .steps = steps, .accuracy = 0});
    kept_.emplace_back(model_);
  }

  void step(const forebay::Lease& batch, Clock::time_point start, double used) {
    set_learning_rate(used);
    replicas_.zero_gradients();
    const auto scores = model_->forward(images_of(batch));  // Forebay: images and labels without a copy
    const auto loss = torch::nn::functional::cross_entropy(scores, labels_of(batch));
    loss.backward();
    loss_ = loss.item<float>();
    // Before the all-reduce, as an accelerator would be busy; asleep, so that the decoders have this core.
    if (arguments_.step_ms > 0) std::this_thread::sleep_until(start + step_time());
    replicas_.average_gradients();
    optimizer_.step();
  }

  [[nodiscard]] Clock::duration step_time() const {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(arguments_.step_ms));
  }

  [[nodiscard]] double trained() const { return std::chrono::duration<double>(Clock::now() - *begin_).count(); }

  void end_epoch() {
    epochs_ = feeder_.epochs_completed();
    if (!evaluation_ || arguments_.curve > 0)
      return say("epoch %llu: loss %.3f\n", static_cast<unsigned long long>(epochs_), loss_);
    report_.epoch_accuracy.push_back(evaluation_->accuracy(model_, mpi_));
    evaluated_at_ = feeder_.steps();
    say("epoch %llu: loss %.3f, held-out accuracy %.3f\n", static_cast<unsigned long long>(epochs_), loss_,
        report_.epoch_accuracy.back());
  }

  void finish() {
    const double eval_s_while_fed = eval_s();
    const auto ranks = gather(feeder_.summary(), MPI_COMM_WORLD);  // Forebay
    // mpirun gives a signalled job a second; that is no time to evaluate.
    if (evaluation_ && !stopped_by_signal()) evaluate_at_end();
    report_.eval_s = eval_s_while_fed;
    report_.allreduce_s = replicas_.allreduce_s();
    if (mpi_.rank() != 0) return;
    const auto& mine = ranks.front();
    say("%llu steps in %.1f s, %.1f %% of them on new data\n", static_cast<unsigned long long>(mine.steps), mine.wall_s,
        100 * mine.fresh_fraction);
    if (report_.final_accuracy) say("final held-out accuracy %.3f\n", *report_.final_accuracy);
    if (!arguments_.summary.empty()) write_json(arguments_.summary, report_, ranks);
  }

  void evaluate_at_end() {
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      kept_[i].put_into(model_);
      CurvePoint& point = report_.curve[i];
      point.accuracy = evaluation_->accuracy(model_, mpi_);
      say("after %5.1f s and %llu steps: held-out accuracy %.3f\n", point.trained_s,
          static_cast<unsigned long long>(point.steps), point.accuracy);
    }
    if (!kept_.empty()) {
      report_.final_accuracy = report_.curve.back().accuracy;
    } else if (evaluated_at_ == feeder_.steps()) {
      report_.final_accuracy = report_.epoch_accuracy.back();
    } else {
      report_.final_accuracy = evaluation_->accuracy(model_, mpi_);
    }
    report_.held_out = evaluation_->samples();
  }

  // Collective: a signal may have reached only some of the ranks.
  [[nodiscard]] static bool stopped_by_signal() {
    int stopped = stop_signalled.load(std::memory_order_relaxed) ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &stopped, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return stopped != 0;
  }

  [[nodiscard]] double eval_s() const { return evaluation_ ? evaluation_->seconds() : 0; }

  template <typename... Values>
  void say(const char* format, Values... values) const {
    if (mpi_.rank() != 0) return;
    std::printf(format, values...);
    std::fflush(stdout);
  }

  const forebay::MpiSession& mpi_;
  const Arguments& arguments_;
  forebay::Feeder feeder_;
  Cnn model_;
  DataParallel replicas_;
  torch::optim::SGD optimizer_;
  std::optional<Evaluation> evaluation_;
  std::optional<Checkpoint> checkpoint_;
  Report report_;
  std::optional<Clock::time_point> begin_;  // of the first step
  std::vector<Weights> kept_;               // as of the times in report_.curve
  std::uint64_t epochs_ = 0;
  std::uint64_t evaluated_at_ = 0;  // steps made by then; 0 = not yet
  double loss_ = 0;
};

}  // namespace
}  // namespace train_cnn

int main(int argc, char** argv) {
  forebay::MpiSession mpi(argc, argv);  // Forebay: or make_communicator() of an MPI_Comm that is there already
  std::signal(SIGTERM, train_cnn::on_signal);
  std::signal(SIGINT, train_cnn::on_signal);
  const auto parsed = train_cnn::parse(argc, argv, mpi.rank() == 0);
  if (const int* code = std::get_if<int>(&parsed)) return *code;

  torch::set_num_threads(1);                   // the other cores of this rank are the decoders'
  at::globalContext().setFlushDenormal(true);  // tiny gradients would slow the steps tenfold
  try {
    train_cnn::Trainer(mpi, std::get<train_cnn::Arguments>(parsed)).train();
  } catch (const forebay::Error& error) {
    // Forebay throws at the same step on all ranks, so they may leave together. Any other exception is this rank's
    // own: it must leave the session's scope, which ends the job.
    if (mpi.rank() == 0) std::fprintf(stderr, "train_cnn: %s\n", error.what());
    return dynamic_cast<const forebay::ConfigError*>(&error) != nullptr ? 2 : 1;
  }
  return 0;
}
