#include "tools/commands/output.h"

#include <gtest/gtest.h>

#include "tools/commands/arguments.h"
#include "tools/commands/device_table.h"
#include "tools/model/error.h"

namespace cuheap {
namespace {

TEST(Output, PrintsSizesInBinaryUnits) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1536), "1.50 KiB");
  EXPECT_EQ(size_text(80ull << 30), "80.0 GiB");
  EXPECT_EQ(size_text(~0ull), "16.0 EiB");
}

TEST(Output, GroupsThousands) {
  EXPECT_EQ(count_text(7), "7");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1,000");
  EXPECT_EQ(count_text(49442), "49,442");
  EXPECT_EQ(count_text(1234567), "1,234,567");
}

TEST(Output, MakesForeignBytesVisible) {
  EXPECT_EQ(printable("größe"), "größe");
  EXPECT_EQ(printable("a\xff"
                      "b\n"),
            "a\\xffb\\x0a");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a surrogate pair
}

TEST(Output, NamesAGpuAndWhoCallsItByAnotherNumber) {
  Trace trace;
  trace.processes.resize(3);
  trace.processes[1].rank = 7;
  trace.processes[2].pid = 42;
  const std::string uuid("\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef", 16);
  for (std::uint16_t process = 0; process < 3; ++process) {
    TraceDevice device;
    device.process = process;
    device.ordinal = 1;
    device.seen_as = process == 0 ? 1 : process == 1 ? 0 : 5;
    device.uuid = uuid;
    trace.devices.push_back(device);
  }
  EXPECT_EQ(uuid_text(trace.devices[0]), "GPU-01234567-89ab-cdef-0123-456789abcdef");
  EXPECT_EQ(uuid_text(TraceDevice()), "");
  EXPECT_EQ(other_numbers_text(trace, 1), "rank 7 sees it as 0, pid 42 sees it as 5");
  EXPECT_EQ(other_numbers_text(trace, 0), "");
}

TEST(Output, PutsLossesIntoTheHeadOfEveryAnswer) {
  Trace trace;
  trace.processes.emplace_back();
  trace.processes[0].lost_events[static_cast<std::size_t>(LossReason::NoChunk)] = 3;

  const Json json = json_head(trace);

  EXPECT_EQ(json["loss"]["events"], 3);
  EXPECT_EQ(json["loss"]["reasons"].size(), 1u);
}

TEST(Arguments, ReadTimesWithUnits) {
  EXPECT_EQ(parse_time_ns("1.5s", "--at"), 1'500'000'000u);
  EXPECT_EQ(parse_time_ns("2", "--at"), 2'000'000'000u);
  EXPECT_EQ(parse_time_ns("300ms", "--at"), 300'000'000u);
  EXPECT_EQ(parse_time_ns("17ns", "--at"), 17u);
  EXPECT_EQ(parse_time_ns("2m", "--at"), 120'000'000'000u);
}

TEST(Arguments, RefuseWhatIsNoTime) {
  for (const char* const text : {"", "peek", "-1s", "1x", "nan", "1e99s", "1.5.2"}) {
    EXPECT_THROW(parse_time_ns(text, "--at"), Error) << text;
  }
}

TEST(Arguments, NameTheFloors) {
  TraceArguments arguments;
  arguments.floor = "framework";
  EXPECT_EQ(arguments.wanted_floor(), Floor::Framework);
  arguments.floor = "none";
  EXPECT_THROW(arguments.wanted_floor(), Error);
}

TEST(DeviceTable, TakesWhatTheMakeBelieveGpuTakes) {
  for (const char* const spec : {"h100-80g", "H100-80G", "24GiB", "2x80GiB", "2xh100-80g,t4", "512m"}) {
    EXPECT_NO_THROW(check_device_spec(spec, "--on")) << spec;
  }
}

TEST(DeviceTable, AnswersAnUnknownDeviceWithTheNames) {
  try {
    check_device_spec("h100,b9000", "--on");
    FAIL();
  } catch (const Error& error) { EXPECT_NE(std::string(error.what()).find("h100-80g"), std::string::npos); }
  EXPECT_THROW(check_device_spec("", "--on"), Error);
}

TEST(DeviceTable, RefusesASizeThatTheMakeBelieveGpuWouldRefuse) {
  const auto refusal = [](const char* spec) {
    try {
      check_device_spec(spec, "--simgpu");
    } catch (const Error& error) { return std::string(error.what()); }
    return std::string();
  };
  EXPECT_EQ(refusal("24"), "--simgpu 24: no GPU has 24 bytes; did you mean 24GiB?");
  EXPECT_NE(refusal("2x24").find("did you mean 24GiB?"), std::string::npos);
  EXPECT_NE(refusal("1MiB").find("at least 2 MiB"), std::string::npos);
  for (const char* const spec : {"0", "1..5g", "24GB5", "0xt4", "17xt4", "9xt4,8x24GiB"}) EXPECT_NE(refusal(spec), "") << spec;
  for (const char* const spec : {"2097152", "2MiB", "1.5g", "16xt4"}) EXPECT_EQ(refusal(spec), "") << spec;
}

TEST(DeviceTable, HasMemoryAndContextForEveryRow) {
  for (const KnownDevice& device : known_devices()) {
    EXPECT_GT(device.total_bytes, 1ull << 30) << device.key;
    EXPECT_GT(device.context_bytes, 0u) << device.key;
    EXPECT_LT(device.context_bytes, device.total_bytes / 8) << device.key;
  }
}

}  // namespace
}  // namespace cuheap
