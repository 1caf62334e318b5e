#pragma once

#include <string>
#include <string_view>

#include <forebay/error.hpp>

// Limits of this process, for messages: who meets one should read which it was and how it is raised. Any thread.
namespace forebay {

// What stands behind an error number: " (this process may have 256 files open: raise ulimit -n, ...)"; "" where no
// limit of this process does.
[[nodiscard]] std::string limit_behind(int error);

// " (ulimit -v allows this process 244 MiB of address space: raise it)"; "" where no such limit is set.
[[nodiscard]] std::string memory_limit();

// The system refused memory: "there is no memory to decode a.jpg", with the limit that was met, if there is one. It
// says nothing about the data, so it is no SampleError.
[[nodiscard]] Error out_of_memory(std::string_view for_what);

// How many files this process may have open at a time: its soft limit.
[[nodiscard]] unsigned long open_file_limit() noexcept;

// Raises that limit as far as the system allows the process, to 65,536 at most. For programs of Forebay's own: in
// another program select(), which knows no file above 1,023, may be in use.
void raise_open_file_limit() noexcept;

}  // namespace forebay
