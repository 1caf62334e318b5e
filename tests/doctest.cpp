// doctest itself, compiled once for all test programs, and for others that use helpers of the tests.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
