// Controls of the fake CUDA driver, which its symbol `fake_cuda_control` exports.
#pragma once

#include <cstdint>

struct FakeCudaControl {
  // Sets one device of capability 9.0, driver 13.0 and no faults. Forgets all calls and frees every
  // object.
  void (*reset)();
  // Sets the version, device count and capability that the driver reports.
  void (*set_driver)(int version, int init_result, int devices);
  void (*set_capability)(int major, int minor);
  // The k-th call from now on (1 = the next) does nothing and returns `result`. Error-text queries
  // do not count.
  void (*fail_call)(int64_t k, int result);
  // Every later launch, copy and synchronisation returns `result`, as after an illegal address.
  void (*set_sticky)(int result);
  void (*set_capturing)(bool capturing);
  // Sets the resources of every function, and the CTAs of it that fit on an SM. The defaults are
  // 32, 0 and 8.
  void (*set_function)(int registers, int local_bytes, int ctas_per_sm);
  int64_t (*call_count)();
  // Returns the number of calls of this function since the reset.
  int64_t (*calls_of)(const char* function);
  // Returns the number of live modules, allocations, streams, events, link states and retained
  // contexts.
  int64_t (*live_objects)();
  // Returns the current context of this thread: the top of its stack, or null.
  void* (*current_context)();
  void (*push_foreign_context)(void* context);
  void (*pop_context)();
  int (*capture_mode)();  // capture mode of this thread

  struct Launch {
    unsigned grid[3], block, shared, cluster;
    uint64_t slots[160];  // enough for every kernel of the library
    uint64_t slot_bytes;
    void* stream;
    bool overlaps;  // programmatic stream serialisation
    int maps;       // tensor maps after the slots
  };
  bool (*last_launch)(Launch* launch);
  // Writes the functions launched since its last call, in order: at most min(most, 64). Returns
  // their number.
  int (*launched)(const void** functions, int most);
  int (*last_shared_limit)();  // last value of the dynamic shared memory attribute
  bool (*large_clusters)();    // true if a function may use the non-portable size
};
