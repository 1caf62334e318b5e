// A Communicator made of C callbacks, for programs with their own communication between ranks.
//
// The library calls it on the feeder's thread. Callbacks cannot throw; they return a status and
// write a message. Those that wait (all_gather, close) get a forebay_waiting, whose look() they
// must call now and then: it runs the library's own hook, which notices signals and stop requests.
// If the hook throws, look() returns true, the callback must return, and the exception is rethrown
// here.
//
// Texts of different lengths are exchanged in two steps, lengths first, because callbacks move the
// same number of bytes on all ranks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "parts.hpp"

namespace forebay::c {
namespace {

class GivenMemory final : public SharedMemory {
 public:
  GivenMemory(const forebay_communicator& calls, std::shared_ptr<void> owner, std::span<std::byte> bytes)
      : calls_(calls), owner_(std::move(owner)), bytes_(bytes) {}
  ~GivenMemory() override {
    if (calls_.release_shared != nullptr) calls_.release_shared(calls_.context, bytes_.data(), bytes_.size());
  }
  GivenMemory(const GivenMemory&) = delete;
  GivenMemory& operator=(const GivenMemory&) = delete;
  [[nodiscard]] std::span<std::byte> bytes() noexcept override { return bytes_; }

 private:
  forebay_communicator calls_;
  std::shared_ptr<void> owner_;
  std::span<std::byte> bytes_;
};

class GivenCommunicator final : public Communicator {
 public:
  // `owner` keeps the context alive; it is empty if the caller owns the context.
  GivenCommunicator(const forebay_communicator& calls, std::shared_ptr<void> owner)
      : calls_(calls), owner_(std::move(owner)) {}

  [[nodiscard]] std::uint32_t rank() const noexcept override { return calls_.rank; }
  [[nodiscard]] std::uint32_t size() const noexcept override { return calls_.size; }

  [[nodiscard]] std::unique_ptr<Communicator> duplicate() const override {
    forebay_communicator copy = calls_;
    require("duplicate()", [&](char* message) { return calls_.duplicate(calls_.context, &copy.context, message); });
    return std::make_unique<GivenCommunicator>(copy, owned(copy.context, copy.destroy));
  }

  void start_reduction(std::size_t channel, std::span<std::int64_t> values, std::size_t minima) override {
    require("start_reduction()", [&](char* message) {
      return calls_.start_reduction(calls_.context, static_cast<std::uint32_t>(channel), values.data(), values.size(),
                                    minima, message);
    });
  }
  [[nodiscard]] bool test(std::size_t channel) override {
    bool is_done = false;
    require("test()", [&](char* message) {
      return calls_.test(calls_.context, static_cast<std::uint32_t>(channel), &is_done, message);
    });
    return is_done;
  }

  [[nodiscard]] std::vector<std::byte> broadcast(std::vector<std::byte> bytes, std::uint32_t root) override {
    std::uint64_t length = bytes.size();
    broadcast_part(std::as_writable_bytes(std::span(&length, 1)), root);
    bytes.resize(length);
    if (length > 0) broadcast_part(bytes, root);
    return bytes;
  }

  // is_gathering_ stays true if an exchange fails halfway: the ranks are then out of step, and no
  // other exchange may follow.
  [[nodiscard]] std::vector<std::string> all_gather(std::string_view text) override {
    if (is_gathering_) {
      throw Error("the ranks cannot communicate any more: an earlier exchange between them did not end");
    }
    is_gathering_ = true;
    const std::uint64_t length = text.size();
    std::vector<std::uint64_t> lengths(size());
    gather(&length, sizeof(length), lengths.data());
    const std::uint64_t longest = *std::ranges::max_element(lengths);
    std::string mine(text);
    mine.resize(longest);
    std::string all(longest * size(), '\0');
    if (longest > 0) gather(mine.data(), longest, all.data());
    std::vector<std::string> texts;
    texts.reserve(size());
    for (std::size_t rank = 0; rank < size(); ++rank) texts.push_back(all.substr(rank * longest, lengths[rank]));
    is_gathering_ = false;
    ++gathers_;
    return texts;
  }
  [[nodiscard]] std::uint64_t gathers() const noexcept override { return gathers_; }
  void while_waiting(std::function<void()> hook) override { hook_ = std::move(hook); }

  // Without the callback every rank has its own memory, which takes more of it but gives the same
  // result.
  [[nodiscard]] std::unique_ptr<SharedMemory> share_on_node(std::size_t bytes) override {
    if (calls_.share_on_node == nullptr) return solo_communicator()->share_on_node(bytes);
    void* memory = nullptr;
    require("share_on_node()",
            [&](char* message) { return calls_.share_on_node(calls_.context, bytes, &memory, message); });
    if (memory == nullptr) throw Error("the communicator's share_on_node() gave no memory");
    return std::make_unique<GivenMemory>(calls_, owner_, std::span(static_cast<std::byte*>(memory), bytes));
  }

  // With a single rank there is nobody to notify.
  void tell(std::string_view text) override {
    if (size() == 1) return;
    require("tell()", [&](char* message) { return calls_.tell(calls_.context, text.data(), text.size(), message); });
  }
  [[nodiscard]] std::optional<Notice> listen() override {
    if (size() == 1) return std::nullopt;
    std::uint32_t from = 0;
    const void* text = nullptr;
    std::size_t length = 0;
    require("listen()", [&](char* message) { return calls_.listen(calls_.context, &from, &text, &length, message); });
    if (text == nullptr) return std::nullopt;
    if (from >= size()) throw Error("the communicator's listen() has heard of rank " + std::to_string(from));
    return Notice{.rank = from, .text = std::string(static_cast<const char*>(text), length)};
  }

  void note_failure(std::string_view /*cause*/) override {}  // the program gets the error itself
  void abort(std::string_view cause) override {
    if (calls_.abort != nullptr) calls_.abort(calls_.context, std::string(cause).c_str());
  }
  void abort_at_end(std::string_view /*cause*/) override {}

  // May be called again after a timeout.
  bool close(double timeout_s) override {
    if (is_closed_) return true;
    const forebay_waiting waiting = look_for();
    require("close()",
            [&](char* message) { return calls_.close(calls_.context, timeout_s, &is_closed_, &waiting, message); });
    return is_closed_;
  }

 private:
  // Calls a callback. Throws what the hook of while_waiting() threw meanwhile, or an Error with the
  // callback's message. The hook's exception has precedence, because it caused the callback to
  // fail.
  template <typename Call>
  void require(const char* what, Call&& call) const {
    Message message;
    const forebay_status status = call(message.room());
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
    if (status != FOREBAY_OK)
      throw Error(failure_of(std::string("the communicator's ") + what, status, message.text()));
  }

  void broadcast_part(std::span<std::byte> bytes, std::uint32_t root) {
    require("broadcast()",
            [&](char* message) { return calls_.broadcast(calls_.context, bytes.data(), bytes.size(), root, message); });
  }
  void gather(const void* mine, std::size_t size, void* all) {
    const forebay_waiting waiting = look_for();
    require("all_gather()",
            [&](char* message) { return calls_.all_gather(calls_.context, mine, size, all, &waiting, message); });
  }

  [[nodiscard]] forebay_waiting look_for() noexcept {
    return {.struct_size = sizeof(forebay_waiting), .context = this, .look = [](void* self) {
              return static_cast<GivenCommunicator*>(self)->look();
            }};
  }
  bool look() noexcept {
    if (!hook_) return false;
    try {
      hook_();
      return false;
    } catch (...) {
      thrown_ = std::current_exception();
      return true;
    }
  }

  forebay_communicator calls_;
  std::shared_ptr<void> owner_;
  std::function<void()> hook_;
  mutable std::exception_ptr thrown_;  // thrown by the hook during a callback
  std::uint64_t gathers_ = 0;
  bool is_gathering_ = false;
  bool is_closed_ = false;
};

void require_all(const char* name, std::initializer_list<std::pair<const char*, bool>> members) {
  for (const auto& [member, is_there] : members) {
    if (!is_there) refuse(std::string(name) + "::" + member + " is null");
  }
}

}  // namespace

void check(const forebay_communicator& given) {
  if (given.rank >= given.size) {
    refuse("forebay_communicator: rank is " + std::to_string(given.rank) + " and size " + std::to_string(given.size) +
           (given.size == 0 ? ": did forebay_mpi_communicator() fail?" : ""));
  }
  require_all("forebay_communicator", {{"duplicate", given.duplicate != nullptr},
                                       {"destroy", given.destroy != nullptr},
                                       {"start_reduction", given.start_reduction != nullptr},
                                       {"test", given.test != nullptr},
                                       {"broadcast", given.broadcast != nullptr},
                                       {"all_gather", given.all_gather != nullptr},
                                       {"tell", given.tell != nullptr},
                                       {"listen", given.listen != nullptr},
                                       {"close", given.close != nullptr}});
}

std::unique_ptr<Communicator> made_of(const forebay_communicator& communicator) {
  return std::make_unique<GivenCommunicator>(communicator, nullptr);
}

// The context is destroyed once, when its last owner is gone.
std::shared_ptr<void> owned(void* context, void (*destroy)(void* context)) {
  return {context, [destroy](void* last) {
            if (destroy != nullptr) destroy(last);
          }};
}

}  // namespace forebay::c
