// The state of the data when their index was made, and whether it has changed since: for each
// folder its times and a checksum of the names that matter, for each annotation its times and a
// checksum of its bytes.
//
// compare() calls stat() once per folder and annotation, in parallel, and looks further only where
// times differ or were too recent to be trusted: it then lists the folder or reads the annotation,
// and only different names or contents count as a difference. So a copy of the data, whose times
// all differ, is accepted at the cost of an extra pass, which a message mentions.
//
// Which names matter depends on the format: a README that is added to a folder of images changes
// nothing.

#include "data_state.hpp"

#include <sys/stat.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <tuple>
#include <utility>

#include <forebay/error.hpp>

#include "base/retry.hpp"
#include "index_format.hpp"
#include "parallel.hpp"
#include "store/files.hpp"

namespace forebay::data {
namespace {

constexpr std::uint64_t kUnreadable = 1;  // the checksum recorded for a file that cannot be read
// Chosen: a labelme file may contain its image as base64, which takes 4/3 of the image's bytes.
constexpr std::size_t kLargestLabelme = std::size_t{128} << 20U;

// The kinds of names are disjoint, so adding counts and checksums gives those of the union.
NameSum names_that_decide(const ListedFolder& folder, DataState::Names kind) {
  const auto with = [&](const NameSum& more) {
    return NameSum{folder.data.count + more.count, folder.data.sum + more.sum};
  };
  switch (kind) {
    case DataState::Names::data: return folder.data;
    case DataState::Names::data_and_bare: return with(folder.bare);
    case DataState::Names::annotations: return folder.annotations;
    case DataState::Names::texts: return folder.texts;
    case DataState::Names::data_and_texts: return with(folder.texts);
    case DataState::Names::data_and_json: return with(folder.json);
    case DataState::Names::data_and_videos: return with(folder.videos);
  }
  return {};
}

std::string_view what_decides(DataState::Names kind) {
  if (kind == DataState::Names::data_and_videos) return "videos and folders";
  const bool are_annotations = kind == DataState::Names::annotations || kind == DataState::Names::texts;
  return are_annotations ? "annotations" : "images, annotations and folders";
}

// Reads the current status of a file or folder; false if it does not exist or is not accessible to
// this process. Throws ConfigError if the store keeps failing.
bool look_patiently(const std::string& path, struct stat& status) {
  try {
    read_patiently(path, [&] {
      if (::stat(path.c_str(), &status) == 0) return;
      throw system_failure("cannot inspect it", errno);
    });
    return true;
  } catch (const SampleError& error) {
    if (error.is_transient()) end_scan(path, error);
    return false;
  }
}

// Keeps the finding for the item with the lowest number, so that the message is the same in every
// run, whichever thread is first. Any thread may call add().
class FirstFinding {
 public:
  void add(std::size_t number, std::string what) {
    const std::lock_guard lock(mutex_);
    ++count_;
    if (count_ == 1 || number < number_) std::tie(number_, what_) = std::pair(number, std::move(what));
  }
  [[nodiscard]] std::string take() {
    if (count_ > 1)
      what_ += " (and " + std::to_string(count_ - 1) + (count_ == 2 ? " more difference)" : " more differences)");
    return std::move(what_);
  }

 private:
  std::mutex mutex_;
  std::size_t count_ = 0;
  std::size_t number_ = 0;
  std::string what_;
};

// Compares items in parallel. Chosen: a thread takes 64 at a time, so that threads rarely contend
// for their shared counter. Few items need no other thread.
template <typename Item, typename Compare>
void compare_each(const std::vector<Item>& items, unsigned threads, const IndexProgress& progress, Compare&& compare) {
  constexpr std::size_t kAtOnce = 64;
  const auto compare_one = [&](std::size_t i) { compare(i, items[i]); };
  if (items.size() > kAtOnce) return run_parallel({items.size(), threads, progress, kAtOnce}, compare_one);
  for (std::size_t i = 0; i < items.size(); ++i) compare_one(i);
}

}  // namespace

// No bytes are the state of a format that records none (see serialize()): nothing will be compared.
DataState::DataState(std::span<const std::byte> bytes, std::string_view origin) {
  if (bytes.empty()) return;
  IndexReader reader(bytes, origin);
  std::uint64_t left = 0;
  for (reader(left); left > 0; --left) {
    Folder& folder = folders_.emplace_back();
    reader(folder.path, folder.times, folder.kind, folder.names.count, folder.names.sum);
  }
  for (reader(left); left > 0; --left) {
    File& file = files_.emplace_back();
    reader(file.path, file.was.times, file.was.sum);
  }
  reader.expect_end();
}

void DataState::add(const std::string& above, const ListedFolder& folder, Names names) {
  folders_.push_back({join_path(above, folder.path), folder.times, names, names_that_decide(folder, names)});
}

// Sorts the added folders, because a scan lists folders in no particular order, and the bytes of an
// index must not depend on threads.
void DataState::add_all(const std::string& above, const Scan& scan, Names names) {
  const std::size_t before = folders_.size();
  for (const ListedFolder& folder : scan.listed) add(above, folder, names);
  std::sort(folders_.begin() + static_cast<std::ptrdiff_t>(before), folders_.end(),
            [](const Folder& a, const Folder& b) { return a.path < b.path; });
}

std::vector<std::byte> DataState::serialize() const {
  if (folders_.empty() && files_.empty()) return {};
  IndexWriter writer;
  writer(std::uint64_t{folders_.size()});
  for (const auto& [path, times, kind, names] : folders_) writer(path, times, kind, names.count, names.sum);
  writer(std::uint64_t{files_.size()});
  for (const auto& [path, was] : files_) writer(path, was.times, was.sum);
  return writer.take();
}

// Folders are numbered before files, because their findings share one "first".
DataState::Comparison DataState::compare(const std::string& root, unsigned threads,
                                         const IndexProgress& progress) const {
  const auto place = [&](const std::string& path) {
    return store::is_absolute(path) ? path : path.empty() ? root : join_path(root, path);
  };
  std::atomic<std::uint64_t> by_contents{0};
  FirstFinding findings;

  compare_each(folders_, threads, progress, [&](std::size_t i, const Folder& was) {
    const std::string path = place(was.path);
    struct stat status {};
    const bool is_there = look_patiently(path, status) && S_ISDIR(status.st_mode);
    if (!is_there && was.times == ListedFolder::kAbsent) return;
    if (!is_there) return findings.add(i, "the folder " + path + " is gone");
    if (was.times != 0 && times_of(status) == was.times) return;
    ++by_contents;
    const NameSum names = names_that_decide(scan_folder(path, "").listed.front(), was.kind);
    if (names == was.names) return;
    findings.add(i, "the folder " + path + " has other " + std::string(what_decides(was.kind)) + " (" +
                        std::to_string(was.names.count) + " then, " + std::to_string(names.count) + " now)");
  });
  compare_each(files_, threads, progress, [&](std::size_t i, const File& was) {
    const std::string path = place(was.path);
    struct stat status {};
    const std::size_t number = folders_.size() + i;
    if (!look_patiently(path, status)) return findings.add(number, "the annotation " + path + " is gone");
    if (was.was.times != 0 && times_of(status) == was.was.times) return;
    ++by_contents;
    Annotation now;
    try {
      (void)load_annotation(path, now);
    } catch (const SampleError& error) {
      if (error.is_transient()) end_scan(path, error);
    }
    if (now.sum != was.was.sum) findings.add(number, "the annotation " + path + " has other contents");
  });
  return {folders_.size(), files_.size(), by_contents, findings.take()};
}

// Reads the times before the contents: if the file is written in between, the times differ later,
// and it is read again. A file that cannot be read has the checksum kUnreadable, so it is no
// difference until it becomes readable.
std::vector<std::byte> load_annotation(const std::string& path, DataState::Annotation& state) {
  state = {.times = 0, .sum = kUnreadable};
  return read_patiently(path, [&] {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) state.times = times_of(status);
    auto bytes = store::load_file(path, path.ends_with(".json") ? kLargestLabelme : kLargestAnnotationFile);
    state.sum = chunk_sum(bytes);
    return bytes;
  });
}

}  // namespace forebay::data
