#include "report.hpp"

#include <fstream>
#include <string>
#include <type_traits>

#include <forebay/error.hpp>

namespace train_cnn {

std::vector<forebay::Summary> gather(const forebay::Summary& mine, MPI_Comm comm) {
  static_assert(std::is_trivially_copyable_v<forebay::Summary>);  // so that it travels as bytes
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  std::vector<forebay::Summary> all(rank == 0 ? static_cast<std::size_t>(size) : 0);
  constexpr int kBytes = sizeof(forebay::Summary);
  MPI_Gather(&mine, kBytes, MPI_BYTE, all.data(), kBytes, MPI_BYTE, 0, comm);
  return all;
}

void write_json(const std::string& file, const Report& report, std::span<const forebay::Summary> ranks) {
  std::ofstream out(file);
  out << R"({"policy": ")" << report.policy << R"(", "seed": )" << report.seed << R"(, "classes": )" << report.classes
      << R"(, "chance": )" << 1.0 / static_cast<double>(report.classes) << ",\n"
      << R"( "epoch_accuracy": [)";
  for (std::size_t i = 0; i < report.epoch_accuracy.size(); ++i)
    out << (i == 0 ? "" : ", ") << report.epoch_accuracy[i];
  out << R"(], "curve": [)";
  for (std::size_t i = 0; i < report.curve.size(); ++i) {
    const CurvePoint& point = report.curve[i];
    out << (i == 0 ? "" : ", ") << R"({"trained_s": )" << point.trained_s << R"(, "steps": )" << point.steps
        << R"(, "accuracy": )" << point.accuracy << "}";
  }
  out << R"(], "held_out": )" << report.held_out << R"(, "final_accuracy": )"
      << (report.final_accuracy ? std::to_string(*report.final_accuracy) : "null") << R"(, "eval_s": )" << report.eval_s
      << R"(, "allreduce_s": )" << report.allreduce_s << ",\n"
      << R"( "job": )" << forebay::to_json(forebay::combine(ranks), ranks) << "}\n";
  if (!out.flush()) throw forebay::Error(file + ": cannot be written (--summary)");
}

}  // namespace train_cnn
