#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "answers.hpp"

namespace forebay::python {

// Samples that processes of `pool` (forebay/_processes.py) read, one each at a time. Python is needed only when one of
// them ends. REQUIRES: the GIL.
[[nodiscard]] std::shared_ptr<AnsweringDataset> process_dataset(nb::object pool, std::uint64_t size, SampleList list,
                                                                std::string identity);

}  // namespace forebay::python
