#include "runtime/base/log.h"

#include <time.h>
#include <unistd.h>

#include <cstdio>

namespace headway {
namespace {

std::string& Name() {
  static std::string name = "headway";
  return name;
}

void Write(const char* level, const std::string& message) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts;
  gmtime_r(&now.tv_sec, &parts);
  char time[64];
  std::snprintf(time, sizeof(time), "%02d:%02d:%02d.%03ld", parts.tm_hour, parts.tm_min,
                parts.tm_sec, now.tv_nsec / 1'000'000);
  std::string line = std::string(time) + " " + level + " [" + Name() + "] " + message + "\n";
  // A log line that cannot be written has nowhere to be reported.
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void LogInfo(const std::string& message) { Write("info", message); }
void LogWarning(const std::string& message) { Write("warning", message); }
void LogError(const std::string& message) { Write("error", message); }
void SetLogName(const std::string& name) { Name() = name; }

}  // namespace headway
