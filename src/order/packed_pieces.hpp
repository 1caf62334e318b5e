#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "job_state.hpp"

// What is left of a job, as its state has it.
namespace forebay {

// The pieces as JSON, compressed: a list for each of their numbers. It has the differences from the piece before,
// modulo 2^64: most pieces resemble their neighbours, so these compress well.
[[nodiscard]] nlohmann::ordered_json pack_pieces(const std::vector<Piece>& pieces);

// The pieces that pack_pieces() was given; they may still be impossible. Takes memory for no more than `most` of them,
// however many the text has. Throws Error saying what is wrong, and std::bad_alloc.
[[nodiscard]] std::vector<Piece> unpack_pieces(const nlohmann::ordered_json& left, std::uint64_t most);

[[nodiscard]] std::string too_many_pieces(std::uint64_t pieces, std::uint64_t most);

}  // namespace forebay
