// The headers that most tests include, precompiled.
#include <doctest/doctest.h>
