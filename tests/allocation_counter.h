#ifndef HEADWAY_TESTS_ALLOCATION_COUNTER_H_
#define HEADWAY_TESTS_ALLOCATION_COUNTER_H_

#include <cstdint>

namespace headway {

// For tests that show that something allocates nothing: a program that links this counts its
// operator new.
int64_t Allocations();          // of all threads
int64_t AllocationsOfThread();  // of the one that asks

}  // namespace headway

#endif  // HEADWAY_TESTS_ALLOCATION_COUNTER_H_
