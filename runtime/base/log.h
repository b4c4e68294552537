#ifndef HEADWAY_RUNTIME_BASE_LOG_H_
#define HEADWAY_RUNTIME_BASE_LOG_H_

#include <string>

namespace headway {

// One line on standard error: time, level, who (see SetLogName), message. Thread-safe; a line is
// written by one call, so lines of several processes do not mix. Not for use inside a step.
void LogInfo(const std::string& message);
void LogWarning(const std::string& message);
void LogError(const std::string& message);

// Names this process in its log lines, e.g. "decode-0/rank-1". Call before other threads start.
void SetLogName(const std::string& name);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_BASE_LOG_H_
