// The answers of cuDeviceGetAttribute and the identity of a device: UUID, PCI place. Shared by libcuda and libnvidia-ml.
#pragma once

#include <string>

#include "simgpu/device_spec.h"

namespace cuheap::sim {

/// By the number of the attribute; false: no such attribute.
bool device_attribute(int device, int attribute, int& value);
bool device_attribute(const DeviceSpec& spec, int device, int attribute, int& value);

/// 16 bytes, the same for the same device of every run.
void device_uuid(int device, unsigned char* bytes);
/// "0000:01:00.0"
std::string pci_bus_id(int device);
int device_bus(int device);
/// -1: none.
int device_at_bus(int bus);

struct ErrorText {
  const char* name;
  const char* meaning;
};
/// Nulls for an unknown code.
ErrorText error_text(int code);

}  // namespace cuheap::sim
