// Controls of the fake CUDA driver. Its symbol `fake_cuda_control` exports them.
#pragma once

#include <cstdint>

struct FakeCudaControl {
  // Forgets all calls and frees all objects. Sets one device of capability 9.0, driver 13.0 and no
  // faults.
  void (*reset)();
  // Sets the driver's version, the result of cuInit, and the number of devices.
  void (*set_driver)(int version, int init_result, int devices);
  void (*set_capability)(int major, int minor);
  // Makes the k-th call from now on (1 = the next) return `result` without effect. Calls for error
  // texts do not count.
  void (*fail_call)(int64_t k, int result);
  // Every later launch, copy and synchronisation returns `result`, as after an illegal address.
  void (*set_sticky)(int result);
  void (*set_capturing)(bool capturing);
  // Sets, for all functions, the registers per thread, local memory in bytes and CTAs that fit on
  // an SM. The defaults are 32, 0 and 8.
  void (*set_function)(int registers, int local_bytes, int ctas_per_sm);
  int64_t (*call_count)();
  // Returns the number of calls to this function since the reset.
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
    uint64_t slots[160];  // large enough for all kernels of the library
    uint64_t slot_bytes;
    void* stream;
    bool overlaps;  // attribute programmatic stream serialisation
    int maps;       // number of tensor maps after the slots
  };
  bool (*last_launch)(Launch* launch);
  // Writes the functions of the launches since the last call, in order, but at most min(most, 64).
  // Returns how many it wrote.
  int (*launched)(const void** functions, int most);
  int (*last_shared_limit)();  // dynamic shared memory limit set last
  bool (*large_clusters)();    // true if any function permits more than 8 CTAs per cluster
};
