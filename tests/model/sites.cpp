#include "sites.hpp"

#include <dlfcn.h>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "support.hpp"

namespace forebay::model {
namespace {

struct Line {
  std::string file;
  unsigned number = 0;
};

// Turns "/anywhere/src/ring/slot_ring.cpp:58 (discriminator 2)" into a path relative to the top of
// the tree. The file is empty if it is not in this tree.
Line line_in_tree(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  const std::string path = std::filesystem::path(text.substr(0, colon)).lexically_normal().string();
  for (const std::string_view folder : {"src/", "include/forebay/", "tests/model/"}) {
    const std::size_t at = path.rfind(folder);
    if (at == std::string::npos || (at > 0 && path[at - 1] != '/')) continue;
    std::string file = path.substr(at);
    if (!std::filesystem::exists(std::filesystem::path(testing::source_dir()) / file)) continue;
    return {std::move(file), static_cast<unsigned>(std::strtoul(text.c_str() + colon + 1, nullptr, 10))};
  }
  return {};
}

// The file and line of each address. Of several inlined functions, the innermost one in this tree
// counts.
std::vector<Line> lines_of(const std::vector<const void*>& codes) {
  std::vector<Line> lines(codes.size());
  Dl_info library{};
  const auto some = std::find_if(codes.begin(), codes.end(), [](const void* code) { return code != nullptr; });
  if (some == codes.end() || ::dladdr(*some, &library) == 0) return lines;
  std::ostringstream command;
  command << "addr2line -a -i -e '" << library.dli_fname << "'" << std::hex;
  for (const void* code : codes) {  // -1: the call itself, not where it returns to
    const auto* const at = code == nullptr ? nullptr : static_cast<const std::byte*>(code) - 1;
    command << " 0x" << (at == nullptr ? 0 : at - static_cast<const std::byte*>(library.dli_fbase));
  }
  std::FILE* const out = ::popen(command.str().c_str(), "r");
  if (out == nullptr) throw std::runtime_error("cannot run addr2line (binutils)");
  std::size_t at = 0;
  char text[4096];
  while (std::fgets(text, sizeof text, out) != nullptr) {
    if (text[0] == '0' && text[1] == 'x') {
      ++at;
    } else if (at > 0 && at <= lines.size() && lines[at - 1].file.empty()) {
      lines[at - 1] = line_in_tree(text);
    }
  }
  if (::pclose(out) != 0 || at != lines.size()) throw std::runtime_error("addr2line (binutils) did not find the lines");
  return lines;
}

}  // namespace

std::string_view order_name(std::memory_order order) noexcept {
  switch (order) {
    case std::memory_order_relaxed: return "relaxed";
    case std::memory_order_consume: return "consume";
    case std::memory_order_acquire: return "acquire";
    case std::memory_order_release: return "release";
    case std::memory_order_acq_rel: return "acq_rel";
    case std::memory_order_seq_cst: return "seq_cst";
  }
  return "?";
}

void Sites::meet(Place& place, const void* code, std::memory_order named, Kind kind) {
  if (place.scenarios.empty()) unresolved_.push_back(code);
  place.named = named;
  place.kind = kind;
  place.scenarios.insert(scenario_);
  place.is_known = true;
}

void Sites::resolve() {
  const std::vector<Line> lines = lines_of(unresolved_);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    Place& place = places_[unresolved_[i]];
    place.is_library = lines[i].file.empty();
    if (place.is_library) continue;
    const auto is_same = [&](const Site& site) {
      return site.file == lines[i].file && site.line == lines[i].number && site.order == place.named &&
             site.kind == place.kind;
    };
    auto site = std::find_if(sites_.begin(), sites_.end(), is_same);
    if (site == sites_.end()) {
      site = sites_.insert(sites_.end(), Site{.file = lines[i].file,
                                              .line = lines[i].number,
                                              .kind = place.kind,
                                              .order = place.named,
                                              .scenarios = {}});
    }
    place.site = static_cast<std::size_t>(site - sites_.begin());
  }
  unresolved_.clear();
  for (auto& [code, place] : places_) {
    place.is_known = false;  // another scenario may get here
    if (place.site == kNone) continue;
    sites_[place.site].scenarios.insert(place.scenarios.begin(), place.scenarios.end());
    if (place.site == weakened_site_) place.weakened = weakened_order_;
  }
}

void Sites::weaken(std::size_t site, std::optional<std::memory_order> order) {
  weakened_site_ = order ? site : kNone;
  weakened_order_ = order;
  for (auto& [code, place] : places_) {
    if (place.site == site) place.weakened = order;
  }
}

std::vector<std::string> Sites::names(const std::vector<const void*>& codes) {
  std::vector<std::string> names;
  for (const Line& line : lines_of(codes)) {
    names.push_back(line.file.empty() ? "the C++ library" : line.file + ":" + std::to_string(line.number));
  }
  return names;
}

}  // namespace forebay::model
