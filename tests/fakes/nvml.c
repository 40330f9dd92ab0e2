/* An NVML of our own: the symbols of libnvidia-ml.so.1 that the orchestrator needs, answering from a script.

   The script is the file named by GPUBENCH_FAKE_NVML, one `key = value` a line, read again when it changes:

       gpus = 2
       driver_version = 580.95.05
       gpu.0.uuid = GPU-…                             what GPU 0 answers; a key that is missing: NOT_SUPPORTED
       gpu.0.compute = 4711 13207024435               processes: PID and bytes, -1 bytes for "not available"
       gpu.0.mortal = 1                               ... of which those that have ended are gone
       gpu.1.error.nvmlDeviceGetPowerUsage = 15       the return code of one function for one GPU
       gpu.1.error.* = 15                             ... of every function for that GPU
       error.nvmlInit = 18                            ... of a function of the library
       gpu.1.delay.nvmlDeviceGetPowerUsage = 50       milliseconds that a function takes for one GPU; "*" for every one
       delay.nvmlInit = 50                            ... that a function of the library takes
       gpu.0.nvlinks = 18                             links, of which gpu.0.nvlinks_up are up
       gpu.0.field.230 = 0                            a field of nvmlDeviceGetFieldValues, by its number
       event.1 = 0 79                                 GPU 0 reports Xid 79; those that are there before an event set
                                                      is made are not heard
       event.2 = 0 13 5                               ... Xid 13, of GPU instance 5
       gpu.0.mig = 1                                  GPU 0 is in MIG mode
       gpu.0.mig.2.uuid = MIG-…                       what its slice 2 answers; a place without a UUID has no slice
       gpu.0.mig.2.gpu_instance = 5                   the number of its GPU instance

   A slice answers what is scripted for it and nothing else; a GPU of which every function fails takes its slices along.
   Functions are named without the suffix of their version. Written for tests: one thread, little checking. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
    SUCCESS = 0,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10,
    MAX_GPUS = 64,
    MAX_SLICES = 7,
    MAX_LINES = 4096
};

/* A GPU, or a slice of it; slice is -1 for the GPU itself. */
typedef struct { int index, slice; } Device;

typedef struct { char *key, *value; } Line;

static Device devices[MAX_GPUS], slices[MAX_GPUS][MAX_SLICES];
static Line lines[MAX_LINES];
static int line_count;
static char *script;
static struct stat seen;

/* ── the script ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static char *trimmed(char *text)
{
    text += strspn(text, " \t");
    for (char *end = text + strlen(text); end > text && strchr(" \t\r", end[-1]); *--end = 0)
        ;
    return text;
}

static void parse(FILE *file, size_t size)
{
    free(script);
    script = calloc(1, size + 1);
    size_t got = fread(script, 1, size, file);
    script[got] = 0;
    line_count = 0;
    for (char *line = strtok(script, "\n"); line && line_count < MAX_LINES; line = strtok(NULL, "\n")) {
        char *equals = strchr(line, '=');
        if (!equals)
            continue;
        *equals = 0;
        lines[line_count++] = (Line){trimmed(line), trimmed(equals + 1)};
    }
}

static void refresh(void)
{
    const char *path = getenv("GPUBENCH_FAKE_NVML");
    struct stat now;
    if (!path || stat(path, &now))
        return;
    if (now.st_ino == seen.st_ino && now.st_size == seen.st_size && now.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
        return;
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    seen = now;
    parse(file, (size_t)now.st_size);
    fclose(file);
}

static const char *lookup(const char *key)
{
    refresh();
    for (int i = 0; i < line_count; i++)
        if (!strcmp(lines[i].key, key))
            return lines[i].value;
    return NULL;
}

static const char *of_gpu(const Device *device, const char *key)
{
    char name[256];
    if (device->slice < 0)
        snprintf(name, sizeof name, "gpu.%d.%s", device->index, key);
    else
        snprintf(name, sizeof name, "gpu.%d.mig.%d.%s", device->index, device->slice, key);
    return lookup(name);
}

/* Take as many milliseconds as the script says. A function that hangs takes an hour. */
static void dawdle(const char *value)
{
    if (value) {
        long ms = atol(value);
        struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
        while (nanosleep(&pause, &pause)) /* a driver does not wake for a signal either */
            ;
    }
}

static int library_error(const char *function)
{
    char name[256];
    snprintf(name, sizeof name, "delay.%s", function);
    dawdle(lookup(name));
    snprintf(name, sizeof name, "error.%s", function);
    const char *code = lookup(name);
    return code ? atoi(code) : SUCCESS;
}

static int gpu_error(const Device *device, const char *function)
{
    char name[256];
    snprintf(name, sizeof name, "delay.%s", function);
    const char *value = of_gpu(device, name);
    dawdle(value ? value : of_gpu(device, "delay.*"));
    snprintf(name, sizeof name, "error.%s", function);
    const char *code = of_gpu(device, name);
    if (!code)
        code = of_gpu(&devices[device->index], "error.*");
    return code ? atoi(code) : SUCCESS;
}

/* ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static int text(const char *value, char *into, unsigned length)
{
    if (!value)
        return NOT_SUPPORTED;
    if (strlen(value) >= length)
        return INSUFFICIENT_SIZE;
    strcpy(into, value);
    return SUCCESS;
}

static int gpu_text(Device *device, const char *function, const char *key, char *into, unsigned length)
{
    int error = gpu_error(device, function);
    return error ? error : text(of_gpu(device, key), into, length);
}

static int gpu_u64(Device *device, const char *function, const char *key, uint64_t *into)
{
    int error = gpu_error(device, function);
    if (error)
        return error;
    const char *value = of_gpu(device, key);
    if (!value)
        return NOT_SUPPORTED;
    *into = strtoull(value, NULL, 0);
    return SUCCESS;
}

static int gpu_u32(Device *device, const char *function, const char *key, unsigned *into)
{
    uint64_t wide = 0;
    int error = gpu_u64(device, function, key, &wide);
    if (!error)
        *into = (unsigned)wide;
    return error;
}

#define TEXT(function, key) \
    int function(Device *d, char *into, unsigned length) { return gpu_text(d, #function, key, into, length); }
#define U32(function, key) \
    int function(Device *d, unsigned *into) { return gpu_u32(d, #function, key, into); }
#define U64(function, key) \
    int function(Device *d, uint64_t *into) { return gpu_u64(d, #function, key, into); }
/* A setting that has a current and a pending state. */
#define STATES(function, key) \
    int function(Device *d, unsigned *current, unsigned *pending) \
    { \
        int error = gpu_u32(d, #function, key, current); \
        *pending = *current; \
        return error; \
    }

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetBoardPartNumber, "part_number")
TEXT(nvmlDeviceGetVbiosVersion, "vbios_version")
U32(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw")
U32(nvmlDeviceGetPowerUsage, "power_mw")
U64(nvmlDeviceGetCurrentClocksEventReasons, "reasons")
U32(nvmlDeviceGetArchitecture, "architecture")
U32(nvmlDeviceGetPersistenceMode, "persistence_mode")
U32(nvmlDeviceGetComputeMode, "compute_mode")
U32(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_generation")
U32(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation_now")
U32(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
U32(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max")
U32(nvmlDeviceGetPcieReplayCounter, "pcie_replays")
U32(nvmlDeviceGetPowerManagementDefaultLimit, "power_default_mw")
STATES(nvmlDeviceGetEccMode, "ecc")
STATES(nvmlDeviceGetMigMode, "mig")

/* With gpu.0.load_mw = 300000 energy is taken at that power, and the counter moves every 100 ms, as boards do. */
int nvmlDeviceGetTotalEnergyConsumption(Device *d, uint64_t *value)
{
    int error = gpu_u64(d, "nvmlDeviceGetTotalEnergyConsumption", "energy_mj", value);
    const char *load = of_gpu(d, "load_mw");
    struct timespec now;
    if (!error && load && !clock_gettime(CLOCK_MONOTONIC, &now))
        *value += strtoull(load, NULL, 0) / 10 * (uint64_t)(now.tv_sec * 10 + now.tv_nsec / 100000000);
    return error;
}

/* ── the library ──────────────────────────────────────────────────────────────────────────────────────────────────── */

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    for (int i = 0; i < MAX_GPUS; i++) {
        devices[i] = (Device){i, -1};
        for (int j = 0; j < MAX_SLICES; j++)
            slices[i][j] = (Device){i, j};
    }
    return library_error("nvmlInit");
}

int nvmlShutdown(void) { return library_error("nvmlShutdown"); }

int nvmlSystemGetDriverVersion(char *into, unsigned length)
{
    int error = library_error("nvmlSystemGetDriverVersion");
    return error ? error : text(lookup("driver_version"), into, length);
}

int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    int error = library_error("nvmlSystemGetCudaDriverVersion");
    const char *value = lookup("cuda_driver_version");
    if (!error && value)
        *version = atoi(value);
    return error ? error : value ? SUCCESS : NOT_SUPPORTED;
}

/* ── which GPUs ───────────────────────────────────────────────────────────────────────────────────────────────────── */

int nvmlDeviceGetCount_v2(unsigned *count)
{
    const char *value = lookup("gpus");
    *count = value ? (unsigned)atoi(value) : 0;
    return library_error("nvmlDeviceGetCount");
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device)
{
    unsigned count = 0;
    nvmlDeviceGetCount_v2(&count);
    if (index >= count || index >= MAX_GPUS)
        return INVALID_ARGUMENT;
    *device = &devices[index];
    return gpu_error(*device, "nvmlDeviceGetHandleByIndex");
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device **device)
{
    unsigned count = 0;
    nvmlDeviceGetCount_v2(&count);
    for (unsigned i = 0; i < count && i < MAX_GPUS; i++)
        for (int j = -1; j < MAX_SLICES; j++) {
            Device *one = j < 0 ? &devices[i] : &slices[i][j];
            const char *own = of_gpu(one, "uuid");
            if (own && !strcmp(own, uuid)) {
                *device = one;
                return gpu_error(one, "nvmlDeviceGetHandleByUUID");
            }
        }
    return NOT_FOUND;
}

/* ── slices of them ───────────────────────────────────────────────────────────────────────────────────────────────── */

int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *count)
{
    const char *mode = of_gpu(device, "mig");
    *count = mode && atoi(mode) ? MAX_SLICES : 0;
    return gpu_error(device, "nvmlDeviceGetMaxMigDeviceCount");
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **slice)
{
    if (device->slice >= 0 || index >= MAX_SLICES)
        return INVALID_ARGUMENT;
    *slice = &slices[device->index][index];
    int error = gpu_error(*slice, "nvmlDeviceGetMigDeviceHandleByIndex");
    return error ? error : of_gpu(*slice, "uuid") ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device *slice, Device **device)
{
    *device = &devices[slice->index];
    return slice->slice < 0 ? INVALID_ARGUMENT : gpu_error(slice, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
}

U32(nvmlDeviceGetGpuInstanceId, "gpu_instance")

/* ── what a GPU is ────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} PciInfo;

int nvmlDeviceGetPciInfo_v3(Device *device, PciInfo *into)
{
    memset(into, 0, sizeof *into);
    return gpu_text(device, "nvmlDeviceGetPciInfo", "pci_address", into->bus_id, sizeof into->bus_id);
}

int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor)
{
    int error = gpu_error(device, "nvmlDeviceGetCudaComputeCapability");
    const char *value = of_gpu(device, "compute_capability");
    if (!error && (!value || sscanf(value, "%d.%d", major, minor) != 2))
        return NOT_SUPPORTED;
    return error;
}

int nvmlDeviceGetCpuAffinity(Device *device, unsigned words, unsigned long *mask)
{
    int error = gpu_error(device, "nvmlDeviceGetCpuAffinity");
    const char *value = of_gpu(device, "cpus");
    if (error || !value)
        return error ? error : NOT_SUPPORTED;
    memset(mask, 0, words * sizeof *mask);
    for (char *end; *value; value = end) {
        unsigned long cpu = strtoul(value, &end, 10);
        if (end == value)
            break;
        if (cpu / 64 < words)
            mask[cpu / 64] |= 1UL << cpu % 64;
    }
    return SUCCESS;
}

/* ── how it is now ────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    unsigned version;
    uint64_t total, reserved, free, used;
} MemoryV2;

int nvmlDeviceGetMemoryInfo_v2(Device *device, MemoryV2 *into)
{
    const char *function = "nvmlDeviceGetMemoryInfo";
    int error = gpu_u64(device, function, "memory_total_bytes", &into->total);
    if (!error)
        error = gpu_u64(device, function, "memory_used_bytes", &into->used);
    into->reserved = 0;
    into->free = into->total - into->used;
    return error;
}

typedef struct { unsigned gpu, memory; } Utilization;

int nvmlDeviceGetUtilizationRates(Device *device, Utilization *into)
{
    int error = gpu_u32(device, "nvmlDeviceGetUtilizationRates", "gpu_percent", &into->gpu);
    return error ? error : gpu_u32(device, "nvmlDeviceGetUtilizationRates", "memory_percent", &into->memory);
}

int nvmlDeviceGetTemperature(Device *device, int sensor, unsigned *into)
{
    return sensor ? INVALID_ARGUMENT : gpu_u32(device, "nvmlDeviceGetTemperature", "temperature_c", into);
}

int nvmlDeviceGetClockInfo(Device *device, int clock, unsigned *into)
{
    const char *key = clock == 1 ? "sm_clock_mhz" : clock == 2 ? "memory_clock_mhz" : "";
    return gpu_u32(device, "nvmlDeviceGetClockInfo", key, into);
}

typedef struct { uint64_t reference_ns, violation_ns; } Violation;

int nvmlDeviceGetViolationStatus(Device *device, int policy, Violation *into)
{
    const char *key = policy == 0 ? "power_violation_ns" : policy == 1 ? "thermal_violation_ns" : "";
    into->reference_ns = 0;
    return gpu_u64(device, "nvmlDeviceGetViolationStatus", key, &into->violation_ns);
}

/* ── who uses it ──────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    unsigned pid;
    uint64_t used_bytes;
    unsigned gpu_instance, compute_instance;
} Process;

static int has_ended(unsigned pid)
{
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%*d %*s %c", &state) != 1)
            state = 'Z';
        fclose(file);
    }
    return state == 'Z' || state == 'X';
}

static int processes(Device *device, const char *function, const char *key, unsigned *count, Process *into)
{
    int error = gpu_error(device, function);
    if (error)
        return error;
    unsigned found = 0, room = into ? *count : 0;
    const char *rest = of_gpu(device, key);
    for (char *end; rest; rest = end) {
        unsigned pid = (unsigned)strtoul(rest, &end, 10);
        if (end == rest)
            break;
        uint64_t bytes = (uint64_t)strtoll(end, &end, 10);
        if (of_gpu(device, "mortal") && has_ended(pid))
            continue;
        if (found < room)
            into[found] = (Process){pid, bytes, ~0u, ~0u};
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, Process *into)
{
    return processes(device, "nvmlDeviceGetComputeRunningProcesses", "compute", count, into);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(Device *device, unsigned *count, Process *into)
{
    return processes(device, "nvmlDeviceGetGraphicsRunningProcesses", "graphics", count, into);
}

/* ── whether it is sound ──────────────────────────────────────────────────────────────────────────────────────────── */

int nvmlDeviceGetTotalEccErrors(Device *device, int type, int counter, unsigned long long *into)
{
    const char *keys[2][2] = {{"ecc_corrected", "ecc_corrected_lifetime"}, {"ecc_uncorrected", "ecc_uncorrected_lifetime"}};
    uint64_t count = 0;
    int error = gpu_u64(device, "nvmlDeviceGetTotalEccErrors", keys[type & 1][counter & 1], &count);
    *into = count;
    return error;
}

typedef struct {
    unsigned version;
    unsigned long long counts[11];
    unsigned threshold_exceeded;
} SramStatus;

int nvmlDeviceGetSramEccErrorStatus(Device *device, SramStatus *into)
{
    return gpu_u32(device, "nvmlDeviceGetSramEccErrorStatus", "sram_threshold", &into->threshold_exceeded);
}

int nvmlDeviceGetRemappedRows(Device *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed)
{
    const char *function = "nvmlDeviceGetRemappedRows";
    *corrected = *uncorrected = 0;
    int error = gpu_u32(device, function, "rows_pending", pending);
    return error ? error : gpu_u32(device, function, "rows_failed", failed);
}

int nvmlDeviceGetRetiredPages(Device *device, int cause, unsigned *count, unsigned long long *addresses)
{
    unsigned found = 0, room = addresses ? *count : 0;
    int error = gpu_u32(device, "nvmlDeviceGetRetiredPages", cause ? "retired_pages" : "retired_pages_single", &found);
    if (error)
        return error;
    for (unsigned i = 0; i < found && i < room; i++)
        addresses[i] = 0x1000ull * i;
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

typedef struct { unsigned version; int margin; } Margin;

int nvmlDeviceGetMarginTemperature(Device *device, Margin *into)
{
    return gpu_u32(device, "nvmlDeviceGetMarginTemperature", "margin_c", (unsigned *)&into->margin);
}

int nvmlDeviceGetTemperatureThreshold(Device *device, int which, unsigned *into)
{
    const char *key = which == 1 ? "slowdown_c" : which == 2 ? "memory_max_c" : "";
    return gpu_u32(device, "nvmlDeviceGetTemperatureThreshold", key, into);
}

typedef struct {
    unsigned field, scope;
    int64_t timestamp, latency;
    unsigned type, error;
    union { unsigned u32; int32_t i32; uint64_t u64; } value;
} FieldValue;

int nvmlDeviceGetFieldValues(Device *device, int count, FieldValue *values)
{
    int error = gpu_error(device, "nvmlDeviceGetFieldValues");
    for (int i = 0; i < count && !error; i++) {
        char key[32];
        snprintf(key, sizeof key, "field.%u", values[i].field);
        const char *value = of_gpu(device, key);
        values[i].error = value ? SUCCESS : NOT_SUPPORTED;
        values[i].value.u64 = value ? (uint64_t)strtoll(value, NULL, 0) : 0;
    }
    return error;
}

int nvmlDeviceGetNvLinkState(Device *device, unsigned link, unsigned *active)
{
    unsigned links = 0, up = 0;
    int error = gpu_u32(device, "nvmlDeviceGetNvLinkState", "nvlinks", &links);
    if (error)
        return error;
    gpu_u32(device, "nvmlDeviceGetNvLinkState", "nvlinks_up", &up);
    *active = link < up;
    return link < links ? SUCCESS : INVALID_ARGUMENT;
}

typedef struct {
    unsigned char cluster[16];
    unsigned status, clique;
    unsigned char state;
} FabricInfo;

int nvmlDeviceGetGpuFabricInfo(Device *device, FabricInfo *into)
{
    unsigned state = 0;
    int error = gpu_u32(device, "nvmlDeviceGetGpuFabricInfo", "fabric_state", &state);
    if (!error)
        error = gpu_u32(device, "nvmlDeviceGetGpuFabricInfo", "fabric_status", &into->status);
    into->state = (unsigned char)state;
    return error;
}

/* ── what it reports by itself ────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    Device *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
} Event;

static int next_event;
static char registered[MAX_GPUS];

static const char *event(int number)
{
    char key[32];
    snprintf(key, sizeof key, "event.%d", number);
    return lookup(key);
}

int nvmlEventSetCreate(void **set)
{
    static int the_set;
    *set = &the_set;
    memset(registered, 0, sizeof registered);
    for (next_event = 1; event(next_event); next_event++)
        ;
    return library_error("nvmlEventSetCreate");
}

int nvmlDeviceRegisterEvents(Device *device, unsigned long long types, void *set)
{
    (void)types, (void)set;
    int error = gpu_error(device, "nvmlDeviceRegisterEvents");
    if (device->slice >= 0)
        return NOT_SUPPORTED; /* it is the GPU that reports */
    registered[device->index] = !error;
    return error;
}

int nvmlEventSetWait_v2(void *set, Event *into, unsigned timeout_ms)
{
    (void)set, (void)timeout_ms;
    int error = library_error("nvmlEventSetWait");
    for (const char *value; !error && (value = event(next_event)); next_event++) {
        int gpu = 0;
        unsigned long long xid = 0;
        unsigned instance = ~0u;
        if (sscanf(value, "%d %llu %u", &gpu, &xid, &instance) >= 2 && gpu < MAX_GPUS && registered[gpu]) {
            next_event++;
            *into = (Event){&devices[gpu], 8, xid, instance, instance == ~0u ? ~0u : 0};
            return SUCCESS;
        }
    }
    return error ? error : TIMEOUT;
}

int nvmlEventSetFree(void *set)
{
    (void)set;
    return SUCCESS;
}
