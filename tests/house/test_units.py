"""Numbers for people."""

import pytest

from virtoll import units
from virtoll.system.printable import printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.nanoseconds(1_234_567), "1.23 ms"),
        (units.nanoseconds(999_999), "1.00 ms"),
        (units.nanoseconds(125e9), "2 min 5 s"),
        (units.nanoseconds(0), "0 ns"),
        (units.time_to_come(38.4), "38 s"),
        (units.time_to_come(117), "1.9 min"),
        (units.time_to_come(3600), "60 min"),
        (units.time_to_come(27_000), "7.5 h"),
        (units.time_to_come(1610.3 * 3600), "67 days"),
        (units.size(256 << 20), "256 MiB"),
        (units.size(1000), "1000 B"),
        (units.size(1536), "1.50 KiB"),
        (units.count(412_345), "412 k"),
        (units.count(999_900), "1.00 M"),
        (units.frame_rate(412_345), "412 kframes/s"),
        (units.frame_rate(41), "41.0 frames/s"),
        (units.percent(0.0412), "4.12 %"),
        (units.percent(1.0), "100 %"),
        (units.percent(-0.05), "−5.00 %"),
        (units.percent(0.00001), "<0.01 %"),
        (units.percent(0.0001), "0.0100 %"),
        (units.percent(0.00015), "0.0150 %"),
        (units.parts_per_million(-0.002), "−2000 ppm"),
        (units.parts_per_million(0.05), "+5.00 %"),
        (units.significant(0.09996), "0.100"),
        (units.value(3.0, "ops"), "3.00 ops"),
        (units.value(9_310_000, "bytes/s"), "9.31 MB/s"),
        (units.value(1.2e9, "B/s"), "1.20 GB/s"),
        (units.value(95.1e6, "bit/s"), "95.1 Mbit/s"),
        (units.between(466_000, 476_000, "frames/s"), "466 to 476 kframes/s"),
        (units.between(950, 1200, "ns"), "950 ns to 1.20 µs"),
        (units.between(125e9, 185e9, "ns"), "2 min 5 s to 3 min 5 s"),
        (units.between(0.5, 0.75, ""), "0.50 to 0.75"),
        (units.value(95.1, "Mbit/s"), "95.1 Mbit/s"),
        (units.value(5284, "Mbit/s"), "5.28 Gbit/s"),
        (units.value(1234, "1/s"), "1230 per s"),
        (units.value(0.987, ""), "0.987"),
        (units.value(412_345, "frames/s"), "412 kframes/s"),
        (units.value(1234, "transactions/s"), "1230 transactions/s"),
        (units.value(12.345, "requests/s"), "12.3 requests/s"),
        (units.value(1_204_000, "rows/s"), "1.20 M rows/s"),
        (units.value(1_230_000, "ns"), "1.23 ms"),
        (units.value(256 << 20, "bytes"), "256 MiB"),
        (units.between(29_840, 58_510, "frames/s"), "29 to 59 kframes/s"),
        (units.between(1.4996, 1.5004, "x"), "1.49 to 1.51x"),
        (units.between(264 << 20, 265 << 20, "bytes"), "264 to 265 MiB"),
        (units.estimate(29_840_000, (15.1e6, 58.5e6), "ns"), "30 ms"),
        (units.estimate(29_840_000, (29.7e6, 29.9e6), "ns"), "29.8 ms"),
        (units.estimate(29_840_000, None, "ns"), "29.8 ms"),
        (units.metric_words("latency_p99_ns"), "latency p99"),
        (units.metric_words("pdr"), "PDR"),
    ],
)
def test_text(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize(
    ("largest", "unit", "scale", "named"),
    [
        (2.5e6, "ns", 1e6, "ms"),
        (0.2, "ns", 1, "ns"),
        (90e9, "ns", 1e9, "s"),
        (4e9, "bytes/s", 1e9, "GB/s"),
        (412e3, "frames/s", 1e3, "kframes/s"),
        (95, "Mbit/s", 1, "Mbit/s"),
        (2500, "Mbit/s", 1e3, "Gbit/s"),
        (5000, "transactions/s", 1, "transactions/s"),
        (5000, "1/s", 1, "per s"),
        (0.98, "", 1, ""),
    ],
)
def test_an_axis_has_one_unit_for_all_its_values(largest: float, unit: str, scale: float, named: str) -> None:
    assert units.axis_unit(largest, unit) == (scale, named)


def test_what_would_steer_a_terminal_is_written_out() -> None:
    assert printable("a\x1b[31mb\x07\u202e\u00e9漢\u00a0†\n") == "a\\x1b[31mb\\x07\\u202eé漢\u00a0†\n"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.664, 1.144, "66 to 115 %"),
        (0.98, 0.99971, "98.0 to 99.98 %"),
        (1.00004, 1.2, "100.004 to 120 %"),
        (0.9, 0.9999999, "90 to <100 %"),
        (0.9, 1.0, "90 to 100 %"),
        (0.0098, 0.0102, "0.98 to 1.02 %"),
        (0.0, 0.00002, "0 to <0.01 %"),
        (0.5, 0.5, "50 %"),
        (1e-9, 1e9, "0 to 100000000000 %"),
        (1e-9, 1e38, "0 to >1e12 %"),
    ],
)
def test_the_ends_of_shares_are_rounded_outward(low: float, high: float, expected: str) -> None:
    assert units.percent_between(low, high) == expected


def test_a_share_has_the_digits_that_its_interval_leaves() -> None:
    assert [units.percent_estimate(0.29812, ends) for ends in (None, (0.15, 0.59), (0.29, 0.31))] == [
        "30 %",
        "30 %",
        "29.8 %",
    ]
    assert [units.percent_estimate(one) for one in (0.0383, 1.04, 0.0, 1e-6)] == ["3.8 %", "104 %", "0 %", "<0.01 %"]


def test_no_end_of_an_interval_is_inside_it() -> None:
    for number in range(1, 300):
        low, high = 0.013 * number, 0.013 * number * (1 + 0.7 / number)
        one, other = units.percent_between(low, high).removesuffix(" %").split(" to ")
        assert float(one) <= 100 * low + 1e-6
        assert float(other) >= 100 * high - 1e-6
