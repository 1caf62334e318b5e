#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/file_io.hpp"

namespace forebay::data {

// What a file really is where it holds something in place of what its name says, and what to do about it: "a pointer of
// Git LFS, not the file itself; run `git lfs pull`". For files that no format of this house looks like: pointers of Git
// LFS, error pages that a download saved, texts in UTF-16 or UTF-32, files compressed by something else than gzip,
// containers that must be converted. "" where nothing like that is seen. `head`: its first bytes, some hundred are
// enough. Any thread may call.
[[nodiscard]] std::string nature_of(std::span<const std::byte> head);

// The same behind a message: ": it is a pointer of Git LFS, ..."; "" where nothing is seen.
[[nodiscard]] std::string nature_as_cause(std::span<const std::byte> head);
// The same of a file; "" if it cannot be read.
[[nodiscard]] std::string nature_of_file(const std::string& path);
[[nodiscard]] std::string nature_of_file(const OpenFile& file);
// Throws SampleError("the file is ...") if it is something else than its name says.
void refuse_foreign(const std::string& path);
// Whether a file is a pointer of Git LFS, which is never what was meant.
[[nodiscard]] bool is_lfs_pointer(const std::string& path);

// Whether the bytes may begin zlib data (RFC 1950). Two bytes are no proof: ask where what they should be is not there.
[[nodiscard]] bool may_be_zlib(std::span<const std::byte> head) noexcept;

}  // namespace forebay::data
