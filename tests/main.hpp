#pragma once

// Every test program includes this once: doctest with a main of its own.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
