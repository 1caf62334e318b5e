// doctest itself, compiled once for all test programs, and for other programs that use the tests'
// helpers.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
