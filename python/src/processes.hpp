#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "answers.hpp"

namespace forebay::python {

// Samples read by the processes of `pool` (forebay/_processes.py), each of which reads one at a
// time. This process needs Python only when one of them raises an exception or ends. REQUIRES: the
// GIL.
[[nodiscard]] std::shared_ptr<AnsweringDataset> process_dataset(nb::object pool, std::uint64_t size, SampleList list,
                                                                std::string identity);

}  // namespace forebay::python
