// A trainer whose step is a CUDA graph: captured once, replayed for every batch. With transform.when = "dequeue" and
// one lease at a time, every batch is at the same address, the only one that the graph knows. The step here adds up
// each channel's values; the means and deviations at the end tell whether transform.mean and transform.std fit the
// data.
//
//   cuda_graph feed.toml [section.key=value ...]

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <forebay/feeder.hpp>

#include "step.hpp"

namespace {

constexpr int kGpu = 0;

void require(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(status));
}

// A stream that waits for none of the others, the default stream included.
class Stream {
 public:
  Stream() { require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
  ~Stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] cudaStream_t get() const noexcept { return stream_; }
  [[nodiscard]] forebay::StreamView view() const noexcept { return {stream_}; }

 private:
  cudaStream_t stream_ = nullptr;
};

// What the steps work on, allocated before any capture. It is zero for what is put on the stream: a memset on the
// default stream would not be ordered with that.
class Totals {
 public:
  explicit Totals(const Stream& stream) {
    require(cudaMalloc(reinterpret_cast<void**>(&total_), sizeof(Statistics)), "cudaMalloc");
    require(cudaMemsetAsync(total_, 0, sizeof(Statistics), stream.get()), "cudaMemsetAsync");
  }
  ~Totals() { static_cast<void>(cudaFree(total_)); }
  Totals(const Totals&) = delete;
  Totals& operator=(const Totals&) = delete;

  [[nodiscard]] Statistics* on_gpu() const noexcept { return total_; }
  // After all that was put on the stream.
  [[nodiscard]] Statistics read(const Stream& stream) const {
    Statistics here{};
    require(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    require(cudaMemcpy(&here, total_, sizeof(here), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return here;
  }

 private:
  Statistics* total_ = nullptr;
};

// A step on one tensor, captured.
class StepGraph {
 public:
  StepGraph(const forebay::TensorView& images, const Totals& totals, const Stream& stream) : images_(images) {
    // Nothing runs during a capture, and nothing of Forebay's may be called: no next(), no lease may end. The mode
    // leaves other threads free to do as they like.
    require(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    const cudaError_t put =
        put_step(images.as<float>(), images.shape[0], images.shape[2] * images.shape[3], totals.on_gpu(), stream.get());
    cudaGraph_t graph = nullptr;
    require(cudaStreamEndCapture(stream.get(), &graph), "cudaStreamEndCapture");
    const cudaError_t made = cudaGraphInstantiate(&step_, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    require(put, "the step's kernels");
    require(made, "cudaGraphInstantiate");
  }
  ~StepGraph() { static_cast<void>(cudaGraphExecDestroy(step_)); }
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  // Puts the step on the stream. The graph reads where it was captured, whatever the batch says: so that is checked.
  void launch(const forebay::Lease& batch, const Stream& stream) const {
    const forebay::TensorView images = batch.images();
    if (images.data != images_.data || images.shape != images_.shape) {
      throw std::runtime_error(
          "step " + std::to_string(batch.step()) +
          ": the batch is at another address, or of another shape, than the graph was captured for. "
          "Is another lease held? Only one at a time has a fixed address");
    }
    require(cudaGraphLaunch(step_, stream.get()), "cudaGraphLaunch");
  }

 private:
  forebay::TensorView images_;
  cudaGraphExec_t step_ = nullptr;
};

// What the graph depends on; the rest is the configuration's.
forebay::Options graph_options(const std::string& file, const std::vector<std::string>& settings) {
  forebay::Options options = forebay::load_options(file, settings);
  options.device = "cuda:" + std::to_string(kGpu);  // the trainer's GPU; "auto" might take the host
  options.transform.when = forebay::When::dequeue;  // a tensor at one address, not slots at several
  options.transform.dtype = forebay::DType::float32;
  options.transform.layout = forebay::Layout::nchw;
  options.dataset.drop_last = true;  // a graph is of one batch size
  return options;
}

void print(const Statistics& total) {
  std::printf("channel      mean  deviation\n");
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const double mean = total.sum[channel] / total.count;
    const double variance = total.sum_of_squares[channel] / total.count - mean * mean;
    std::printf("%7zu %9.4f  %9.4f\n", channel, mean, std::sqrt(std::max(0.0, variance)));
  }
}

void train(const forebay::Options& options) {
  // First, so that a machine without a GPU hears of it in Forebay's words.
  forebay::Feeder feeder(options);
  std::printf("%s\n", feeder.describe().c_str());
  require(cudaSetDevice(kGpu), "cudaSetDevice");
  const Stream stream;
  const Totals totals(stream);
  std::optional<StepGraph> step;
  const void* address = nullptr;

  while (const auto batch = feeder.next(stream.view())) {  // the batch is complete for what is put on the stream
    if (!step) {
      step.emplace(batch->images(), totals, stream);
      address = batch->images().data;
    }
    step->launch(*batch, stream);
  }  // the lease ends after the step, in the order of the stream: the host does not wait

  if (!step) throw std::runtime_error("there was no batch: the dataset has fewer samples than dataset.batch_size");
  const Statistics total = totals.read(stream);
  feeder.close();
  const forebay::Summary summary = feeder.summary();
  std::printf("%.0f steps by one graph, every batch at %p; %llu fresh, %llu reused, each with a view of its own\n",
              total.steps, address, static_cast<unsigned long long>(summary.fresh),
              static_cast<unsigned long long>(summary.reused));
  print(total);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CONFIG [section.key=value ...]\n", argv[0]);
    return 2;
  }
  try {
    train(graph_options(argv[1], std::vector<std::string>(argv + 2, argv + argc)));
  } catch (const forebay::ConfigError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
