#include <utility>

#include <forebay/error.hpp>
#include <forebay/policy.hpp>

#include "base/text.hpp"

namespace forebay {

void PolicyRegistry::add(std::string name, PolicyFactory factory) {
  factories_.insert_or_assign(std::move(name), std::move(factory));
}

std::vector<std::string> PolicyRegistry::names() const {
  std::vector<std::string> names;
  names.reserve(factories_.size());
  for (const auto& [name, factory] : factories_) names.push_back(name);
  return names;
}

// A program's own factory may return null, which would otherwise crash at the first step.
std::unique_ptr<Policy> PolicyRegistry::make(const PolicyOptions& options) const {
  const auto found = factories_.find(options.name);
  if (found != factories_.end()) {
    auto policy = found->second ? found->second(options) : nullptr;
    if (policy == nullptr) throw ConfigError("policy.name = \"" + options.name + "\": its factory made nothing");
    return policy;
  }
  throw ConfigError("policy.name = \"" + options.name +
                    "\": there is no such policy; known policies: " + joined(names(), ", "));
}

}  // namespace forebay
