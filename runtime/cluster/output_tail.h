#ifndef HEADWAY_RUNTIME_CLUSTER_OUTPUT_TAIL_H_
#define HEADWAY_RUNTIME_CLUSTER_OUTPUT_TAIL_H_

#include <deque>
#include <string>
#include <string_view>

namespace headway {

// The last lines that a process wrote, bounded in number and length; passes whole lines on where
// asked to. Thread-compatible.
class OutputTail {
 public:
  // Lines go on to `forward_fd`; -1: nowhere.
  explicit OutputTail(int forward_fd) : forward_fd_(forward_fd) {}

  // Reads what a pipe holds, at most one buffer. False at its end.
  bool ReadFrom(int fd);
  void Append(std::string_view bytes);
  // Ends a line that has no line feed yet.
  void Flush();
  // The last `lines` lines that are not empty, joined by " | ".
  std::string LastWords(int lines) const;

 private:
  void EndLine();

  const int forward_fd_;
  std::deque<std::string> lines_;
  std::string partial_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CLUSTER_OUTPUT_TAIL_H_
