#pragma once

#include <ucontext.h>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace forebay::model {

// The threads of a scenario, all on one thread of the system: one runs until it hands over to another. A fiber that has
// come to its end waits for its next body, so that stacks are made once for many executions.
class Fibers {
 public:
  using Body = std::function<void(std::size_t fiber)>;

  // `body` is run by each fiber whenever it is handed over to after its end; it must not throw, and its last call is
  // to leave for another one or for home.
  Fibers(std::size_t count, Body body);
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  // From home to a fiber, from a fiber to another one, and back home.
  void enter(std::size_t fiber) { go(home_, *fibers_[fiber]); }
  void hand_over(std::size_t from, std::size_t to) { go(*fibers_[from], *fibers_[to]); }
  void leave(std::size_t from) { go(*fibers_[from], home_); }
  // Whatever the fibers were in the middle of is never continued. From home.
  void abandon();

  // The address lies on the stack of this fiber.
  [[nodiscard]] bool is_on_stack(std::size_t fiber, const void* address) const noexcept {
    const auto* const begin = fibers_[fiber]->stack.get();
    return address >= begin && address < begin + kStack;
  }

 private:
  static constexpr std::size_t kStack = std::size_t{256} * 1024;

  // What the C++ library knows of exceptions that are being handled, one for each thread of the system.
  struct Exceptions {
    void* caught = nullptr;
    unsigned uncaught = 0;
  };
  struct Context {
    std::jmp_buf jump{};
    ucontext_t entry{};
    bool is_entered = true;  // continue at `jump`, not at `entry`
    Exceptions exceptions;
    std::unique_ptr<std::byte[]> stack;
  };

  static void run(unsigned high, unsigned low, unsigned fiber);
  void go(Context& from, Context& to);
  void prepare(std::size_t fiber);

  Body body_;
  Context home_;
  std::vector<std::unique_ptr<Context>> fibers_;
};

}  // namespace forebay::model
