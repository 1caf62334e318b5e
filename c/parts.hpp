#pragma once

#include <memory>
#include <vector>

#include <forebay/forebay.h>
#include <forebay/communicator.hpp>
#include <forebay/dataset.hpp>
#include <forebay/field.hpp>
#include <forebay/policy.hpp>

// What a program brings as callbacks, as the library's interfaces. The structs were read and checked.
namespace forebay::c {

// Throw FOREBAY_ERROR_ARGUMENT where a member that must be there is missing. Nothing is taken yet.
void check(const forebay_communicator& communicator);
void check(const forebay_dataset& dataset);
void check(const forebay_policy& policy);

// The caller's; duplicates own their contexts.
[[nodiscard]] std::unique_ptr<Communicator> made_of(const forebay_communicator& communicator);

// The part of a struct that ends a context when its last owner lets go.
[[nodiscard]] std::shared_ptr<void> owned(void* context, void (*destroy)(void* context));
// `owner`: keeps the context alive. `fields`: of fields_of().
[[nodiscard]] std::shared_ptr<const Dataset> made_of(const forebay_dataset& dataset, std::vector<Field> fields,
                                                     std::shared_ptr<void> owner);
// Reads the fields. Throws FOREBAY_ERROR_ARGUMENT.
[[nodiscard]] std::vector<Field> fields_of(const forebay_dataset& dataset);
// Adds the policy under its name. `owner`: keeps the context alive.
void add(PolicyRegistry& policies, const forebay_policy& policy, std::shared_ptr<void> owner);

}  // namespace forebay::c
