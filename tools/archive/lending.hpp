#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace forebay::archive {

// A pool of objects that are costly to make, each lent to one thread at a time. Any thread may
// call.
template <typename T>
class Lending {
 public:
  explicit Lending(std::function<std::unique_ptr<T>()> make) : make_(std::move(make)) {}

  // Calls use(object). If that throws, the object is destroyed and not lent again.
  template <typename Use>
  void with(Use&& use) {
    std::unique_ptr<T> object = take();
    use(*object);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(object));
  }

 private:
  std::unique_ptr<T> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<T> object = std::move(idle_.back());
        idle_.pop_back();
        return object;
      }
    }
    return make_();
  }

  std::function<std::unique_ptr<T>()> make_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> idle_;
};

}  // namespace forebay::archive
