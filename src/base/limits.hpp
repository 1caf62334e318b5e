#pragma once

#include <string>
#include <string_view>

#include <forebay/error.hpp>

// Limits of this process, for messages, which should say which limit was reached and how to raise it. Any thread.
namespace forebay {

// The limit that an error number indicates: " (this process may have 256 files open: raise ulimit -n, ...)"; "" if it
// indicates none.
[[nodiscard]] std::string limit_behind(int error);

// " (ulimit -v allows this process 244 MiB of address space: raise it)"; "" if no such limit is set.
[[nodiscard]] std::string memory_limit();

// The error for a failed allocation: "there is no memory to decode a.jpg", with the limit that was reached, if any. It
// says nothing about the data, so it is not a SampleError.
[[nodiscard]] Error out_of_memory(std::string_view for_what);

// How many files this process may have open at once: its soft limit.
[[nodiscard]] unsigned long open_file_limit() noexcept;

// Raises that limit as far as the system permits, to at most 65,536. For Forebay's own programs only: others may use
// select(), which cannot handle descriptors above 1,023.
void raise_open_file_limit() noexcept;

}  // namespace forebay
