#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/communicator.hpp>

#include "references.hpp"

namespace forebay::python {

// A communicator whose messages are carried by a Python object (forebay.Communicator, in
// forebay/communicator.py): any MPI that mpi4py was built for, or a process group. Its members take
// the GIL for each call and never hold it while they wait.
class PythonCommunicator final : public Communicator {
 public:
  // What Python raises is kept in `raised`. REQUIRES: the GIL.
  PythonCommunicator(nb::object python, std::shared_ptr<Raised> raised);

  [[nodiscard]] std::uint32_t rank() const noexcept override { return rank_; }
  [[nodiscard]] std::uint32_t size() const noexcept override { return size_; }
  [[nodiscard]] std::unique_ptr<Communicator> duplicate() const override;
  void start_reduction(std::size_t channel, std::span<std::int64_t> values, std::size_t minima) override;
  [[nodiscard]] bool test(std::size_t channel) override;
  [[nodiscard]] std::vector<std::byte> broadcast(std::vector<std::byte> bytes, std::uint32_t root) override;
  [[nodiscard]] std::vector<std::string> all_gather(std::string_view text) override;
  [[nodiscard]] std::uint64_t gathers() const noexcept override { return gathers_; }
  void while_waiting(std::function<void()> hook) override { hook_ = std::move(hook); }
  [[nodiscard]] std::unique_ptr<SharedMemory> share_on_node(std::size_t bytes) override;
  void tell(std::string_view text) override;
  [[nodiscard]] std::optional<Notice> listen() override;
  void note_failure(std::string_view /*cause*/) override {}  // the exception already carries it
  void abort(std::string_view cause) override;
  void abort_at_end(std::string_view /*cause*/) override {}
  bool close(double timeout_s) override;

 private:
  template <typename Work>
  auto python(Work&& work) const {
    return with_python(*raised_, std::forward<Work>(work));
  }

  std::shared_ptr<Raised> raised_;
  Held object_;
  // Methods called in every step, looked up once.
  Held start_reduction_;
  Held test_;
  Held listen_;
  std::uint32_t rank_ = 0;
  std::uint32_t size_ = 1;
  std::uint64_t gathers_ = 0;
  bool is_gathering_ = false;
  bool is_closing_ = false;
  bool is_closed_ = false;
  std::function<void()> hook_;
};

// The error of the lowest rank that has one, or nothing; it names the rank if there are several. Each rank passes its
// own error, "" for none. Collective, on a duplicate of the communicator.
[[nodiscard]] std::optional<std::string> first_error(const Communicator& communicator, const std::string& mine);

}  // namespace forebay::python
