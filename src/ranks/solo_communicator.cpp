#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/communicator.hpp>

namespace forebay {
namespace {

class OwnMemory final : public SharedMemory {
 public:
  explicit OwnMemory(std::size_t bytes) : memory_(std::make_unique<std::byte[]>(bytes)), bytes_(bytes) {}
  [[nodiscard]] std::span<std::byte> bytes() noexcept override { return {memory_.get(), bytes_}; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_;
};

// A job of one rank: every reduction is complete at once, every gather returns what was given, and
// there is nobody to tell anything.
class SoloCommunicator final : public Communicator {
 public:
  [[nodiscard]] std::uint32_t rank() const noexcept override { return 0; }
  [[nodiscard]] std::uint32_t size() const noexcept override { return 1; }
  [[nodiscard]] std::unique_ptr<Communicator> duplicate() const override { return solo_communicator(); }
  // The sum and the least of one rank are what it gave.
  void start_reduction(std::size_t /*channel*/, std::span<std::int64_t> /*values*/, std::size_t /*minima*/) override {}
  [[nodiscard]] bool test(std::size_t /*channel*/) override { return true; }
  [[nodiscard]] std::vector<std::byte> broadcast(std::vector<std::byte> bytes, std::uint32_t /*root*/) override {
    return bytes;
  }
  [[nodiscard]] std::vector<std::string> all_gather(std::string_view text) override { return {std::string(text)}; }
  // One rank waits for nobody.
  [[nodiscard]] std::uint64_t gathers() const noexcept override { return 0; }
  void while_waiting(std::function<void()> /*hook*/) override {}
  [[nodiscard]] std::unique_ptr<SharedMemory> share_on_node(std::size_t bytes) override {
    return std::make_unique<OwnMemory>(bytes);
  }
  void tell(std::string_view /*text*/) override {}
  [[nodiscard]] std::optional<Notice> listen() override { return std::nullopt; }
  // Nobody aborts other ranks for this one: the exception that carries the cause is enough.
  void note_failure(std::string_view /*cause*/) override {}
  void abort(std::string_view /*cause*/) override {}
  void abort_at_end(std::string_view /*cause*/) override {}
  bool close(double /*timeout_s*/) override { return true; }
};

}  // namespace

std::unique_ptr<Communicator> solo_communicator() { return std::make_unique<SoloCommunicator>(); }

}  // namespace forebay
