/* A CUDA driver of our own: the symbols of libcuda.so.1 that orchestrator/cuda_probe.py calls. It computes nothing.

   Scripted by the environment:

       GPUBENCH_FAKE_CUDA_GPUS     UUIDs of the GPUs and MIG slices that it has, by commas; CUDA_VISIBLE_DEVICES means
                                   what it means to CUDA: the first slice in it is the last device that is shown
       GPUBENCH_FAKE_CUDA_INIT     what cuInit returns; "hang", "hang, deaf to SIGTERM", "crash"
       GPUBENCH_FAKE_CUDA_COUNT    what cuDeviceGetCount returns

   Names and words of the codes are those of driver 580, which has none for 35.
   Written for tests: one thread, little checking. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, NO_DEVICE = 100 };

static const struct {
    int code;
    const char *name, *words;
} errors[] = {
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {805, "CUDA_ERROR_MPS_CONNECTION_FAILED", "MPS client failed to connect to the MPS control daemon or the MPS server"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

/* Whether `list`, separated by commas, holds the `length` characters at `word`. */
static int holds(const char *list, const char *word, size_t length)
{
    while (*list) {
        size_t own = strcspn(list, ",");
        if (own == length && !strncmp(list, word, length))
            return 1;
        list += own + (list[own] == ',');
    }
    return 0;
}

/* GPUs that are visible: the list ends at the first that there is not. */
static int visible(void)
{
    const char *gpus = setting("GPUBENCH_FAKE_CUDA_GPUS");
    const char *asked = getenv("CUDA_VISIBLE_DEVICES");
    int count = 0;
    for (const char *at = asked ? asked : gpus; *at; count++) {
        size_t length = strcspn(at, ",");
        if (!holds(gpus, at, length))
            break;
        if (!strncmp(at, "MIG-", 4))
            return count + 1;
        at += length + (at[length] == ',');
    }
    return count;
}

int cuInit(unsigned flags)
{
    const char *wanted = setting("GPUBENCH_FAKE_CUDA_INIT");
    if (flags)
        return INVALID_VALUE;
    if (!strcmp(wanted, "hang, deaf to SIGTERM"))
        signal(SIGTERM, SIG_IGN);
    if (!strncmp(wanted, "hang", 4))
        for (;;)
            pause();
    if (!strcmp(wanted, "crash")) {
        fputs("the driver has fallen over\n", stderr);
        abort();
    }
    if (*wanted)
        return atoi(wanted);
    return visible() ? SUCCESS : NO_DEVICE;
}

int cuDeviceGetCount(int *count)
{
    *count = visible();
    return atoi(setting("GPUBENCH_FAKE_CUDA_COUNT"));
}

static int described(int code, const char **into, int by_name)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) {
            *into = by_name ? errors[i].name : errors[i].words;
            return SUCCESS;
        }
    *into = NULL;
    return INVALID_VALUE;
}

int cuGetErrorName(int code, const char **name) { return described(code, name, 1); }

int cuGetErrorString(int code, const char **words) { return described(code, words, 0); }
