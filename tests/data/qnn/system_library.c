// A libQnnSystem.so in the layout of an early 2.x SDK (version 1 of every struct), made for tests. A file that
// begins with "CRASH" ends the process, one with "BAD" is malformed; others hold two graphs.
#include <signal.h>
#include <stdint.h>
#include <string.h>

typedef struct { uint32_t major, minor, patch; } Version;
typedef struct {
    uint32_t id; const char* name; uint32_t type, format, data_type;
    struct { uint32_t defined, encoding; union { struct { float scale; int32_t offset; } one; uint64_t room[4]; }; } q;
    uint32_t rank; uint32_t* dimensions; uint32_t memory; void* data; uint32_t size;
} TensorV1;
typedef struct { uint32_t version; union { TensorV1 v1; }; } Tensor;
typedef struct { const char* name; uint32_t inputs; Tensor* input; uint32_t outputs; Tensor* output; } GraphV1;
typedef struct { uint32_t version; union { GraphV1 v1; }; } Graph;
typedef struct {
    uint32_t backend; const char* build; Version core, api; const char* soc; Version hardware, blob;
    uint32_t hardware_size; void* hardware_blob; uint64_t blob_size; uint32_t tensors; Tensor* tensor;
    uint32_t graphs; Graph* graph;
} BinaryV1;
typedef struct { uint32_t version; union { BinaryV1 v1; }; } Binary;
typedef struct {
    uint32_t backend; const char* name; Version version;
    uint64_t (*create)(void**);
    uint64_t (*get)(void*, void*, uint64_t, const Binary**, uint64_t*);
    uint64_t (*free)(void*);
} Interface;

static uint32_t shape[] = {128, 1, 64};
static Tensor tensors[] = {
    {1, .v1 = {.name = "in", .data_type = 0x0408, .q = {1, 0, .one = {0.5f, -128}}, .rank = 3, .dimensions = shape}},
    {1, .v1 = {.name = "mask", .data_type = 0x0216, .q = {0x7FFFFFFF, 0x7FFFFFFF}, .rank = 1, .dimensions = shape}},
    {1, .v1 = {.name = "out", .data_type = 0x0232, .q = {0x7FFFFFFF, 0x7FFFFFFF}, .rank = 0}},
};
static Graph graphs[] = {
    {1, .v1 = {"graphllm0", 2, tensors, 1, tensors + 2}},
    {1, .v1 = {"graphllm1_0", 1, tensors, 1, tensors + 2}},
};
static Binary binary = {1, .v1 = {.build = "v2.13.0", .soc = "", .blob_size = 4096, .graphs = 2, .graph = graphs}};

static uint64_t create(void** handle) { return *handle = &binary, 0; }
static uint64_t get(void* handle, void* data, uint64_t size, const Binary** info, uint64_t* info_size) {
    if (size >= 5 && !memcmp(data, "CRASH", 5)) raise(SIGSEGV);
    if (size < 3 || !memcmp(data, "BAD", 3)) return 30010;
    *info = handle;
    *info_size = sizeof(Binary);
    return 0;
}
static uint64_t done(void* handle) { return handle ? 0 : 1; }
static Interface interface = {0, "SYSTEM", {1, 0, 0}, create, get, done};
static const Interface* providers[] = {&interface};

uint64_t QnnSystemInterface_getProviders(const Interface*** list, uint32_t* count) {
    *list = providers;
    *count = 1;
    return 0;
}
