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

// Any thread may call the functions below. Their errors do not name the file: the caller knows the name that people
// recognise.

// The error for a failed system call, transient if the call may succeed later: "cannot open: Input/output error".
[[nodiscard]] SampleError system_failure(std::string_view what, int error);

// Why the path cannot be a sample: "cannot open: no such file", "is a FIFO"; "" if it is a regular file.
[[nodiscard]] std::string problem_of_file(const std::string& path);

// Whether the path is on a file system of this machine's disks or memory, where a second read of the same data waits
// for the same device and the same pages. False if that cannot be determined.
[[nodiscard]] bool is_on_local_disk(const std::string& path) noexcept;

// Opens a regular file. Never blocks, whatever the path is (a FIFO without a writer would). Throws SampleError.
[[nodiscard]] OpenFile open_regular(const std::string& path);

// Fills `bytes` from the file at `offset`. Throws SampleError if the file ends earlier (transient: its size promised
// more, so it is being written or the store is confused).
void read_at(const FileDescriptor& file, std::size_t offset, std::span<std::byte> bytes);

// The same for pieces of memory that are filled one after the other, by one request. REQUIRES: at most 4 pieces.
void read_at(const FileDescriptor& file, std::size_t offset, std::span<const std::span<std::byte>> pieces);

// Reads the whole file into the target, with one reserve(). Throws SampleError, also for an empty file and one larger
// than kLargestSampleFile.
void read_sample_file(const std::string& path, ReadTarget& target);

// The whole file. Throws SampleError, also if it is larger than `limit`.
[[nodiscard]] std::vector<std::byte> load_file(const std::string& path, std::size_t limit);

}  // namespace forebay
