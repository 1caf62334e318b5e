#include "fibers.hpp"

#include <cxxabi.h>
#include <cstring>
#include <utility>

namespace forebay::model {

Fibers::Fibers(std::size_t count, Body body) : body_(std::move(body)) {
  for (std::size_t i = 0; i < count; ++i) {
    fibers_.push_back(std::make_unique<Context>());
    fibers_.back()->stack = std::make_unique<std::byte[]>(kStack);
    prepare(i);
  }
}

void Fibers::prepare(std::size_t fiber) {
  Context& context = *fibers_[fiber];
  getcontext(&context.entry);
  context.entry.uc_stack.ss_sp = context.stack.get();
  context.entry.uc_stack.ss_size = kStack;
  context.entry.uc_link = nullptr;
  context.is_entered = false;
  context.exceptions = {};
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&context.entry, reinterpret_cast<void (*)()>(&Fibers::run), 3, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self & 0xffffffffU), static_cast<unsigned>(fiber));
}

void Fibers::abandon() {
  for (std::size_t i = 0; i < fibers_.size(); ++i) prepare(i);
}

void Fibers::run(unsigned high, unsigned low, unsigned fiber) {
  auto* const fibers = reinterpret_cast<Fibers*>(static_cast<std::uintptr_t>(high) << 32 | low);
  for (;;) fibers->body_(fiber);
}

// Uses setjmp() and longjmp(), which make no system calls; swapcontext() makes two.
void Fibers::go(Context& from, Context& to) {
  static_assert(sizeof(Exceptions) == 16);
  void* const exceptions = abi::__cxa_get_globals();
  std::memcpy(&from.exceptions, exceptions, sizeof(Exceptions));
  std::memcpy(exceptions, &to.exceptions, sizeof(Exceptions));
  if (_setjmp(from.jump) != 0) return;
  if (to.is_entered) _longjmp(to.jump, 1);
  to.is_entered = true;
  setcontext(&to.entry);
}

}  // namespace forebay::model
