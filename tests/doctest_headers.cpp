// The headers that most tests include, to be precompiled (FOREBAY_TEST_PCH).
#include <doctest/doctest.h>
