#pragma once

#include <cstddef>

// AddressSanitizer knows what malloc handed out; the owner of memory that is kept for reuse or divided must tell it.
// This is the only file that checks for the sanitizer: in other builds these functions are empty.
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
// From now on any access to these bytes ends the program with a report. Any thread.
inline void poison(const void* begin, std::size_t bytes) noexcept { __asan_poison_memory_region(begin, bytes); }
// The bytes may be used again. Any thread.
inline void unpoison(const void* begin, std::size_t bytes) noexcept { __asan_unpoison_memory_region(begin, bytes); }
[[nodiscard]] inline bool is_poisoned(const void* byte) noexcept { return __asan_address_is_poisoned(byte) != 0; }
#else
inline constexpr bool kPoisons = false;
inline void poison(const void* /*begin*/, std::size_t /*bytes*/) noexcept {}
inline void unpoison(const void* /*begin*/, std::size_t /*bytes*/) noexcept {}
[[nodiscard]] inline bool is_poisoned(const void* /*byte*/) noexcept { return false; }
#endif

}  // namespace forebay
