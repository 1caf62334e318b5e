#pragma once

#include <hwy/highway.h>

// FOREBAY_CALL_COMPILED(target, call) calls N_AVX2::call if the variable `target` is HWY_AVX2, and
// so on for the targets that the file is compiled for; nothing for others. Include this header
// after Highway's headers have been included for the last target, and use the macro in namespace
// forebay.
#if HWY_TARGETS & HWY_AVX3_DL
#define FOREBAY_IF_AVX3_DL(target, call) \
  if ((target) == HWY_AVX3_DL) return N_AVX3_DL::call
#else
#define FOREBAY_IF_AVX3_DL(target, call) static_cast<void>(target)
#endif
#if HWY_TARGETS & HWY_AVX3
#define FOREBAY_IF_AVX3(target, call) \
  if ((target) == HWY_AVX3) return N_AVX3::call
#else
#define FOREBAY_IF_AVX3(target, call) static_cast<void>(target)
#endif
#if HWY_TARGETS & HWY_AVX2
#define FOREBAY_IF_AVX2(target, call) \
  if ((target) == HWY_AVX2) return N_AVX2::call
#else
#define FOREBAY_IF_AVX2(target, call) static_cast<void>(target)
#endif
#if HWY_TARGETS & HWY_SSE4
#define FOREBAY_IF_SSE4(target, call) \
  if ((target) == HWY_SSE4) return N_SSE4::call
#else
#define FOREBAY_IF_SSE4(target, call) static_cast<void>(target)
#endif
#if HWY_TARGETS & HWY_NEON
#define FOREBAY_IF_NEON(target, call) \
  if ((target) == HWY_NEON) return N_NEON::call
#else
#define FOREBAY_IF_NEON(target, call) static_cast<void>(target)
#endif
#define FOREBAY_CALL_COMPILED(target, call) \
  FOREBAY_IF_AVX3_DL(target, call);         \
  FOREBAY_IF_AVX3(target, call);            \
  FOREBAY_IF_AVX2(target, call);            \
  FOREBAY_IF_SSE4(target, call);            \
  FOREBAY_IF_NEON(target, call)
