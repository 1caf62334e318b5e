#pragma once

#include <sys/stat.h>
#include <cstddef>
#include <forebay/dataset.hpp>
#include <forebay/error.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "file_descriptor.hpp"
#include "text_file.hpp"

namespace forebay {

// A regular file, open for reading, and its size.
struct OpenFile {
  FileDescriptor descriptor;
  std::size_t size = 0;
};

// No sample and no annotation is larger; a larger one is refused before memory is taken for it.
inline constexpr std::size_t kLargestSampleFile = std::size_t{1} << 30U;
inline constexpr std::size_t kLargestAnnotationFile = std::size_t{16} << 20U;

// The functions below may be called from any thread. Their errors do not name the file: the caller knows it by a name
// that people recognise.

// The error of a failed system call, transient when the same call may succeed later: "cannot open: Input/output error".
[[nodiscard]] SampleError system_failure(std::string_view what, int error);

// Why the path cannot be a sample: "cannot open: no such file", "is a FIFO"; "" when a regular file is there.
[[nodiscard]] std::string problem_of_file(const std::string& path);

// The path lies on a file system of this machine's own disks or memory, whose reads wait for the same device and the
// same pages however often they are begun. False for what cannot be found out.
[[nodiscard]] bool is_on_local_disk(const std::string& path) noexcept;

// Opens a regular file without waiting, whatever it is (a FIFO without a writer would block). Throws SampleError.
[[nodiscard]] OpenFile open_regular(const std::string& path);

// Fills `bytes` from the file at `offset`. Throws SampleError when the file ends before (transient: it had a size that
// promised more, so it is being written or the store is confused).
void read_at(const FileDescriptor& file, std::size_t offset, std::span<std::byte> bytes);

// The whole file into the target, which is reserved once. Throws SampleError: also for an empty file and one larger
// than kLargestSampleFile.
void read_sample_file(const std::string& path, ReadTarget& target);

// The whole file. Throws SampleError, also when it is larger than `limit`.
[[nodiscard]] std::vector<std::byte> load_file(const std::string& path, std::size_t limit);

}  // namespace forebay
