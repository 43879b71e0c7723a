// Where a trace must not lie while it is written: file systems whose server, and not this machine's kernel, decides whether
// the pages of a shared mapping arrive. A full server loses them without a word, or ends the process by SIGBUS.
#pragma once
#include <cstdint>

namespace cuheap {

/// The name of such a file system by statfs::f_type; null: the kernel's own.
constexpr const char* remote_file_system(std::uint32_t type) {
  switch (type) {
    case 0x6969: return "NFS";
    case 0x517b: case 0xff534d42: case 0xfe534d42: return "SMB";
    case 0x65735546: return "FUSE";
    case 0x01021997: return "9P";
    case 0x00c36400: return "Ceph";
    case 0x5346414f: case 0x6b414653: return "AFS";
    case 0x0bd00bd0: return "Lustre";
    case 0x47504653: return "GPFS";
    case 0x19830326: return "BeeGFS";
    case 0x786f4256: return "a VirtualBox folder";
    default: return nullptr;
  }
}

}  // namespace cuheap
