#include "npy.hpp"

#include <algorithm>
#include <forebay/error.hpp>

#include "base/text.hpp"
#include "store/files.hpp"

namespace forebay::data {
namespace {

constexpr std::string_view kArrayMark = ".npz:";
constexpr std::string_view kArrayEnding = ".npy";

std::string_view array_name(const ZipMember& member) {
  std::string_view name = member.name;
  if (name.ends_with(kArrayEnding)) name.remove_suffix(kArrayEnding.size());
  return name;
}

}  // namespace

// All other code treats "FILE.npz:NAME" as a path; indexes and fields name arrays this way.
std::optional<ArrayPlace> array_place(std::string_view path) {
  const std::size_t mark = path.rfind(kArrayMark);
  if (mark == std::string_view::npos) return std::nullopt;
  const std::size_t end = mark + kArrayMark.size();
  return ArrayPlace{.archive = std::string(path.substr(0, end - 1)), .array = std::string(path.substr(end))};
}

// Without a name there must be a single array; a wrong guess would be worse than an error.
const ZipMember& find_array(const ZipFile& archive, std::string_view array) {
  const auto& members = archive.members();
  if (array.empty() && members.size() == 1) return members.front();
  const auto found = std::ranges::find(members, array, array_name);
  if (!array.empty() && found != members.end()) return *found;
  constexpr std::size_t kListed = 10;
  std::string names = joined(std::span(members).first(std::min(kListed, members.size())), ", ",
                             [](const ZipMember& member) { return printable(array_name(member)); });
  if (members.size() > kListed) names += ", ...";
  throw SampleError("npz: " +
                    (array.empty() ? "say which of its arrays is meant, as FILE.npz:NAME"
                                   : "no array \"" + printable(array) + "\" in it") +
                    "; it has " + (names.empty() ? "none" : names));
}

std::string problem_of_source(const std::string& path) {
  const auto place = array_place(path);
  return store::problem_of_file(place ? place->archive : path);
}

// Called for each sample, on any reading thread. The archive's directory is read each time, so that
// no state has to be kept or locked.
void read_array(const OpenFile& file, std::string_view array, ReadTarget& target) {
  const ZipFile archive(file);
  const ZipMember& member = find_array(archive, array);
  ZipFile::require_readable(member);  // before memory is reserved for it
  if (member.bytes > kLargestSampleFile) {
    throw SampleError("npz: an array of " + std::to_string(member.bytes) + " bytes; a sample may have " +
                      std::to_string(kLargestSampleFile));
  }
  archive.read(member, target.reserve(static_cast<std::size_t>(member.bytes)));
}

}  // namespace forebay::data
