// Controls of the fake CUDA driver, reached through its symbol `fake_cuda_control`.
#pragma once

#include <cstdint>

struct FakeCudaControl {
  // One device of capability 9.0, driver 13.0, no faults; forgets all calls and frees every object.
  void (*reset)();
  // What the driver pretends to be.
  void (*set_driver)(int version, int init_result, int devices);
  void (*set_capability)(int major, int minor);
  // The k-th call from now on (1 = the next) returns `result` and does nothing. Error-text queries do not count.
  void (*fail_call)(int64_t k, int result);
  // Every later launch, copy and synchronisation returns this, as after an illegal address.
  void (*set_sticky)(int result);
  void (*set_capturing)(bool capturing);
  // What every function takes, and how many CTAs of it an SM holds. At first 32, 0 and 8.
  void (*set_function)(int registers, int local_bytes, int ctas_per_sm);
  int64_t (*call_count)();
  // Calls of this function since reset.
  int64_t (*calls_of)(const char* function);
  // Modules, allocations, streams, events, link states and retained contexts that were made and not given back.
  int64_t (*live_objects)();
  // The context current on this thread: the top of its stack, or null.
  void* (*current_context)();
  void (*push_foreign_context)(void* context);
  void (*pop_context)();
  int (*capture_mode)();  // of this thread

  struct Launch {
    unsigned grid[3], block, shared, cluster;
    uint64_t slots[160];  // as many as a kernel of the library takes
    uint64_t slot_bytes;
    void* stream;
    bool overlaps;  // programmatic stream serialisation
    int maps;       // tensor maps behind the slots
  };
  bool (*last_launch)(Launch* launch);
  // The functions of the launches since the last call of this, first to last; at most `most`, and 64.
  int (*launched)(const void** functions, int most);
  int (*last_shared_limit)();  // last value of the dynamic shared memory attribute
  bool (*large_clusters)();    // whether a function was allowed clusters that not every GPU has
};
