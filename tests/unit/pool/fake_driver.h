// A driver table for the pool's tests: the VMM rules as a strict state machine, with a budget, work in flight, captures and
// faults on demand. What the real driver would punish by a fault or a corrupted neighbour is a violation here.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "shim/driver/driver.h"

namespace cuheap::fake {

class FakeDriver {
 public:
  static constexpr std::uint64_t kGranule = std::uint64_t{2} << 20;

  /// Forgets everything; every device has `capacity` bytes; device i has the context context_of(i).
  void reset(std::uint64_t capacity, int devices = 1);
  const DriverTable& table() const { return table_; }

  static std::uint64_t context_of(int device) { return 0xc0000000u + static_cast<unsigned>(device) * 0x1000u; }
  std::uint64_t new_context(int device);
  void end_context(std::uint64_t context);
  /// A context that the driver makes at the address of one that has ended.
  void new_life(std::uint64_t context, int device);
  void set_current(std::uint64_t context);

  /// A kernel of the context uses the range: it must be mapped and open to the device, and stay so until it is finished.
  void launch(std::uint64_t context, std::uint64_t address, std::uint64_t bytes);
  void finish(std::uint64_t context);
  void finish_all();
  bool is_busy(std::uint64_t context);

  void begin_capture() { ++captures_; }
  void end_capture() { --captures_; }
  /// What cuMemFree and cuMemAlloc of a thread answer that a capture prohibits.
  void set_prohibited(bool prohibited) { prohibited_ = prohibited; }
  /// What cuDeviceCanAccessPeer says.
  void set_peers_possible(bool possible) { peers_possible_ = possible; }
  /// What cuStreamIsCapturing says, and that cuMemFreeAsync is refused then; NONE ends it.
  void set_stream_state(CUstreamCaptureStatus status) { stream_status_ = status; }

  /// Every nth call (of the names given, or of all that can fail) answers `code`; 0 ends it.
  void fail_every(unsigned n, CUresult code = CUDA_ERROR_OUT_OF_MEMORY, std::set<std::string> names = {});
  /// The nth call of the name from now on answers `code`, once.
  void fail_once(const std::string& name, unsigned nth, CUresult code);
  void set_sticky(CUresult code) { sticky_ = code; }
  void set_capacity(std::uint64_t bytes, int device = 0) { devices_[device].capacity = bytes; }
  void set_vmm_supported(bool supported) { vmm_supported_ = supported; }

  std::uint64_t used(int device = 0);
  std::uint64_t calls(const std::string& name);
  std::uint64_t handles() const { return handles_.size(); }
  /// Address and handle of every mapping.
  std::map<std::uint64_t, std::uint64_t> mapped();
  const std::vector<std::string>& violations() const { return violations_; }
  bool is_open_to(std::uint64_t address, std::uint64_t bytes, int device);

  // The entry points; each locks, counts, and may be told to fail.
  CUresult create(CUmemGenericAllocationHandle* out, std::size_t size, const CUmemAllocationProp* prop);
  CUresult release(CUmemGenericAllocationHandle handle);
  CUresult reserve(CUdeviceptr* out, std::size_t size, std::size_t alignment);
  CUresult unreserve(CUdeviceptr address, std::size_t size);
  CUresult map(CUdeviceptr address, std::size_t size, std::size_t offset, CUmemGenericAllocationHandle handle);
  CUresult unmap(CUdeviceptr address, std::size_t size);
  CUresult set_access(CUdeviceptr address, std::size_t size, const CUmemAccessDesc* access, std::size_t count);
  CUresult info(std::size_t* free, std::size_t* total);
  CUresult alloc(CUdeviceptr* out, std::size_t bytes);
  CUresult free(CUdeviceptr address);
  CUresult free_async(CUdeviceptr address);
  CUresult event_create(CUevent* out);
  CUresult event_destroy(CUevent event);
  CUresult event_query(CUevent event);
  CUresult event_synchronize(CUevent event);
  CUresult context_record(CUcontext context, CUevent event);
  CUresult context_synchronize();
  CUresult push(CUcontext context);
  CUresult pop(CUcontext* out);
  CUresult context_device(CUdevice* out);
  CUresult attribute(int* out, CUdevice_attribute which, CUdevice device);
  CUresult total(std::size_t* out, CUdevice device);
  CUresult exchange_mode(CUstreamCaptureMode* mode);
  CUresult pointer_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address);
  CUresult memset(CUdeviceptr address, std::size_t bytes);
  CUresult range_handle(CUdeviceptr address, std::size_t bytes);

 private:
  struct Device {
    std::uint64_t capacity = 0;
    std::uint64_t used = 0;
  };
  struct Handle {
    std::uint64_t size;
    int device;
    unsigned mappings = 0;
    bool released = false;
  };
  struct Mapping {
    std::uint64_t size;
    std::uint64_t handle;
    std::set<int> access;
  };
  struct Work {
    std::uint64_t address, bytes, number;
  };
  struct Context {
    int device;
    std::uint64_t queued = 0;
    std::uint64_t done = 0;
    std::vector<Work> work;
  };
  struct EventState {
    std::uint64_t context = 0;
    std::uint64_t number = 0;
  };

  CUresult enter(const char* name, bool may_fail);
  void violation(const std::string& what) { violations_.push_back(what); }
  void not_in_capture(const char* name);
  void retire(Context& context, std::uint64_t number);
  void drop_if_unused(std::uint64_t handle);
  bool is_open(std::uint64_t address, std::uint64_t bytes, int device) const;

  std::mutex mutex_;
  DriverTable table_ = {};
  std::vector<Device> devices_;
  std::map<std::uint64_t, Handle> handles_;
  std::map<std::uint64_t, Mapping> mappings_;
  std::map<std::uint64_t, std::uint64_t> reservations_;
  std::map<std::uint64_t, std::pair<std::uint64_t, int>> allocations_;
  std::map<std::uint64_t, Context> contexts_;
  std::map<CUevent, EventState> events_;
  std::map<std::string, std::uint64_t> calls_;
  std::vector<std::string> violations_;
  std::uint64_t next_handle_ = 1;
  std::uint64_t next_address_ = 0;
  std::uint64_t next_event_ = 1;
  std::uint64_t next_context_ = 0;
  int captures_ = 0;
  bool prohibited_ = false;
  bool vmm_supported_ = true;
  bool peers_possible_ = true;
  CUstreamCaptureStatus stream_status_ = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult sticky_ = CUDA_SUCCESS;
  unsigned fail_every_ = 0;
  unsigned fail_count_ = 0;
  CUresult fail_code_ = CUDA_SUCCESS;
  std::set<std::string> fail_names_;
  struct Once {
    std::string name;
    unsigned nth;
    CUresult code;
  };
  std::vector<Once> once_;
};

/// The one that the table's functions talk to.
FakeDriver& driver();

}  // namespace cuheap::fake
