#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_io.hpp"

// Objects behind URLs, and requests for them. Errors are those of files (base/file_io.hpp), except that what only the
// user can change ends a run: ConfigError, with the URL, if the store refuses a key, has no such bucket, or has it in
// another region. Such a refusal does not make a sample bad. Any thread.
namespace forebay::store {

// Where the bytes that this thread has read came from: objects from their store or the cache, files only if they are
// read through the cache.
struct Traffic {
  std::uint64_t from_store = 0;
  std::uint64_t from_cache = 0;
  // What it takes in the cache, whether kept or not: blocks, and the head of an entry of its own.
  std::uint64_t room = 0;
};
[[nodiscard]] Traffic& traffic() noexcept;      // reads add to it
[[nodiscard]] Traffic take_traffic() noexcept;  // since the last call

// What an index stores about an object.
struct Known {
  std::uint64_t bytes = 0;
  std::uint64_t identity = 0;  // a hash of its ETag or modification time
};

// The error for an object or file that differs from what the index knows.
[[nodiscard]] SampleError is_changed();

// One request brings the object's size and its first bytes, so that opening and examining it needs no second.
[[nodiscard]] OpenFile open_object(const std::string& url);
// Makes no request: the first read compares the object with what is known.
[[nodiscard]] OpenFile open_object(const std::string& url, const Known& known);
// Reads the whole object by one request, unless it still has this version. `reserve` is called once, with its size.
// Returns the store's name for the version read, for the next time: "" if it has no name that identifies these bytes
// with certainty; nothing if the object is unchanged.
std::optional<std::string> read_object(const std::string& url,
                                       const std::function<std::span<std::byte>(std::size_t)>& reserve,
                                       const std::string& version = {});

// Calls `found` with the name of each object below a prefix of s3:// or gs://, relative to it and in order; unless
// `is_deep`, also with the name of each folder, which ends with "/". Throws SampleError, ConfigError.
void list_objects(const std::string& prefix, bool is_deep, const std::function<void(std::string_view)>& found);

}  // namespace forebay::store
