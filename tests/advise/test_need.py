"""Needs as text: what each part comes to, and one sentence for everything that is wrong with one."""

import pytest

from virtoll.advise import parse_needs
from virtoll.advise.need import FigureNeed, Part, RouterNeed
from virtoll.cli.needs import known_workloads

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


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "a part is empty; write it as"),
        ("router 64B 2kpps + ", "a part is empty"),
        ("router 64B 2kpps +  + oltp p99<1ms", "a part is empty"),
        ("kettle duration<1s", "the workload 'kettle' is not known; known are router, oltp, tcp, .*forward, .*nginx"),
        ("router 200kpps", "a router needs one frame size in bytes"),
        ("router 64B 128B 200kpps", "a router needs one frame size in bytes"),
        ("router 63B 200kpps", "a frame has 64 to 1518 bytes with its check sequence, got 63"),
        ("router 9000B 200kpps", "got 9000; give such a size"),
        ("router 64B", "there is no rate; write it as 'router"),
        ("router 64B 2kpps 3kpps", "'3kpps' is not understood"),
        ("router 64B 200", "'200' is no rate of a router; give one in pps, frames/s, kpps"),
        ("router 64B 200MB/s", "'200MB/s' is no rate of a router"),
        ("router 64B 5% of 9kettles", "is no rate of a router"),
        ("router 64B 0kpps", "a rate is above 0, got '0kpps'"),
        ("router 64B 2kpps jitter<1ms", "'jitter' is no bound of a router; known are loss, p50 and p99"),
        ("router 64B 2kpps loss>1%", "less loss is better; write 'loss<1%'"),
        ("router 64B 2kpps loss<100%", "a loss is below 100 %, got '100%'"),
        ("router 64B 2kpps loss<0.1", "loss has no unit, got '0.1'; known are %, as in '0.1%'"),
        ("router 64B 2kpps loss<1% loss<2%", "loss is bounded twice"),
        ("router 64B 2kpps loss<0%", "loss must be above 0, got '0%'"),
        ("router 64B 2kpps loss<1ms", "loss is not given in 'ms'; known are %"),
        ("router 64B 2kpps p99<1", "p99 has no unit, got '1'; known are ns, us, µs, ms, s"),
        ("router 64B 2kpps p99<", "'' is no number with a unit; give p99 in ns"),
        ("router 64B 2kpps frame_size_bytes=128", "'frame_size_bytes' is no parameter of it"),
        ("router 64B 2kpps kettle=1", "'kettle' is no parameter of it; known are .*sources"),
        ("router 64B 2kpps sources=", "'sources=' has no value"),
        ("router 64B 2kpps sources=null", "'sources=null' has no value"),
        ("router 64B 2kpps sources=0", "'sources=0' cannot be: input should be greater than or equal to 1, got 0"),
        ("router 64B 2kpps sources=x", "'sources=x' cannot be: input should be a valid integer"),
        ("router 64B 2kpps sources=true", "'sources=true' cannot be: a number is wanted"),
        ("router 64B 2kpps sources=1 sources=2", "'sources' is given twice; leave one out"),
        ("router 64B 2kpps vcpus=0", "'vcpus=0' cannot be: input should be greater than or equal to 1"),
        ("router 64B 2kpps memory_bytes=much", "'memory_bytes=much' cannot be: could not parse value and unit"),
        ("oltp server=borrowed p99<20ms", "'server=borrowed' cannot be: input should be 'own', 'shared' or"),
        ("udp received-share>0.99", "received_share has no unit, got '0.99'; known are %"),
        ("router 64B 2kpps sources=[1,2]", "'sources' is one value"),
        ("oltp", "there is no bound; add one of duration, transactions_per_second, latency_average"),
        ("oltp p99", "'p99' is not understood; write bounds as 'figure<number unit'"),
        ("oltp kettle<1ms", "'kettle' is no figure of oltp; known are duration, transactions_per_second"),
        ("oltp p99<20", "latency_p99 has no unit, got '20'; known are ns"),
        ("oltp p99<20kpps", "latency_p99 is not given in 'kpps'"),
        ("oltp p99<x", "'x' is no number with a unit"),
        ("oltp p99<0ms", "latency_p99 must be above 0"),
        ("oltp p99>20ms", "less latency_p99 is better; write 'p99<20ms'"),
        ("oltp transactions<20/s", "more transactions_per_second is better; write 'transactions>20/s'"),
        ("oltp kettle=2 p99<20ms", "'kettle' is no parameter of it"),
        (
            "oltp server=own link_delay_ms=1 p99<20ms",
            "no workload of oltp has all that is named; ask of mariadb-oltp or",
        ),
    ],
)
def test_what_is_wrong_with_a_need_is_told_in_one_sentence(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as told:
        parse_needs([text], KNOWN)
    assert str(told.value).startswith(f"need '{text.strip()}" if text.strip() else "need ''")
    assert "\n" not in str(told.value)
