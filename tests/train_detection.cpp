// A detector on two ranks learns classes and boxes of objects from boxes that follow their images' crops and mirrors.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <forebay/feeder.hpp>

#include "mpi_world.hpp"
#include "trainer.hpp"

namespace forebay {
namespace {

using testing::GeneratedData;
using testing::Network;
using testing::world;

constexpr std::size_t kClasses = 4;  // none, circle, square, triangle
constexpr int kCell = 4;             // pixels
constexpr int kRows = 12;
constexpr int kColumns = 16;
constexpr int kReach = 6;  // cells around one that are looked at for the sides of its object
constexpr std::size_t kProfile = 2 * kReach + 1;

// In cells.
struct Found {
  std::array<double, 4> sides{};  // left, top, right, bottom
  std::size_t what = 0;
  double score = 0;
};

double area(const std::array<double, 4>& box) {
  return std::max(box[2] - box[0], 0.0) * std::max(box[3] - box[1], 0.0);
}

double iou(const std::array<double, 4>& a, const std::array<double, 4>& b) {
  const double both = area({std::max(a[0], b[0]), std::max(a[1], b[1]), std::min(a[2], b[2]), std::min(a[3], b[3])});
  return both / std::max(area(a) + area(b) - both, 1e-9);
}

std::vector<Found> truth_of(const Lease& batch, std::size_t boxes, std::size_t sample) {
  const TensorView sides = batch.field(boxes);
  const auto most = static_cast<std::size_t>(sides.shape[1]);
  const float* const side = sides.as<float>() + sample * most * 4;
  const auto* const what = batch.field(boxes + 1).as<std::int64_t>() + sample * most;
  std::vector<Found> truth(static_cast<std::size_t>(batch.counts(boxes).as<std::int32_t>()[sample]));
  for (std::size_t i = 0; i < truth.size(); ++i) {
    for (std::size_t s = 0; s < 4; ++s) truth[i].sides[s] = side[i * 4 + s] / kCell;
    truth[i].what = static_cast<std::size_t>(what[i]) + 1;
  }
  return truth;
}

// What a cell should say: the object in whose middle third it is, nothing (an object of no class) outside all boxes,
// and whatever it likes elsewhere.
std::optional<Found> wanted_at(const std::vector<Found>& truth, double x, double y) {
  for (const Found& object : truth) {
    const auto& [left, top, right, bottom] = object.sides;
    if (x < left || x > right || y < top || y > bottom) continue;
    const bool is_middle =
        std::abs(2 * x - left - right) * 3 < right - left && std::abs(2 * y - top - bottom) * 3 < bottom - top;
    return is_middle ? std::optional(object) : std::nullopt;
  }
  return Found{};
}

class Detector {
 public:
  void learn(const Lease& batch, std::size_t boxes) {
    for (std::size_t sample = 0; sample < batch.size(); ++sample) learn(batch, sample, truth_of(batch, boxes, sample));
    what_.step(0.03);
    where_.step(0.01);
  }

  // One for each object: of those that overlap the one with the best score.
  [[nodiscard]] std::vector<Found> find(const Lease& batch, std::size_t sample) {
    look(batch, sample, [](int, int, std::span<const double>) {});
    std::vector<Found> proposals;
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < kColumns; ++column) {
        const auto here = shares(row, column);
        const auto what = static_cast<std::size_t>(std::ranges::max_element(here) - here.begin());
        if (what > 0) proposals.push_back(proposal(row, column, what));
      }
    }
    std::ranges::stable_sort(proposals, std::greater<>(), &Found::score);
    std::vector<Found> kept;
    for (const Found& each : proposals) {
      if (std::ranges::none_of(kept, [&](const Found& other) { return iou(each.sides, other.sides) > 0.1; })) {
        kept.push_back(each);
      }
    }
    return kept;
  }

  [[nodiscard]] bool is_equal_on_all_ranks() const {
    const bool is_equal = what_.is_equal_on_all_ranks();
    return where_.is_equal_on_all_ranks() && is_equal;
  }

 private:
  void learn(const Lease& batch, std::size_t sample, const std::vector<Found>& truth) {
    look(batch, sample, [&](int row, int column, std::span<const double> said) {
      const auto wanted = wanted_at(truth, column + 0.5, row + 0.5);
      if (!wanted) return;
      std::vector<double> off(said.begin(), said.end());
      off[wanted->what] -= 1;
      what_.backward(off);
    });
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < kColumns; ++column) {
        const auto wanted = wanted_at(truth, column + 0.5, row + 0.5);
        if (!wanted || wanted->what == 0) continue;
        const auto said = where_.forward(profile(row, column, wanted->what));
        std::array<double, 4> off{};
        for (std::size_t s = 0; s < 4; ++s) {
          off[s] = said[s] - (wanted->sides[s] - (s % 2 == 0 ? column : row) - 0.5) / kReach;
        }
        where_.backward(off);
      }
    }
  }

  // Fills shares_: what each cell is, by its mean colour. Calls visit(row, column, shares) right after each.
  template <typename Visit>
  void look(const Lease& batch, std::size_t sample, Visit visit) {
    constexpr std::size_t kWidth = std::size_t{kColumns} * kCell;
    const float* const pixels = batch.images().as<float>() + sample * kRows * kCell * kWidth * 3;
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < kColumns; ++column) {
        std::array<double, 3> colour{};
        for (int i = 0; i < kCell * kCell; ++i) {
          const auto y = static_cast<std::size_t>(row * kCell + i / kCell);
          const auto x = static_cast<std::size_t>(column * kCell + i % kCell);
          for (std::size_t c = 0; c < 3; ++c) colour[c] += pixels[(y * kWidth + x) * 3 + c] / (kCell * kCell);
        }
        const std::vector<double> said = testing::softmax(what_.forward(colour));
        std::ranges::copy(said, shares(row, column).begin());
        visit(row, column, said);
      }
    }
  }

  [[nodiscard]] std::span<double, kClasses> shares(int row, int column) {
    return std::span<double, kClasses>(shares_.data() + static_cast<std::size_t>(row * kColumns + column) * kClasses,
                                       kClasses);
  }
  [[nodiscard]] double share(int row, int column, std::size_t what) {
    const bool is_inside = row >= 0 && row < kRows && column >= 0 && column < kColumns;
    return is_inside ? shares(row, column)[what] : 0;
  }

  // How much of a class there is in each column and in each row around a cell.
  [[nodiscard]] std::array<double, 2 * kProfile> profile(int row, int column, std::size_t what) {
    std::array<double, 2 * kProfile> sums{};
    for (int y = -kReach; y <= kReach; ++y) {
      for (int x = -kReach; x <= kReach; ++x) {
        const double found = share(row + y, column + x, what);
        sums[static_cast<std::size_t>(x + kReach)] += found;
        sums[kProfile + static_cast<std::size_t>(y + kReach)] += found;
      }
    }
    for (double& sum : sums) sum = std::min(sum / 2, 1.0);
    return sums;
  }

  [[nodiscard]] Found proposal(int row, int column, std::size_t what) {
    Found found{.what = what};
    const auto said = where_.forward(profile(row, column, what));
    for (std::size_t s = 0; s < 4; ++s) found.sides[s] = (s % 2 == 0 ? column : row) + 0.5 + said[s] * kReach;
    // Cells in the middle of an object know best where it ends.
    for (int i = 0; i < 25; ++i) found.score += share(row + i / 5 - 2, column + i % 5 - 2, what);
    return found;
  }

  Network what_{{.inputs = 3, .hidden = 12, .outputs = kClasses}, 1};
  Network where_{{.inputs = 2 * kProfile, .hidden = 16, .outputs = 4}, 2};
  std::array<double, std::size_t{kRows} * kColumns * kClasses> shares_{};
};

struct Judged {
  double objects = 0;
  double found = 0;
  double right = 0;      // found with their class and an IoU of at least 0.5
  double by_chance = 0;  // objects that another sample has in the same place

  [[nodiscard]] double recall() const { return right / std::max(objects, 1.0); }
  [[nodiscard]] double precision() const { return right / std::max(found, 1.0); }
};

double hits(const std::vector<Found>& truth, const std::vector<Found>& found) {
  double sum = 0;
  for (const Found& object : truth) {
    const auto is_it = [&](const Found& each) {
      return each.what == object.what && iou(each.sides, object.sides) >= 0.5;
    };
    sum += std::ranges::any_of(found, is_it) ? 1 : 0;
  }
  return sum;
}

// Of mirrored views, and of all others.
std::array<Judged, 2> judge(Detector& detector, const Options& options) {
  std::array<Judged, 2> judged;
  Feeder feeder(options, world());
  const std::size_t boxes = feeder.field_number("boxes");
  std::vector<Found> previous;
  while (auto batch = feeder.next()) {
    const std::vector<SampleView> views = batch->views();
    for (std::size_t sample = 0; sample < batch->size(); ++sample) {
      Judged& sums = judged[views[sample].mirror ? 0 : 1];
      std::vector<Found> truth = truth_of(*batch, boxes, sample);
      const std::vector<Found> found = detector.find(*batch, sample);
      sums.objects += static_cast<double>(truth.size());
      sums.found += static_cast<double>(found.size());
      sums.right += hits(truth, found);
      sums.by_chance += hits(truth, previous);
      previous = std::move(truth);
    }
  }
  feeder.close();
  for (Judged& each : judged) {
    std::array<double, 4> sums{each.objects, each.found, each.right, each.by_chance};
    testing::sum_over_ranks(sums);
    each = {.objects = sums[0], .found = sums[1], .right = sums[2], .by_chance = sums[3]};
  }
  return judged;
}

std::string figures(const Judged& judged) {
  return "recall " + std::to_string(judged.recall()) + ", precision " + std::to_string(judged.precision()) + " of " +
         std::to_string(static_cast<int>(judged.objects)) + " objects (boxes of another image: recall " +
         std::to_string(judged.by_chance / judged.objects) + ")";
}

void check_learned(const Judged& judged) {
  CAPTURE(figures(judged));
  CHECK(judged.objects > 30);
  CHECK(judged.recall() > 0.75);
  CHECK(judged.precision() > 0.65);
  CHECK(judged.by_chance < 0.2 * judged.objects);
}

}  // namespace

TEST_CASE("a detector of two ranks learns, and is right in views of every kind") {
  const GeneratedData data(
      {"--task", "detection", "--images", "240", "--classes", "3", "--objects", "3", "--size", "96x72", "--seed", "7"});
  Options options = data.options();
  options.run.epochs = 6;
  options.transform.size = {std::int64_t{kRows} * kCell, std::int64_t{kColumns} * kCell};
  options.transform.scale = {0.5, 1.0};
  options.dataset.fields.front().min_visible = 0.5;
  Detector detector;
  Feeder feeder(options, world());
  const std::size_t boxes = feeder.field_number("boxes");
  while (auto batch = feeder.next()) detector.learn(*batch, boxes);
  feeder.close();
  CHECK(detector.is_equal_on_all_ranks());
  const Judged central = judge(detector, testing::held_out(options))[1];
  check_learned(central);
  const auto random = judge(detector, testing::held_out_in_random_views(options));
  for (const Judged& each : random) check_learned(each);
  MESSAGE("held out: ", figures(central), "; mirrored: ", figures(random[0]), "; not: ", figures(random[1]));
}

}  // namespace forebay
