/* A profiler for NVTX's injection protocol. It appends each event to the file in NVTX_TOOL_RECORD:

     domain NAME
     category NUMBER NAME
     push DOMAIN THREAD CATEGORY PAYLOAD MESSAGE
     pop DOMAIN THREAD

   NVTX_TOOL_DECLINES: it accepts no events. NVTX_TOOL_LATER: it listens after nvtx_tool_begin().
   NVTX_TOOL_SLOW: it begins slowly. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  union {
    uint64_t u64;
    int64_t i64;
    double f64;
  } payload;
  int32_t message_type;
  union {
    const char* ascii;
    const void* other;
  } message;
} event_attributes;

typedef void (*function)(void);
typedef struct {
  size_t size;
  int (*module_table)(int module, function*** table, unsigned* size);
} callbacks;
typedef struct {
  size_t size;
  uint32_t version;
} version_info;

enum { most_domains = 64 };
static char domain_names[most_domains]
                        [64]; /* the address of one is the domain: threads may make one at once */
static int domains;

static long thread(void) {
  return syscall(SYS_gettid);
}

/* Writes a line in one call, because threads write to the same file. */
static void record(const char* line) {
  const char* path = getenv("NVTX_TOOL_RECORD");
  FILE* file = path ? fopen(path, "a") : NULL;
  if (!file) return;
  fputs(line, file);
  fclose(file);
}

static void* domain_create(const char* name) {
  char line[128];
  const int number = __atomic_fetch_add(&domains, 1, __ATOMIC_RELAXED);
  if (number >= most_domains) abort();
  snprintf(domain_names[number], sizeof domain_names[number], "%s", name);
  snprintf(line, sizeof line, "domain %s\n", name);
  record(line);
  return domain_names[number];
}

static void name_category(void* domain, uint32_t category, const char* name) {
  char line[128];
  snprintf(line, sizeof line, "category %s %u %s\n", (const char*)domain, category, name);
  record(line);
}

static int push(void* domain, const event_attributes* event) {
  char line[512], payload[32] = "none";
  if (event->version != 3 || event->size != sizeof *event || event->message_type != 1) abort();
  if (event->payload_type == 2)
    snprintf(payload, sizeof payload, "%lld", (long long)event->payload.i64);
  snprintf(line, sizeof line, "push %s %ld %u %s %s\n", (const char*)domain, thread(),
           event->category, payload, event->message.ascii);
  record(line);
  return 0;
}

static int pop(void* domain) {
  char line[128];
  snprintf(line, sizeof line, "pop %s %ld\n", (const char*)domain, thread());
  record(line);
  return 0;
}

static function** domain_functions;

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    const void* (*export_table)(uint32_t));
__attribute__((visibility("default"))) void nvtx_tool_begin(void);

void nvtx_tool_begin(void) {
  *domain_functions[12] = (function)domain_create;
  *domain_functions[8] = (function)name_category;
  *domain_functions[5] = (function)pop;
  *domain_functions[4] = (function)push;
}

int InitializeInjectionNvtx2(const void* (*export_table)(uint32_t)) {
  const callbacks* calls = export_table(1);
  const version_info* version = export_table(3);
  function** table = NULL;
  unsigned size = 0;
  int module;
  if (getenv("NVTX_TOOL_DECLINES")) return 0;
  if (getenv("NVTX_TOOL_SLOW")) usleep(300000);
  if (!calls || calls->size < sizeof *calls || !version || version->version != 3 ||
      export_table(99))
    abort();
  if (calls->module_table(0, &table, &size) || calls->module_table(7, &table, &size)) abort();
  for (module = 1; module <= 6; ++module) /* every module that version 3 knows */
    if (!calls->module_table(module, &table, &size) || !table || !size || !table[1]) abort();
  if (!calls->module_table(5, &table, &size) || size < 16) abort();
  domain_functions = table;
  if (!getenv("NVTX_TOOL_LATER")) nvtx_tool_begin();
  return 1;
}
