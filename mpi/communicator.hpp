#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/mpi.hpp>

namespace forebay::mpi {

// The cause of a failure, shared by a session and all duplicates of its communicator. Any thread
// may call any member.
class FailureNote {
 public:
  // Only the first cause is kept: later ones are usually consequences.
  void set(std::string_view cause);
  [[nodiscard]] std::string get() const;

  // If not empty, the session aborts the job with this cause instead of finalising MPI.
  void set_abort_cause(std::string_view cause);
  [[nodiscard]] std::string abort_cause() const;

  // Whether there is a session that can end the job.
  void set_session(bool exists) noexcept { session_.store(exists, std::memory_order_relaxed); }
  [[nodiscard]] bool has_session() const noexcept { return session_.load(std::memory_order_relaxed); }

 private:
  mutable std::mutex mutex_;
  std::string cause_;
  std::string abort_cause_;
  std::atomic<bool> session_{false};
};

// A Communicator over duplicates of an MPI communicator; forebay/communicator.hpp has the contract.
class MpiCommunicator final : public Communicator {
 public:
  // Collective over `parent`.
  MpiCommunicator(MPI_Comm parent, std::shared_ptr<FailureNote> note);
  // Never waits for other ranks: if close() was not called, it frees what is idle and leaks the
  // rest.
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

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
  void note_failure(std::string_view cause) override;
  void abort(std::string_view cause) override;
  void abort_at_end(std::string_view cause) override;
  bool close(double timeout_s) override;

 private:
  // A reduction in progress. MPI works on `values`, not on the caller's memory: an abandoned
  // operation may still complete, and write, during the trainer's own MPI calls.
  struct Channel {
    MPI_Request request = MPI_REQUEST_NULL;
    // One element of `type`: the number of minima, then the values. Sums and minima share one
    // reduction, so that a step needs only one.
    std::vector<std::int64_t> values;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    std::span<std::int64_t> result;
  };

  // A notice being sent to every other rank.
  struct Outgoing {
    std::string text;
    std::vector<MPI_Request> requests;
  };

  // An all_gather() in progress.
  struct Gather {
    std::string mine;
    std::uint64_t length = 0;
    std::vector<std::uint64_t> lengths;
    std::vector<int> counts;
    std::vector<int> offsets;
    std::string all;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  // A rank's message to all others when it closes.
  struct Farewell {
    std::int64_t notices = 0;  // notices sent to each other rank
    std::int64_t sums = 0;     // reductions started
  };

  // Everything that MPI may read or write while an operation is open. Leaked as a whole if one
  // stays open.
  struct Traffic {
    // Reductions and farewells have their own communicators: the calls of a rank that closes early,
    // or after an unfinished all_gather(), must not be matched with other operations of the other
    // ranks.
    MPI_Comm sums = MPI_COMM_NULL;
    MPI_Comm partings = MPI_COMM_NULL;
    MPI_Comm control = MPI_COMM_NULL;
    MPI_Op reduce = MPI_OP_NULL;
    std::array<Channel, kChannels> channels;
    std::list<Outgoing> notices;
    std::optional<Gather> gather;
    Farewell farewell;
    std::vector<Farewell> farewells;  // by rank
    MPI_Request farewell_request = MPI_REQUEST_NULL;
    bool is_parting = false;  // close() was called
  };

  enum class Ending : std::uint8_t { waiting, complete, impossible };

  [[nodiscard]] static std::unique_ptr<Traffic> open(MPI_Comm parent);
  void resize_channel(Channel& channel, std::size_t values);
  void wait_for_gather();
  [[nodiscard]] std::optional<Notice> receive_notice();
  void forget_sent_notices();
  // Advances closing, and tells how far it has come; never blocks.
  [[nodiscard]] Ending progress_closing();
  [[nodiscard]] bool is_idle() const noexcept;
  [[nodiscard]] bool channels_complete();
  void free_communicators() noexcept;
  void abandon() noexcept;

  std::unique_ptr<Traffic> traffic_;  // null once closed
  std::shared_ptr<FailureNote> note_;
  std::uint32_t rank_ = 0;
  std::uint32_t size_ = 1;
  std::int64_t notices_received_ = 0;
  std::uint64_t gathers_ = 0;
  std::function<void()> hook_;
};

// Zeroed memory shared by the ranks of `comm` on one node. Collective over `comm`; every rank must
// ask for the same number of bytes. Each rank unmaps its own view independently. Throws Error on
// all ranks if any of them fails.
[[nodiscard]] std::unique_ptr<SharedMemory> share_on_node(MPI_Comm comm, std::size_t bytes);

}  // namespace forebay::mpi
