#pragma once

// Enough of CUDA to run the threads of a block on the host, one at a time, with the keywords of
// device code. A thread runs until it waits for its warp or its block; the order in which threads
// continue is random, so that whatever such a wait does not order happens in many orders. Include
// it before device code and after all host headers.

#include <ucontext.h>

#include <deque>

#include "make/conversion.hpp"
#include "support.hpp"

namespace forebay::testing {

struct Index3 {
  unsigned x = 0;
};

// The threads of a block, as fibers of the calling thread.
class BlockOnHost {
 public:
  static constexpr std::size_t kLanes = 32;

  BlockOnHost(std::size_t threads, std::size_t shared_bytes, std::uint64_t seed)
      : random_(seed), fibers_(threads), shared_(shared_bytes + 16) {}

  // Runs `kernel` once as every thread of the block. Throws std::logic_error if some of them wait
  // for ever.
  void run(unsigned block, const std::function<void()>& kernel) {
    present() = this;
    block_.x = block;
    kernel_ = &kernel;
    for (auto& fiber : fibers_) start(fiber);
    while (step()) {
    }
    present() = nullptr;
    for (const auto& fiber : fibers_) {
      if (fiber.state != State::done) throw std::logic_error("threads wait for each other for ever");
    }
  }

  static BlockOnHost*& present() {
    static BlockOnHost* block = nullptr;
    return block;
  }
  [[nodiscard]] Index3 thread() const { return {static_cast<unsigned>(running_)}; }
  [[nodiscard]] Index3 block() const { return block_; }
  [[nodiscard]] std::byte* shared() {
    const auto misplaced = reinterpret_cast<std::uintptr_t>(shared_.data()) % 16;
    return shared_.data() + (16 - misplaced) % 16;
  }

  void wait_for_warp() { wait(State::at_warp); }
  // `word` of thread `source` of the warp, which all of its threads ask for together.
  std::uint32_t shuffled(std::uint32_t word, std::size_t source) {
    fibers_[running_].word = word;
    wait_for_warp();
    const std::uint32_t found = fibers_[running_ / kLanes * kLanes + source].word;
    wait_for_warp();
    return found;
  }

  // Copies of a thread, in groups; each is made at once or, drawn, when its group is waited for.
  void copy_later(void* to, const void* from, std::size_t bytes) {
    Fiber& fiber = fibers_[running_];
    if (fiber.groups.empty()) fiber.groups.emplace_back();
    if (random_.below(2) == 0) {
      std::memcpy(to, from, bytes);
    } else {
      fiber.groups.back().push_back([=] { std::memcpy(to, from, bytes); });
    }
  }
  void close_group() {
    Fiber& fiber = fibers_[running_];
    if (fiber.groups.empty()) fiber.groups.emplace_back();
    fiber.groups.emplace_back();
  }
  void wait_for_groups(std::size_t pending) {
    auto& groups = fibers_[running_].groups;
    for (; groups.size() > pending + 1; groups.pop_front()) {
      for (const auto& copy : groups.front()) copy();
    }
  }
  void wait_for_block() { wait(State::at_block); }

 private:
  enum class State : std::uint8_t { ready, at_warp, at_block, done };
  struct Fiber {
    ucontext_t context{};
    std::vector<std::byte> stack = std::vector<std::byte>(std::size_t{256} << 10);
    State state = State::ready;
    std::uint32_t word = 0;                                 // that the warp's threads may ask for
    std::deque<std::vector<std::function<void()>>> groups;  // of copies not yet made; the last is open
  };

  static void enter() {
    BlockOnHost& block = *present();
    (*block.kernel_)();
    block.wait(State::done);
  }
  void start(Fiber& fiber) {
    fiber.state = State::ready;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, enter, 0);
  }
  void wait(State state) {
    Fiber& fiber = fibers_[running_];
    fiber.state = state;
    swapcontext(&fiber.context, &scheduler_);
  }

  // Lets every ready thread run until its next wait; false if none was ready or all are done.
  bool step() {
    release();
    ready_.clear();
    for (std::size_t i = 0; i < fibers_.size(); ++i) {
      if (fibers_[i].state == State::ready) ready_.push_back(i);
    }
    // They run in a new random order each time.
    for (std::size_t left = ready_.size(); left > 0; --left) {
      const std::size_t drawn = random_.below(left);
      running_ = ready_[drawn];
      ready_[drawn] = ready_[left - 1];
      swapcontext(&scheduler_, &fibers_[running_].context);
    }
    return std::ranges::any_of(fibers_, [](const Fiber& fiber) { return fiber.state != State::done; }) &&
           !ready_.empty();
  }
  void release() {
    const auto release_all = [](auto first, auto last, State state) {
      if (!std::all_of(first, last, [&](const Fiber& f) { return f.state == state || f.state == State::done; })) return;
      for (; first != last; ++first) {
        if (first->state == state) first->state = State::ready;
      }
    };
    for (std::size_t i = 0; i < fibers_.size(); i += kLanes) {
      const auto first = fibers_.begin() + static_cast<std::ptrdiff_t>(i);
      release_all(first, first + std::min<std::ptrdiff_t>(kLanes, fibers_.end() - first), State::at_warp);
    }
    release_all(fibers_.begin(), fibers_.end(), State::at_block);
  }

  Random random_;
  std::vector<Fiber> fibers_;
  std::vector<std::size_t> ready_;
  std::vector<std::byte> shared_;
  const std::function<void()>* kernel_ = nullptr;
  std::size_t running_ = 0;
  Index3 block_;
  ucontext_t scheduler_{};
};

}  // namespace forebay::testing

// NOLINTBEGIN: these are the device compiler's names
#define __global__
#define __device__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define threadIdx (forebay::testing::BlockOnHost::present()->thread())
#define blockIdx (forebay::testing::BlockOnHost::present()->block())

inline void __syncthreads() { forebay::testing::BlockOnHost::present()->wait_for_block(); }
inline void __syncwarp() { forebay::testing::BlockOnHost::present()->wait_for_warp(); }
inline std::uint32_t __shfl_sync(std::uint32_t /*mask*/, std::uint32_t word, std::int32_t lane) {
  return forebay::testing::BlockOnHost::present()->shuffled(word, static_cast<std::size_t>(lane));
}

struct alignas(16) uint4 {
  std::uint32_t x, y, z, w;
};
inline void __pipeline_memcpy_async(void* to, const void* from, std::size_t bytes) {
  forebay::testing::BlockOnHost::present()->copy_later(to, from, bytes);
}
inline void __pipeline_commit() { forebay::testing::BlockOnHost::present()->close_group(); }
inline void __pipeline_wait_prior(std::size_t pending) {
  forebay::testing::BlockOnHost::present()->wait_for_groups(pending);
}

template <typename T>
T __ldg(const T* at) {
  return *at;
}

inline std::uint32_t __funnelshift_r(std::uint32_t low, std::uint32_t high, std::uint32_t shift) {
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32U | low) >> (shift & 31U));
}

inline std::uint32_t __byte_perm(std::uint32_t x, std::uint32_t y, std::uint32_t selector) {
  const std::uint64_t bytes = std::uint64_t{y} << 32U | x;
  std::uint32_t result = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    result |= static_cast<std::uint32_t>(bytes >> (8 * (selector >> (4 * i) & 7U)) & 0xffU) << (8 * i);
  }
  return result;
}

inline std::uint32_t __dp2a_lo(std::uint32_t pair, std::uint32_t bytes, std::uint32_t sum) {
  return sum + (pair & 0xffffU) * (bytes & 0xffU) + (pair >> 16U) * (bytes >> 8U & 0xffU);
}
inline std::uint32_t __dp2a_hi(std::uint32_t pair, std::uint32_t bytes, std::uint32_t sum) {
  return __dp2a_lo(pair, bytes >> 16U, sum);
}

inline float __uint_as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }

struct Bits16 {
  std::uint16_t bits;
};
inline Bits16 __float2half_rn(float value) {
  return {static_cast<std::uint16_t>(forebay::make::encode(value, forebay::DType::float16))};
}
inline Bits16 __float2bfloat16_rn(float value) {
  return {static_cast<std::uint16_t>(forebay::make::encode(value, forebay::DType::bfloat16))};
}
inline std::uint16_t __half_as_ushort(Bits16 half) { return half.bits; }
inline std::uint16_t __bfloat16_as_ushort(Bits16 half) { return half.bits; }
// NOLINTEND
