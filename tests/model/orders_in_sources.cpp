#include "orders_in_sources.hpp"

#include <filesystem>
#include <fstream>
#include <regex>
#include <string_view>

#include "support.hpp"

namespace forebay::model {

std::vector<NamedOrder> orders_in_sources() {
  const std::filesystem::path top = testing::source_dir();
  std::vector<std::string> files{"src/base/wait.hpp", "src/base/wait.cpp", "src/serve/reuse_pool.cpp",
                                 "src/measure/record_ring.hpp"};
  for (const auto& entry : std::filesystem::directory_iterator(top / "src/ring")) {
    files.push_back("src/ring/" + entry.path().filename().string());
  }
  const std::regex order("memory_order_([a-z_]+)");
  std::vector<NamedOrder> found;
  for (const std::string& file : files) {
    std::ifstream in(top / file);
    std::string text;
    for (unsigned line = 1; std::getline(in, text); ++line) {
      text = text.substr(0, text.find("//"));
      for (auto match = std::sregex_iterator(text.begin(), text.end(), order); match != std::sregex_iterator();
           ++match) {
        if ((*match)[1] != "relaxed") found.push_back({file, line, (*match)[1]});
      }
    }
  }
  return found;
}

}  // namespace forebay::model
