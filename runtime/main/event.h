#ifndef HEADWAY_RUNTIME_MAIN_EVENT_H_
#define HEADWAY_RUNTIME_MAIN_EVENT_H_

namespace headway {

// Something that happens once, as a descriptor to wait for. Thread-safe.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Readable, for good, once set. Closed in processes that this one starts.
  int fd() const { return fd_; }
  void Set();

 private:
  int fd_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_EVENT_H_
