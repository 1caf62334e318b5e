#pragma once

#include <forebay/error.hpp>

// Errors of files that their readers answer in ways of their own.
namespace forebay {

// A file ended before its size said: it may be written at this moment. It is read a few times more within moments, and
// then is bad.
class TruncatedFile final : public SampleError {
 public:
  explicit TruncatedFile(const SampleError& error) : SampleError(error) {}
};

[[nodiscard]] inline bool is_truncated(const SampleError& error) noexcept {
  return dynamic_cast<const TruncatedFile*>(&error) != nullptr;
}

// The process, or the machine, has no descriptor left for a file.
class NoDescriptor final : public SampleError {
 public:
  explicit NoDescriptor(const SampleError& error) : SampleError(error) {}
};

}  // namespace forebay
