#include <utility>

#include <forebay/error.hpp>
#include <forebay/operation.hpp>

#include "builtin_operations.hpp"

namespace forebay {

OperationRegistry OperationRegistry::builtin() {
  OperationRegistry registry;
#define FOREBAY_ADD_OPERATION(NAME, HELP) registry.add(#NAME, operations::NAME);
  FOREBAY_OPERATIONS(FOREBAY_ADD_OPERATION)
#undef FOREBAY_ADD_OPERATION
  return registry;
}

void OperationRegistry::add(std::string name, OperationFactory factory) {
  factories_.insert_or_assign(std::move(name), std::move(factory));
}

std::vector<std::string> OperationRegistry::names() const {
  std::vector<std::string> names;
  names.reserve(factories_.size());
  for (const auto& [name, factory] : factories_) names.push_back(name);
  return names;
}

std::unique_ptr<const Operation> OperationRegistry::make(std::string_view name, const TransformOptions& options) const {
  const auto found = factories_.find(name);
  if (found != factories_.end()) return found->second(options);
  std::string known;
  for (const auto& [each, factory] : factories_) known += (known.empty() ? "" : ", ") + each;
  throw ConfigError("transform.operations: there is no operation \"" + std::string(name) +
                    "\"; known operations: " + known);
}

}  // namespace forebay
