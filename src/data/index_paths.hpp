#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace forebay {

// Many paths in few allocations: 16 bytes each beside their own, where a std::string takes 32 and often an allocation.
// Views of them stay valid as long as the list they are in, also when it is moved or appended to another.
class PathList {
 public:
  PathList() = default;
  PathList(PathList&& other) noexcept
      : paths_(std::move(other.paths_)),
        blocks_(std::move(other.blocks_)),
        at_(other.at_),
        room_(std::exchange(other.room_, 0)) {}
  PathList& operator=(PathList&& other) noexcept {
    paths_ = std::move(other.paths_);
    blocks_ = std::move(other.blocks_);
    at_ = other.at_;
    room_ = std::exchange(other.room_, 0);
    return *this;
  }
  PathList(const PathList&) = delete;
  PathList& operator=(const PathList&) = delete;
  ~PathList() = default;

  void add(std::string_view path) {
    if (path.size() > room_) {
      room_ = std::max(kBlock, path.size());
      at_ = blocks_.emplace_back(std::make_unique_for_overwrite<char[]>(room_)).get();
    }
    std::copy(path.begin(), path.end(), at_);
    paths_.emplace_back(at_, path.size());
    at_ += path.size();
    room_ -= path.size();
  }
  // All of another list, which is empty afterwards.
  void append(PathList&& other) {
    paths_.insert(paths_.end(), other.paths_.begin(), other.paths_.end());
    std::move(other.blocks_.begin(), other.blocks_.end(), std::back_inserter(blocks_));
    other = PathList();
  }
  // Bytewise.
  void sort() { std::sort(paths_.begin(), paths_.end()); }

  [[nodiscard]] std::size_t size() const noexcept { return paths_.size(); }
  [[nodiscard]] bool empty() const noexcept { return paths_.empty(); }
  // REQUIRES: i < size().
  [[nodiscard]] std::string_view operator[](std::size_t i) const noexcept { return paths_[i]; }
  [[nodiscard]] auto begin() const noexcept { return paths_.begin(); }
  [[nodiscard]] auto end() const noexcept { return paths_.end(); }
  [[nodiscard]] std::span<const std::string_view> view() const noexcept { return paths_; }

 private:
  static constexpr std::size_t kBlock = std::size_t{256} << 10U;

  std::vector<std::string_view> paths_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* at_ = nullptr;    // free room in the newest own block
  std::size_t room_ = 0;  // bytes from there
};

}  // namespace forebay
