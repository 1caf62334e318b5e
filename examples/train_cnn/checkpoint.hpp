#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include <torch/torch.h>
#include <forebay/error.hpp>
#include <forebay/mpi.hpp>

#include "cnn.hpp"

namespace train_cnn {

// Model, optimiser and the feeder's state in one file, so that all are of the same step whenever the job is killed.
class Checkpoint {
 public:
  Checkpoint(std::string file, const forebay::MpiSession& mpi) : file_(std::move(file)), mpi_(mpi) {}

  // Rank 0 writes; all replicas are equal. A file that cannot be written is that rank's own error.
  void save(const Cnn& model, const torch::optim::SGD& optimizer, const std::string& feeder_state) const {
    if (mpi_.rank() != 0) return;
    torch::serialize::OutputArchive archive;
    torch::serialize::OutputArchive weights;
    torch::serialize::OutputArchive momenta;
    model->save(weights);
    optimizer.save(momenta);
    archive.write("model", weights);
    archive.write("optimizer", momenta);
    archive.write("feeder", torch::IValue(feeder_state));
    const std::string unfinished = file_ + ".saving";
    archive.save_to(unfinished);
    if (std::rename(unfinished.c_str(), file_.c_str()) != 0) throw std::runtime_error("cannot write " + file_);
  }

  // Collective: what rank 0 finds in the file goes into every replica. The feeder's state; nothing when there is no
  // file.
  std::optional<std::string> load(Cnn& model, torch::optim::SGD& optimizer) const {
    const std::string bytes = shared_bytes();
    if (bytes.empty()) return std::nullopt;
    std::istringstream in(bytes);
    torch::serialize::InputArchive archive;
    torch::serialize::InputArchive weights;
    torch::serialize::InputArchive momenta;
    torch::IValue feeder_state;
    try {
      archive.load_from(in);
      archive.read("model", weights);
      archive.read("optimizer", momenta);
      archive.read("feeder", feeder_state);
      model->load(weights);
      optimizer.load(momenta);
    } catch (const c10::Error& error) {
      throw forebay::ConfigError(file_ + " is not a checkpoint of this model: " + error.what_without_backtrace());
    }
    return feeder_state.toStringRef();
  }

 private:
  [[nodiscard]] std::string shared_bytes() const {
    std::string bytes;
    if (mpi_.rank() == 0) {
      std::ifstream in(file_, std::ios::binary);
      bytes.assign(std::istreambuf_iterator<char>(in), {});
    }
    std::uint64_t size = bytes.size();
    MPI_Bcast(&size, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    bytes.resize(size);
    MPI_Bcast(bytes.data(), static_cast<int>(size), MPI_BYTE, 0, MPI_COMM_WORLD);
    return bytes;
  }

  std::string file_;
  const forebay::MpiSession& mpi_;
};

}  // namespace train_cnn
