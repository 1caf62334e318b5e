#pragma once

#include <cstddef>

// AddressSanitizer knows what malloc gave out. What is kept for reuse, or cut into parts, has its owner tell it. The
// only place that asks how it is compiled: in other builds nothing is left of this.
#if defined(__SANITIZE_ADDRESS__)
#define FOREBAY_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FOREBAY_POISONS 1
#endif
#endif

#ifdef FOREBAY_POISONS
#include <sanitizer/asan_interface.h>
#endif

namespace forebay {

#ifdef FOREBAY_POISONS
inline constexpr bool kPoisons = true;
// From now on an access to any of these bytes ends the program with a report. Any thread.
inline void poison(const void* begin, std::size_t bytes) noexcept { __asan_poison_memory_region(begin, bytes); }
// They may be used again. Any thread.
inline void unpoison(const void* begin, std::size_t bytes) noexcept { __asan_unpoison_memory_region(begin, bytes); }
[[nodiscard]] inline bool is_poisoned(const void* byte) noexcept { return __asan_address_is_poisoned(byte) != 0; }
#else
inline constexpr bool kPoisons = false;
inline void poison(const void* /*begin*/, std::size_t /*bytes*/) noexcept {}
inline void unpoison(const void* /*begin*/, std::size_t /*bytes*/) noexcept {}
[[nodiscard]] inline bool is_poisoned(const void* /*byte*/) noexcept { return false; }
#endif

}  // namespace forebay
