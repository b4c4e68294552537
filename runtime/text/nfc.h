#ifndef HEADWAY_RUNTIME_TEXT_NFC_H_
#define HEADWAY_RUNTIME_TEXT_NFC_H_

#include <string>
#include <string_view>

namespace headway::text {

// Unicode normalisation form C of valid UTF-8, in time n log n whatever the text.
std::string NormalizeNfc(std::string_view text);

}  // namespace headway::text

#endif  // HEADWAY_RUNTIME_TEXT_NFC_H_
