#pragma once

#include <vector>

#include <forebay/random.hpp>

#include "drawing.hpp"

namespace forebay {

// Adds smooth random values to a plane of width * height: value noise on a lattice of `cell` pixels, from -amplitude
// to amplitude.
void add_noise(std::vector<float>& plane, int width, int height, int cell, float amplitude, Random& random);

// Paints something like an out-of-focus photograph: large areas of colour, texture at every scale, clutter.
void paint_background(Drawing& drawing, Random& random);

// Adds the grain of a camera sensor to everything painted so far.
void add_grain(Drawing& drawing, Random& random);

}  // namespace forebay
