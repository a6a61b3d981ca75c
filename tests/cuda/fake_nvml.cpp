// libnvidia-ml.so.1 as the doctor opens it, for one GPU. $FAKE_NVML: "init=9,count=3,width=8,heat=1,errors=2,mig=1,pid=77,hides-memory=1".

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

double setting(const char* name, double otherwise) {
  const char* const text = std::getenv("FAKE_NVML");
  const std::string all = "," + std::string(text == nullptr ? "" : text);
  const std::size_t at = all.find("," + std::string(name) + "=");
  return at == std::string::npos ? otherwise : std::strtod(all.c_str() + at + std::strlen(name) + 2, nullptr);
}

int started = 0;

}  // namespace

extern "C" {

#define EXPORT __attribute__((visibility("default")))

EXPORT int nvmlInit_v2() {
  ++started;
  return static_cast<int>(setting("init", 0));
}
EXPORT int nvmlShutdown() { return --started < 0 ? 1 : 0; }
EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 1;
  return static_cast<int>(setting("count", 0));
}
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned, void** device) {
  *device = &started;
  return 0;
}
EXPORT int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  constexpr int not_found = 6;
  *device = &started;
  return std::strcmp(uuid, "GPU-fake") == 0 ? 0 : not_found;
}
EXPORT int nvmlDeviceGetUtilizationRates(void*, unsigned* percents) {
  percents[0] = static_cast<unsigned>(setting("use", 0));
  percents[1] = 0;
  return 0;
}
EXPORT int nvmlDeviceGetName(void*, char* name, unsigned size) {
  std::strncpy(name, "Fake GPU", size);
  return 0;
}
EXPORT int nvmlDeviceGetPciInfo_v3(void*, void* info) {
  struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
  } const all{"0000:3B:00.0", 0, 0x3b, 0, 0, 0, "00000000:3B:00.0"};
  std::memcpy(info, &all, sizeof all);
  return 0;
}
EXPORT int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* value) {
  *value = 5;
  return 0;
}
EXPORT int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* value) {
  *value = static_cast<unsigned>(setting("width", 16));
  return 0;
}
EXPORT int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* value) {
  *value = 16;
  return 0;
}
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* value) {
  *value = setting("heat", 0) > 0 ? 0x40 : 0x1;
  return 0;
}
EXPORT int nvmlDeviceGetTotalEccErrors(void*, int kind, int counter, unsigned long long* value) {
  constexpr int invalid_argument = 2;
  constexpr int uncorrected = 1;
  if (kind != uncorrected || counter != 0) return invalid_argument;  // only those since the driver was loaded are made up
  *value = static_cast<unsigned long long>(setting("errors", 0));
  return 0;
}
EXPORT int nvmlDeviceGetMigMode(void*, unsigned* now, unsigned* later) {
  constexpr int not_supported = 3;
  const double mode = setting("mig", -1);
  if (mode < 0) return not_supported;
  *now = *later = static_cast<unsigned>(mode);
  return 0;
}
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void* processes) {
  const auto pid = static_cast<unsigned>(setting("pid", 0));
  *count = pid > 0 ? 1 : 0;
  struct {
    unsigned pid;
    unsigned long long memory;
    unsigned instance, compute_instance;
  } const process{pid, setting("hides-memory", 0) > 0 ? ~0ULL : 1ULL << 30, 0, 0};
  if (pid > 0) std::memcpy(processes, &process, sizeof process);
  return 0;
}
}
