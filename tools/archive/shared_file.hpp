#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace forebay::archive {

// Makes a file of several processes, each of which would make it alike, unless it is there: it gets the bytes that
// `make` returns. Where the file system has locks, one process makes it while the others wait here; where it has none,
// or where they end at the node, several do, and the first one's remains. A file that has its name is never written
// again. Once this returns, it survives a crash of the machine. Throws Error naming the file, and what `make` throws.
void make_shared_file(const std::filesystem::path& file, const std::function<std::vector<std::byte>()>& make);

}  // namespace forebay::archive
