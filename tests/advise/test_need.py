"""Needs as text: what each part comes to, and one sentence for everything that is wrong with one."""

import pytest
from tests.support.facts import Command, assert_facts, refused

from virtoll.advise import parse_needs
from virtoll.advise.need import FigureNeed, Part, RouterNeed
from virtoll.api.needs import known_workloads

KNOWN = known_workloads()


def one(text: str) -> Part:
    (found,) = parse_needs([text], KNOWN)
    return found


def router(text: str) -> RouterNeed:
    found = one(text)
    assert isinstance(found, RouterNeed)
    return found


def figures(text: str) -> FigureNeed:
    found = one(text)
    assert isinstance(found, FigureNeed)
    return found


def test_a_router_has_a_size_a_rate_and_bounds() -> None:
    found = router("router 64B 200kpps loss<0.1% p50<100us p99<1ms")
    assert (found.frame_size_bytes, found.rate) == (64, 200_000)
    assert [found.loss, found.p50_ns, found.p99_ns] == pytest.approx([0.001, 100_000, 1_000_000])
    assert not found.plain
    assert router("router 64B 2kpps").plain
    assert router("router 64B 2kpps loss<=0%").loss == router("router 64B 2kpps loss<=0").loss == 0
    assert router("router 64B 2kpps sources=2 routes=0").where == {"sources": 2, "routes": 0}


@pytest.mark.parametrize(
    ("rate", "frames_per_second"),
    [
        ("1488095pps", 1_488_095),
        ("0.5Mpps", 500_000),
        ("672Mbit/s", 1_000_000),
        ("1.344 Gbit/s", 2_000_000),
        ("10% of 6.72Gbit/s", 1_000_000),
        ("10%of6.72 Gbit/s", 1_000_000),
        ("3 kframes/s", 3_000),
    ],
)
def test_a_routers_rate_is_of_frames_of_bits_on_the_wire_or_of_a_line(rate: str, frames_per_second: float) -> None:
    assert router(f"router 64B {rate} loss<1%").rate == pytest.approx(frames_per_second)


@pytest.mark.parametrize(
    ("text", "workload", "figure", "limit"),
    [
        ("oltp p99<20ms", "mariadb-oltp", "latency_p99", 2e7),
        ("oltp p95 < 20 ms", "mariadb-oltp", "latency_p95", 2e7),
        ("mariadb-oltp transactions>100/s", "mariadb-oltp", "transactions_per_second", 100),
        ("oltp transactions_per_second>=2 k/s", "mariadb-oltp", "transactions_per_second", 2000),
        ("tcp throughput>1Gbit/s", "tcp-stream", "throughput", 1000),
        ("udp received-share>99%", "iperf-udp", "received_share", 0.99),
        ("fio bytes>10MB/s", "fio", "bytes_per_second", 1e7),
        ("disk operations>5000iops", "fio", "operations_per_second", 5000),
        ("memory copy>1GiB/s", "stream", "copy_rate", 2**30),
        ("cpu duration<1.5s", "sysbench-cpu", "duration", 1.5e9),
        ("web replies>300/s", "nginx", "replies_per_second", 300),
        ("forward cpu_per_frame<900ns", "forward", "cpu_per_frame", 900),
        ("tcp-request-response p50<90us", "tcp-request-response", "latency_p50_ns", 90_000),
    ],
)
def test_a_figure_goes_by_its_name_or_a_shorter_one(text: str, workload: str, figure: str, limit: float) -> None:
    found = figures(text)
    assert next(iter(found.asked)) == workload
    (bound,) = found.asked[workload]
    assert bound.figure.name == figure
    assert bound.limit == pytest.approx(limit)


def test_every_figure_of_every_workload_can_be_asked_for() -> None:
    units = {"ns": "ms", "": "%", "B/s": "MB/s", "bytes/s": "MB/s", "frames/s": "kpps"}
    for name, workload in KNOWN.workloads.items():
        for figure in workload.figures:
            sign = "<" if figure.better == "lower" else ">"
            found = figures(f"{name} {figure.name}{sign}1{units.get(figure.unit, figure.unit)}")
            assert [one.figure for one in found.asked[name]] == [figure]


def test_an_alias_asks_of_the_workloads_that_have_the_figure() -> None:
    assert list(figures("oltp p99<20ms").asked) == ["mariadb-oltp", "mariadb-oltp-outside"]
    assert list(figures("web p99<20ms").asked) == ["nginx"]
    assert list(figures("oltp server=shared p99<20ms").asked) == ["mariadb-oltp"]
    assert figures("oltp threads=2 vcpus=4 p99<20ms p95<10ms").where == {"threads": 2, "vcpus": 4}


def test_a_parameter_is_what_records_have_of_it() -> None:
    assert figures("fio block_bytes=4KiB memory_bytes=256MiB operations>1iops").where == {
        "block_bytes": 4096,
        "memory_bytes": 256 * 2**20,
    }
    for name, workload in KNOWN.workloads.items():
        for key, usual in workload.parameters.items():
            if isinstance(usual, int | float | str):
                assert workload.checked(key, usual) == usual, f"{name} {key}"


def test_parts_and_repeated_needs_are_one_need() -> None:
    joined = parse_needs(["router 64B 200kpps + oltp p99<20ms"], KNOWN)
    assert joined == parse_needs(["router 64B 200kpps", "oltp p99<20ms", "oltp p99 < 20ms"], KNOWN)
    assert [part.text for part in joined] == ["router 64B 200kpps", "oltp p99<20ms"]


TIMES = "ns, us, µs, ms"
EXAMPLE = Command("router 64B 200kpps loss<0.1% p99<500us")
FIGURES = Command("duration, transactions_per_second, latency_average")


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", ["empty", Command("router 64B 200kpps + oltp p99<20ms")]),
        ("router 64B 2kpps + ", ["empty"]),
        ("router 64B 2kpps +  + oltp p99<1ms", ["empty"]),
        ("kettle duration<1s", ["'kettle'", "router", "oltp", "forward", "nginx"]),
        ("router 200kpps", ["one frame size", EXAMPLE]),
        ("router 64B 128B 200kpps", ["one frame size", EXAMPLE]),
        ("router 63B 200kpps", [63, 64, 1518]),
        ("router 9000B 200kpps", [9000, 64, 1518]),
        ("router 64B", ["no rate", EXAMPLE]),
        ("router 64B 2kpps 3kpps", ["'3kpps'", EXAMPLE]),
        ("router 64B 200", ["'200'", "rate", "pps, frames/s, kpps"]),
        ("router 64B 200MB/s", ["'200MB/s'", "rate"]),
        ("router 64B 5% of 9kettles", ["rate", "kpps"]),
        ("router 64B 0kpps", ["'0kpps'", "rate", 0]),
        ("router 64B 2kpps jitter<1ms", ["'jitter'", "loss, p50 and p99"]),
        ("router 64B 2kpps loss>1%", ["loss", "'loss<1%'"]),
        ("router 64B 2kpps loss<100%", ["loss", "100 %", "'100%'"]),
        ("router 64B 2kpps loss<0.1", ["loss", "no unit", "'0.1'", "'0.1%'"]),
        ("router 64B 2kpps loss<1% loss<2%", ["loss", "twice"]),
        ("router 64B 2kpps loss<0%", ["loss", 0, "'0%'"]),
        ("router 64B 2kpps loss<1ms", ["loss", "'ms'", "%"]),
        ("router 64B 2kpps p99<1", ["p99", "no unit", "'1'", TIMES]),
        ("router 64B 2kpps p99<", ["p99", "''", TIMES]),
        ("router 64B 2kpps frame_size_bytes=128", ["'frame_size_bytes'", "parameter", "sources"]),
        ("router 64B 2kpps kettle=1", ["'kettle'", "parameter", "sources"]),
        ("router 64B 2kpps sources=", ["'sources='", "no value"]),
        ("router 64B 2kpps sources=null", ["'sources=null'", "no value"]),
        ("router 64B 2kpps sources=0", ["'sources=0'", 1]),
        ("router 64B 2kpps sources=x", ["'sources=x'", "integer"]),
        ("router 64B 2kpps sources=true", ["'sources=true'", "number"]),
        ("router 64B 2kpps sources=1 sources=2", ["'sources'", "twice"]),
        ("router 64B 2kpps vcpus=0", ["'vcpus=0'", 1]),
        ("router 64B 2kpps memory_bytes=much", ["'memory_bytes=much'", "unit"]),
        ("oltp server=borrowed p99<20ms", ["'server=borrowed'", "'own'", "'shared'"]),
        ("udp received-share>0.99", ["received_share", "no unit", "'0.99'", "%"]),
        ("router 64B 2kpps sources=[1,2]", ["'sources'", "one value"]),
        ("oltp", ["no bound", FIGURES]),
        ("oltp p99", ["'p99'", "figure<number unit", "name=value"]),
        ("oltp kettle<1ms", ["'kettle'", "figure", FIGURES]),
        ("oltp p99<20", ["latency_p99", "no unit", "'20'", TIMES]),
        ("oltp p99<20kpps", ["latency_p99", "'kpps'", TIMES]),
        ("oltp p99<x", ["latency_p99", "'x'", TIMES]),
        ("oltp p99<0ms", ["latency_p99", 0, "'0ms'"]),
        ("oltp p99>20ms", ["latency_p99", "'p99<20ms'"]),
        ("oltp transactions<20/s", ["transactions_per_second", "'transactions>20/s'"]),
        ("oltp kettle=2 p99<20ms", ["'kettle'", "parameter", "threads"]),
        ("oltp server=own link_delay_ms=1 p99<20ms", ["mariadb-oltp", "mariadb-oltp-outside"]),
    ],
)
def test_what_is_wrong_with_a_need_is_told_after_the_need(text: str, facts: list[str | int]) -> None:
    with refused(error=ValueError) as told:
        parse_needs([text], KNOWN)
    need = f"need '{text.strip()}"
    assert str(told.value).startswith(need)
    assert_facts(str(told.value).removeprefix(need), *facts)
