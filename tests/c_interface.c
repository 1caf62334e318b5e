#include <forebay/forebay.h>

#include <string.h>

#include "c_support.h"

// The C interface as a C program sees it. The header is included first, because it must need
// nothing before it.

int main(void) {
  static const struct {
    const char* name;
    void (*run)(void);
  } kSuites[] = {
      {"arguments", test_arguments},
      {"batches", test_batches},
      {"tensors for other libraries", test_tensors_for_others},
      {"datasets", test_datasets},
      {"policies", test_policies},
      {"communicators", test_communicators},
      {"waits", test_waits},
      {"forks", test_forks},
      {"states", test_states},
#ifndef FOREBAY_SANITIZED  // sanitizers would report what is left behind on purpose
      {"a read that never returns", test_endless_read},
#endif
  };
  for (size_t i = 0; i < sizeof kSuites / sizeof *kSuites; ++i) {
    const int before = failed_checks;
    kSuites[i].run();
    printf("%-30s %s\n", kSuites[i].name, failed_checks == before ? "ok" : "FAILED");
    fflush(stdout);
  }
  return failed_checks == 0 ? 0 : 1;
}
