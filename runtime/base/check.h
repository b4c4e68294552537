#ifndef HEADWAY_RUNTIME_BASE_CHECK_H_
#define HEADWAY_RUNTIME_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

// Ends the process when an invariant of this program is broken. Never for input: that gets a
// Status.
#define HEADWAY_CHECK(condition)                                                             \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (0)

#endif  // HEADWAY_RUNTIME_BASE_CHECK_H_
