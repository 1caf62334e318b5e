#pragma once

#include "dataset_support.hpp"
#include "mpi_world.hpp"
#include "support.hpp"

namespace forebay::testing {

// A folder shared by all ranks; rank 0 removes it when all are done.
class SharedFolder {
 public:
  SharedFolder() : communicator_(world().duplicate()) {
    if (world().rank() == 0) folder_ = std::make_unique<TemporaryDirectory>();
    path_ = communicator_->all_gather(folder_ ? folder_->path().string() : "").front();
  }
  ~SharedFolder() {
    meet();
    communicator_->close(30);
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  void write(const std::string& name, const std::string& content) {
    if (folder_) write_file(path_ / name, content);
    meet();
  }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  // The sum of all ranks' counts. Collective.
  std::map<int, int> sum(const std::map<int, int>& mine) {
    std::string text;
    for (const auto& [label, times] : mine)
      text += std::string(static_cast<std::size_t>(times), static_cast<char>(label + 1));
    std::map<int, int> all;
    for (const std::string& part : communicator_->all_gather(text)) {
      for (const char label : part) ++all[label - 1];
    }
    return all;
  }

  // A barrier for all ranks.
  void meet() { (void)communicator_->all_gather(""); }
  // All ranks' texts, by rank.
  [[nodiscard]] std::vector<std::string> gather(const std::string& mine) { return communicator_->all_gather(mine); }

 private:
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<TemporaryDirectory> folder_;
  std::filesystem::path path_;
};

}  // namespace forebay::testing
