#ifndef HEADWAY_RUNTIME_DEVICE_FLOAT_ENVIRONMENT_H_
#define HEADWAY_RUNTIME_DEVICE_FLOAT_ENVIRONMENT_H_

#include <immintrin.h>

namespace headway {

// While it lives, this thread's float arithmetic is IEEE's default: nearest even, subnormals kept,
// exceptions masked. A host program or a library may have set another state (flush to zero is a
// common one), which would change bits. Restores what it found.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() : found_(_mm_getcsr()) {
    // The low six bits only record what happened.
    if ((found_ & ~kSticky) != kDefault) _mm_setcsr(kDefault);
  }
  ~DefaultFloatEnvironment() {
    if ((found_ & ~kSticky) != kDefault) _mm_setcsr(found_);
  }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  static constexpr unsigned kSticky = 0x3f;
  static constexpr unsigned kDefault = 0x1f80;
  const unsigned found_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_DEVICE_FLOAT_ENVIRONMENT_H_
