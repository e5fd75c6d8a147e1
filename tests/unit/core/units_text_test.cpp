#include "core/units_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace foreplan {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The message of a parse that must fail.
template <class T>
std::string message(const Result<T>& result) {
  if (result) return "(was accepted)";
  EXPECT_EQ(result.error().size(), 1u);
  return result.error().front().message;
}

TEST(ParseBytes, KnowsEveryUnit) {
  EXPECT_EQ(parse_bytes("512 B"), Bytes{512});
  EXPECT_EQ(parse_bytes("3 kB"), Bytes{3e3});
  EXPECT_EQ(parse_bytes("3 MB"), Bytes{3e6});
  EXPECT_EQ(parse_bytes("80 GB"), Bytes{80e9});
  EXPECT_EQ(parse_bytes("3.35 TB"), Bytes{3.35e12});
  EXPECT_EQ(parse_bytes("3 KiB"), Bytes{3072});
  EXPECT_EQ(parse_bytes("64 MiB"), Bytes{67108864});
  EXPECT_EQ(parse_bytes("1.5 GiB"), Bytes{1610612736});
  EXPECT_EQ(parse_bytes("2 TiB"), Bytes{2199023255552});
}

TEST(ParseSeconds, KnowsEveryUnit) {
  EXPECT_EQ(parse_seconds("7 ns"), Seconds{7e-9});
  EXPECT_EQ(parse_seconds("12.5 us"), Seconds{12.5e-6});
  EXPECT_EQ(parse_seconds("812 ms"), Seconds{0.812});
  EXPECT_EQ(parse_seconds("4 s"), Seconds{4});
  EXPECT_EQ(parse_seconds("2 min"), Seconds{120});
  EXPECT_EQ(parse_seconds("1.5 h"), Seconds{5400});
  EXPECT_EQ(parse_seconds("7 d"), Seconds{604800});
}

TEST(ParseBandwidth, KnowsEveryUnit) {
  EXPECT_EQ(parse_bandwidth("5 B/s"), BytesPerSecond{5});
  EXPECT_EQ(parse_bandwidth("5 kB/s"), BytesPerSecond{5e3});
  EXPECT_EQ(parse_bandwidth("5 MB/s"), BytesPerSecond{5e6});
  EXPECT_EQ(parse_bandwidth("450 GB/s"), BytesPerSecond{450e9});
  EXPECT_EQ(parse_bandwidth("3.35 TB/s"), BytesPerSecond{3.35e12});
  EXPECT_EQ(parse_bandwidth("5 KiB/s"), BytesPerSecond{5120});
  EXPECT_EQ(parse_bandwidth("5 MiB/s"), BytesPerSecond{5242880});
  EXPECT_EQ(parse_bandwidth("5 GiB/s"), BytesPerSecond{5368709120});
  EXPECT_EQ(parse_bandwidth("1 TiB/s"), BytesPerSecond{1099511627776});
  EXPECT_EQ(parse_bandwidth("8 bit/s"), BytesPerSecond{1});
  EXPECT_EQ(parse_bandwidth("8 kbit/s"), BytesPerSecond{1e3});
  EXPECT_EQ(parse_bandwidth("8 Mbit/s"), BytesPerSecond{1e6});
  EXPECT_EQ(parse_bandwidth("400 Gbit/s"), BytesPerSecond{50e9});
  EXPECT_EQ(parse_bandwidth("1.6 Tbit/s"), BytesPerSecond{200e9});
}

TEST(ParseFlopRate, KnowsEveryUnit) {
  EXPECT_EQ(parse_flop_rate("5 FLOP/s"), FlopsPerSecond{5});
  EXPECT_EQ(parse_flop_rate("5 GFLOP/s"), FlopsPerSecond{5e9});
  EXPECT_EQ(parse_flop_rate("989.4 TFLOP/s"), FlopsPerSecond{989.4e12});
  EXPECT_EQ(parse_flop_rate("1.979 PFLOP/s"), FlopsPerSecond{1.979e15});
}

TEST(ParseHertz, KnowsEveryUnit) {
  EXPECT_EQ(parse_hertz("50 Hz"), 50.0);
  EXPECT_EQ(parse_hertz("50 kHz"), 50e3);
  EXPECT_EQ(parse_hertz("1410 MHz"), 1.41e9);
  EXPECT_EQ(parse_hertz("1.98 GHz"), 1.98e9);
}

TEST(ParseQuantity, TakesTheNumberAsWritten) {
  EXPECT_EQ(parse_bytes("64MiB"), Bytes{67108864});
  EXPECT_EQ(parse_bytes("  64  MiB "), Bytes{67108864});
  EXPECT_EQ(parse_bytes("+1.5e3 B"), Bytes{1500});
  EXPECT_EQ(parse_bytes(".5 kB"), Bytes{500});
  EXPECT_EQ(parse_bytes("5. kB"), Bytes{5000});
  EXPECT_EQ(parse_bytes("0 B"), Bytes{0});
  EXPECT_EQ(parse_seconds("0e999 s"), Seconds{0});
  // 0.3 * 1e-6 is not the double nearest to 3e-7; the value as written is.
  EXPECT_EQ(parse_seconds("0.3 us"), Seconds{3e-7});
}

TEST(ParseQuantity, DemandsAUnitAndListsThem) {
  EXPECT_EQ(message(parse_bytes("64")),
            "\"64\" has no unit; write one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB");
  EXPECT_EQ(message(parse_seconds("1e-5")),
            "\"1e-5\" has no unit; write one of ns, us, ms, s, min, h, d");
}

TEST(ParseQuantity, NamesTheUnitThatWasMeant) {
  EXPECT_THAT(message(parse_bytes("64 mib")), HasSubstr("\"mib\"; did you mean MiB?"));
  EXPECT_THAT(message(parse_bytes("64 Kb")), HasSubstr("did you mean kB?"));
  EXPECT_THAT(message(parse_bandwidth("450 GBps")), HasSubstr("did you mean GB/s?"));
  EXPECT_THAT(message(parse_bandwidth("450 GB")), HasSubstr("did you mean GB/s?"));
  EXPECT_THAT(message(parse_bandwidth("400 Gbps")), HasSubstr("did you mean Gbit/s?"));
  EXPECT_THAT(message(parse_bandwidth("400 gb/s")), HasSubstr("did you mean Gbit/s?"));
  EXPECT_THAT(message(parse_bandwidth("400 Gib/s")), HasSubstr("did you mean GiB/s?"));
  EXPECT_THAT(message(parse_flop_rate("989 TFLOPS")), HasSubstr("did you mean TFLOP/s?"));
  EXPECT_THAT(message(parse_flop_rate("989 tflop/s")), HasSubstr("did you mean TFLOP/s?"));
  EXPECT_THAT(message(parse_hertz("1410 mhz")), HasSubstr("did you mean MHz?"));
}

TEST(ParseQuantity, ListsTheUnitsWhereNoneIsNear) {
  EXPECT_EQ(message(parse_seconds("3 parsec")),
            "\"3 parsec\" has the unknown unit \"parsec\"; write one of ns, us, ms, s, min, h, d");
  EXPECT_THAT(message(parse_bytes("1,000 GB")), HasSubstr("unknown unit \",000 GB\""));
  EXPECT_THAT(message(parse_bytes("0x10 B")), HasSubstr("unknown unit \"x10 B\""));
}

TEST(ParseQuantity, RefusesWhatIsNoQuantity) {
  for (const char* text :
       {"", " ", "B", "abc", "nan s", "inf s", "infinity", ". s", "e5 s", "--5 s"}) {
    EXPECT_THAT(message(parse_seconds(text)), HasSubstr("does not start with a number")) << text;
  }
  EXPECT_THAT(message(parse_seconds("-3 s")), StartsWith("\"-3 s\" is negative"));
  EXPECT_THAT(message(parse_seconds("1e400 s")), HasSubstr("beyond the range"));
  EXPECT_THAT(message(parse_bytes("1e308 GiB")), HasSubstr("beyond the range"));
  EXPECT_THAT(message(parse_seconds("1e99999999999999999999 s")), HasSubstr("beyond the range"));
  EXPECT_THAT(message(parse_seconds("1e-400 s")), HasSubstr("beyond the range"));
}

TEST(ParsePercent, IsAFractionWithAMandatorySign) {
  EXPECT_EQ(parse_percent("25 %"), 0.25);
  EXPECT_EQ(parse_percent("5%"), 0.05);
  EXPECT_EQ(parse_percent("0 %"), 0.0);
  EXPECT_EQ(parse_percent("100 %"), 1.0);
  EXPECT_EQ(message(parse_percent("0.25")), "\"0.25\" has no unit; write one of %");
  EXPECT_EQ(message(parse_percent("101 %")), "\"101 %\" is more than 100 %");
  EXPECT_EQ(parse_percent("150 %", true), 1.5);
}

TEST(ParseCount, MultipliesByPowersOfTenAndTwo) {
  const std::vector<std::string_view> units = {"tokens", "sequences"};
  const auto count = [&](std::string_view text) {
    const Result<Count> result = parse_count(text, units);
    return result ? std::to_string(result->value) + " " + result->unit : message(result);
  };
  EXPECT_EQ(count("4M tokens"), "4000000 tokens");
  EXPECT_EQ(count("4Mi tokens"), "4194304 tokens");
  EXPECT_EQ(count("2048 sequences"), "2048 sequences");
  EXPECT_EQ(count("1.5M tokens"), "1500000 tokens");
  EXPECT_EQ(count("0.1k tokens"), "100 tokens");
  EXPECT_EQ(count("8 Ki tokens"), "8192 tokens");
  EXPECT_EQ(count("15B  tokens"), "15000000000 tokens");
  EXPECT_EQ(count("1e6 tokens"), "1000000 tokens");
  EXPECT_EQ(count("1000000B tokens"), "1000000000000000 tokens");
}

TEST(ParseCount, SaysWhatIsWrong) {
  const std::vector<std::string_view> units = {"tokens", "sequences"};
  EXPECT_EQ(message(parse_count("4M", units)),
            "\"4M\" has no unit; write one of tokens, sequences");
  EXPECT_EQ(message(parse_count("4", units)), "\"4\" has no unit; write one of tokens, sequences");
  EXPECT_THAT(message(parse_count("4M token", units)), HasSubstr("did you mean tokens?"));
  EXPECT_THAT(message(parse_count("4m tokens", units)),
              HasSubstr("unknown multiplier \"m\"; did you mean M? write one of k, M, B, Ki, Mi"));
  EXPECT_THAT(message(parse_count("1.5 tokens", units)), HasSubstr("not a whole number from 1"));
  EXPECT_THAT(message(parse_count("1.2345k tokens", units)),
              HasSubstr("not a whole number from 1"));
  EXPECT_THAT(message(parse_count("0 tokens", units)), HasSubstr("not a whole number from 1"));
  EXPECT_THAT(message(parse_count("1000001B tokens", units)),
              HasSubstr("not a whole number from 1"));
  EXPECT_THAT(message(parse_count("-4M tokens", units)), HasSubstr("is negative"));
  EXPECT_THAT(message(parse_count("many tokens", units)),
              HasSubstr("write for example \"4M tokens\""));
}

TEST(Print, IsTheShortestThatReadsBack) {
  EXPECT_EQ(print(Bytes{67108864}), "64 MiB");
  EXPECT_EQ(print(Bytes{80e9}), "80 GB");
  EXPECT_EQ(print(Bytes{0}), "0 B");
  EXPECT_EQ(print(Bytes{-0.0}), "0 B");
  EXPECT_EQ(print(Seconds{12e-6}), "12 us");
  EXPECT_EQ(print(Seconds{604800}), "7 d");
  EXPECT_EQ(print(BytesPerSecond{3.35e12}), "3.35 TB/s");
  EXPECT_EQ(print(BytesPerSecond{50e9}), "50 GB/s");
  EXPECT_EQ(print(FlopsPerSecond{989.4e12}), "989.4 TFLOP/s");
}

TEST(Readable, ScalesBytesToThreeDigits) {
  EXPECT_EQ(readable(Bytes{71.3 * kGiB}), "71.3 GiB");
  EXPECT_EQ(readable(Bytes{512}), "512 B");
  EXPECT_EQ(readable(Bytes{1023}), "1023 B");
  EXPECT_EQ(readable(Bytes{64 * kMiB}), "64.0 MiB");
  EXPECT_EQ(readable(Bytes{1000 * kMiB}), "1000 MiB");
  EXPECT_EQ(readable(Bytes{1023.9 * kMiB}), "1.00 GiB");
  EXPECT_EQ(readable(Bytes{3 * 1024 * kGiB}), "3.00 TiB");
  EXPECT_EQ(readable(Bytes{0}), "0 B");
  EXPECT_EQ(readable(Bytes{-2 * kGiB}), "-2.00 GiB");
  EXPECT_EQ(readable(Bytes{71.34 * kGiB}, 4), "71.34 GiB");
  EXPECT_EQ(readable(Bytes{71.6 * kGiB}, 1), "72 GiB");
}

TEST(Readable, ScalesSeconds) {
  EXPECT_EQ(readable(Seconds{4.213}), "4.21 s");
  EXPECT_EQ(readable(Seconds{0.8123}), "812 ms");
  EXPECT_EQ(readable(Seconds{12.5e-6}), "12.5 us");
  EXPECT_EQ(readable(Seconds{0.5e-9}), "0.500 ns");
  EXPECT_EQ(readable(Seconds{0.9999}), "1.00 s");
  EXPECT_EQ(readable(Seconds{75.25}), "75.2 s");
  EXPECT_EQ(readable(Seconds{1800}), "30.0 min");
  EXPECT_EQ(readable(Seconds{5400}), "1.50 h");
  EXPECT_EQ(readable(Seconds{86400}), "24.0 h");
  EXPECT_EQ(readable(Seconds{54 * 86400.0}), "54.0 d");
  EXPECT_EQ(readable(Seconds{0}), "0 s");
}

TEST(Readable, ScalesBandwidthInPowersOfTen) {
  EXPECT_EQ(readable(BytesPerSecond{50e9}), "50.0 GB/s");
  EXPECT_EQ(readable(BytesPerSecond{3.35e12}), "3.35 TB/s");
  EXPECT_EQ(readable(BytesPerSecond{999.6e9}), "1.00 TB/s");
}

TEST(Readable, CopesWithTheEdgesOfDoubles) {
  EXPECT_EQ(readable(Bytes{5e-324}).substr(0, 6), "0.0000");
  EXPECT_EQ(readable(Seconds{1e300}).substr(0, 4), "1157");  // 1e300 / 86400 s = 1.1574e295 d
}

TEST(Readable, ShowsNonFiniteValuesAsSuch) {
  EXPECT_EQ(readable(Seconds{std::numeric_limits<double>::infinity()}), "inf s");
  EXPECT_EQ(readable(Bytes{std::numeric_limits<double>::quiet_NaN()}), "nan B");
}

TEST(ReadableCount, UsesPowersOfTen) {
  EXPECT_EQ(readable_count(70.6e9), "70.6B");
  EXPECT_EQ(readable_count(4194304), "4.19M");
  EXPECT_EQ(readable_count(512), "512");
  EXPECT_EQ(readable_count(5), "5");
  EXPECT_EQ(readable_count(1500), "1.50k");
  EXPECT_EQ(readable_count(15e12), "15.0T");
  EXPECT_EQ(readable_count(999999), "1.00M");
}

}  // namespace
}  // namespace foreplan
