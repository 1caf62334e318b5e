#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_io.hpp"

// Objects behind URLs, and requests for them. Errors are those of files (base/file_io.hpp), but that what only a user
// can change ends a run: ConfigError, with the URL, where the store refuses a key, knows no such bucket, or has it in
// another region. Such a refusal is no damage of a sample. Any thread.
namespace forebay::store {

// What an index knows about an object.
struct Known {
  std::uint64_t bytes = 0;
  std::uint64_t identity = 0;  // a hash of its ETag, or of when it was modified
};

// What is thrown where an object, or a file, is another one than the index knows.
[[nodiscard]] SampleError is_changed();

// The first bytes of an object come with its size, so that opening and looking at it is one request.
[[nodiscard]] OpenFile open_object(const std::string& url);
// Without a request: its first read compares it with what is known.
[[nodiscard]] OpenFile open_object(const std::string& url, const Known& known);
// All of it, by one request, if it is not of this version. `reserve` is called once, with its size. Returns what the
// store calls its version, for the next time: "" if it has no name that is surely of these bytes; nothing: it is what
// is known.
std::optional<std::string> read_object(const std::string& url,
                                       const std::function<std::span<std::byte>(std::size_t)>& reserve,
                                       const std::string& version = {});

// Calls `found` with the name of each object below a prefix of s3:// or gs://, relative to it and in order, and, unless
// `is_deep`, with that of each folder, which ends with "/". Throws SampleError, ConfigError.
void list_objects(const std::string& prefix, bool is_deep, const std::function<void(std::string_view)>& found);

}  // namespace forebay::store
