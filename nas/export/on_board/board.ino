// Times the network of network.h by tflite-micro and prints a line for `python -m nas.measure serial=`.
// An Arduino sketch; and with any C++17 compiler: c++ -x c++ board.ino, see README.md.
#include "network.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/micro/system_setup.h"
#include "tensorflow/lite/schema/schema_generated.h"

#if defined(ARDUINO)
#include <Arduino.h>
static uint32_t now_us() { return micros(); }
static void print(const char* line) { Serial.println(line); }
#elif defined(__arm__) && !defined(__linux__)
// The cycle counter of Cortex-M3 and larger; -DEDGENAS_MHZ=400 is the clock of the core.
#ifndef EDGENAS_MHZ
#error "give the clock of the core, such as -DEDGENAS_MHZ=400: cycles are divided by it"
#endif
static volatile uint32_t* const kTrace = (uint32_t*)0xE000EDFC;
static volatile uint32_t* const kLock = (uint32_t*)0xE0001FB0;
static volatile uint32_t* const kControl = (uint32_t*)0xE0001000;
static volatile uint32_t* const kCycles = (uint32_t*)0xE0001004;
static uint32_t now_us() {
  *kTrace |= 1u << 24;
  *kLock = 0xC5ACCE55u;
  *kControl |= 1u;
  return *kCycles / EDGENAS_MHZ;
}
static void print(const char* line) { puts(line); }
#else
#include <chrono>
static uint32_t now_us() {
  auto since = std::chrono::steady_clock::now().time_since_epoch();
  return (uint32_t)std::chrono::duration_cast<std::chrono::microseconds>(since).count();
}
static void print(const char* line) { puts(line); }
#endif

constexpr int kRuns = 21;
alignas(16) static uint8_t arena[kArenaBytes];
static char line[768];

static bool time_network() {
  tflite::MicroMutableOpResolver<kOperators> resolver;
  add_operators(resolver);
  tflite::MicroInterpreter interpreter(tflite::GetModel(kNetwork), resolver, arena, kArenaBytes);
  if (interpreter.AllocateTensors() != kTfLiteOk) {
    print("edgenas failed: the arena is too small, or an operator is missing in this tflite-micro");
    return false;
  }
  uint32_t us[kRuns];
  for (int run = 0; run < kRuns; ++run) {
    memcpy(interpreter.input(0)->data.int8, kInput, sizeof(kInput));  // a run may overwrite it
    const uint32_t before = now_us();
    if (interpreter.Invoke() != kTfLiteOk) {
      print("edgenas failed: an operator failed");
      return false;
    }
    const uint32_t taken = now_us() - before;
    int at = run;  // sorted as they come, so that the middle one is the median
    for (; at > 0 && us[at - 1] > taken; --at) us[at] = us[at - 1];
    us[at] = taken;
  }
  // Kernels of another processor may round otherwise: the largest difference is printed, not judged.
  int largest = 0;
  for (size_t i = 0; i < sizeof(kExpected); ++i) {
    const int apart = interpreter.output(0)->data.int8[i] - kExpected[i];
    largest = apart > largest ? apart : -apart > largest ? -apart : largest;
  }
  snprintf(line, sizeof(line), "edgenas us=%lu arena=%lu runs=%d largest_difference=%d network=%s",
           (unsigned long)us[kRuns / 2], (unsigned long)interpreter.arena_used_bytes(), kRuns,
           largest, kName);
  print(line);
  return true;
}

void setup() {
#if defined(ARDUINO)
  Serial.begin(115200);
#endif
  tflite::InitializeTarget();
}

#if defined(ARDUINO)
void loop() {
  time_network();
  delay(5000);
}
#else
int main() {
  setup();
  return time_network() ? 0 : 1;
}
#endif
