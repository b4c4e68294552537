#ifndef HEADWAY_RUNTIME_BASE_UTF8_H_
#define HEADWAY_RUNTIME_BASE_UTF8_H_

#include <string>
#include <string_view>

namespace headway {

// Whether `text` is well-formed UTF-8 (Unicode 15, table 3-7): no overlong forms, no surrogates,
// nothing above U+10FFFF.
bool IsUtf8(std::string_view text);

// `text` from outside, fit for an error message: in single quotes, control and malformed bytes as
// \xNN, cut after 80 bytes.
std::string Quoted(std::string_view text);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_BASE_UTF8_H_
