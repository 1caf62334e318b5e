#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/file_io.hpp"

namespace forebay::data {

// What a file really is if that is not what its name says, and what to do about it: "a pointer of Git LFS, not the file
// itself; run `git lfs pull`". Recognises what no supported format looks like: Git LFS pointers, error pages saved by a
// download, texts in UTF-16 or UTF-32, files compressed by something other than gzip, containers that must be
// converted. "" if it recognises nothing. `head`: the file's first bytes; a few hundred are enough. Any thread may
// call.
[[nodiscard]] std::string nature_of(std::span<const std::byte> head);

// The same as the continuation of a message: ": it is a pointer of Git LFS, ..."; "" if it recognises nothing.
[[nodiscard]] std::string nature_as_cause(std::span<const std::byte> head);
// The same for a file; "" if it cannot be read.
[[nodiscard]] std::string nature_of_file(const std::string& path);
[[nodiscard]] std::string nature_of_file(const OpenFile& file);
// Throws SampleError("the file is ...") if it is not what its name says.
void refuse_foreign(const std::string& path);
// Whether a file is a Git LFS pointer, which is never what was meant.
[[nodiscard]] bool is_lfs_pointer(const std::string& path);

// Whether the bytes may begin zlib data (RFC 1950). Two bytes are no proof: use it only after the expected format was
// ruled out.
[[nodiscard]] bool may_be_zlib(std::span<const std::byte> head) noexcept;

}  // namespace forebay::data
