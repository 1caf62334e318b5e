#include "scan.hpp"

#include <set>

#include "parallel.hpp"
#include "store/objects.hpp"

namespace forebay::data {

Scan scan_objects(const std::string& root, const std::string& folder, bool is_deep) {
  Scan scan;
  std::set<std::string, std::less<>> folders;
  std::set<std::string, std::less<>> strays;
  store::list_objects(join_path(root, folder.empty() ? "" : folder + "/"), is_deep, [&](std::string_view name) {
    if (name.starts_with('.') || name.find("/.") != std::string_view::npos) return;
    for (auto slash = name.find('/'); slash != std::string_view::npos; slash = name.find('/', slash + 1)) {
      const std::string_view above = name.substr(0, slash);
      if (is_stray(base_name(above))) {
        if (strays.find(above) == strays.end()) strays.emplace(above);
        return;
      }
      if (!above.empty() && folders.find(above) == folders.end()) folders.emplace(above);
    }
    if (name.ends_with('/')) return;
    PathList& files = is_image_name(name) ? scan.images : is_annotation_name(name) ? scan.annotations : scan.others;
    files.add(join_path(folder, name));
  });
  for (const std::string& name : folders) scan.folders.add(join_path(folder, name));
  for (const std::string& name : strays) scan.unusable.push_back(stray_folder(join_path(folder, name)));
  return scan;
}

// Folders are listed in parallel, because listing a million objects takes a thousand requests.
Scan scan_objects(const std::string& root, unsigned threads, const IndexProgress& progress) {
  constexpr unsigned kFewestListers = 16;
  try {
    Scan scan = scan_objects(root, "", false);
    const std::vector<std::string> folders(scan.folders.begin(), scan.folders.end());
    std::vector<Scan> below(folders.size());
    run_parallel({folders.size(), std::max(threads, kFewestListers), progress},
                 [&](std::size_t i) { below[i] = scan_objects(root, folders[i], true); });
    for (Scan& each : below) {
      scan.images.append(std::move(each.images));
      scan.annotations.append(std::move(each.annotations));
      scan.others.append(std::move(each.others));
      scan.folders.append(std::move(each.folders));
      std::ranges::move(each.unusable, std::back_inserter(scan.unusable));
    }
    return scan;
  } catch (const SampleError& error) {
    end_scan(root, error);
  }
}

}  // namespace forebay::data
