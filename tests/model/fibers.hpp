#pragma once

#include <ucontext.h>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace forebay::model {

// The threads of a scenario, all on one system thread: a fiber runs until it hands over to another.
// A fiber that has finished waits for its next body, so stacks are allocated once for many
// executions.
class Fibers {
 public:
  using Body = std::function<void(std::size_t fiber)>;

  // Each fiber runs `body` when it is first handed over to, and again after each time that it has
  // finished. `body` must not throw, and must end by handing over to another fiber or leaving for
  // home.
  Fibers(std::size_t count, Body body);
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  // Switch from home to a fiber, from one fiber to another, and back home.
  void enter(std::size_t fiber) { go(home_, *fibers_[fiber]); }
  void hand_over(std::size_t from, std::size_t to) { go(*fibers_[from], *fibers_[to]); }
  void leave(std::size_t from) { go(*fibers_[from], home_); }
  // Drops whatever the fibers were in the middle of. Called from home.
  void abandon();

  // Whether the address lies on the stack of this fiber.
  [[nodiscard]] bool is_on_stack(std::size_t fiber, const void* address) const noexcept {
    const auto* const begin = fibers_[fiber]->stack.get();
    return address >= begin && address < begin + kStack;
  }

 private:
  static constexpr std::size_t kStack = std::size_t{256} * 1024;

  // What the C++ library keeps, per system thread, about exceptions that are being handled.
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
