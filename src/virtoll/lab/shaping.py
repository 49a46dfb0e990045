"""Links that are slower, longer or less reliable than the host's memory: rate, delay and loss on a guest's link.

Main types: ``Shape`` (what is asked for), ``End`` (of a link), ``shaped`` (a link with it, for a context's length).
Shaped by the kernel's queueing disciplines at the two ends of the veth pair between the peer and the lab, or of the
cable between this machine's NIC and another host's. Where nothing can be set at the far end, both are at this machine's
NIC, for what leaves and for what arrives. So no guest is touched and every kind of guest meets the same: ``netem``
where both kernels have it, else ``tbf``, which knows a rate alone. It must not know platforms, nor what a link is used
for.
"""

from __future__ import annotations

import contextlib
import math
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from virtoll.errors import GuestCannot, GuestDied, GuestError, HostUnreachable

_BURST_SECONDS = 0.001
_LEAST_BURST_BYTES = 4_614  # three full frames: tbf cuts up what a veth hands over at once
_QUEUE_MILLISECONDS = 50
_QUEUE_FRAMES = 1000  # netem counts what its delay holds too, and one for what a guest hands over at once
_SMALLEST_BITS = 84 * 8  # of 64 bytes, with preamble and gap
_MOST_FRAMES_PER_SECOND = 5e6
_SAYS_NOTHING_OF_THE_KERNEL = (GuestCannot, GuestDied, HostUnreachable)
_HOLDING = "holding"  # an ifb beside the NIC: one link is shaped at a time
_EVERY_FRAME = ("protocol", "all", "u32", "match", "u32", "0", "0")
_TO_HOLDING = ("action", "mirred", "egress", "redirect", "dev", _HOLDING)


@dataclass(frozen=True)
class Shape:
    """Rate in bit/s (0: as fast as it goes), delay one way in ms, and loss in percent of the frames, each way."""

    rate_bits_per_second: int = 0
    delay_ms: float = 0.0
    loss_percent: float = 0.0

    @property
    def plain(self) -> bool:
        """Nothing is asked for."""
        return not (self.rate_bits_per_second or self.delay_ms or self.loss_percent)

    def netem(self) -> list[str]:
        """``netem``'s words."""
        words = ["netem", "limit", str(_QUEUE_FRAMES + self._frames_on_the_way())]
        if self.delay_ms:
            words += ["delay", f"{self.delay_ms:g}ms"]
        if self.loss_percent:
            words += ["loss", f"{self.loss_percent:g}%"]
        if self.rate_bits_per_second:
            words += ["rate", f"{self.rate_bits_per_second}bit"]
        return words

    def _frames_on_the_way(self) -> int:
        """The most that the delay holds: of the smallest frames at the rate, or of what no link brings in software."""
        most = self.rate_bits_per_second / _SMALLEST_BITS if self.rate_bits_per_second else _MOST_FRAMES_PER_SECOND
        return math.ceil(most * self.delay_ms / 1000)

    def token_bucket(self) -> list[str]:
        """``tbf``'s words: a bucket of 1 ms, and a queue of 50 ms before frames are lost, as a switch would have."""
        burst = max(_LEAST_BURST_BYTES, int(self.rate_bits_per_second * _BURST_SECONDS / 8))
        return [
            "tbf",
            "rate",
            f"{self.rate_bits_per_second}bit",
            "burst",
            str(burst),
            "latency",
            f"{_QUEUE_MILLISECONDS}ms",
        ]


End = Callable[[str, Sequence[str]], None]
"""Changes the discipline of what leaves there: a verb and words of ``tc qdisc``; a ``GuestError`` if it cannot."""


@contextlib.contextmanager
def shaped(ends: Sequence[End], shape: Shape) -> Iterator[str | None]:
    """Both directions of a link: what leaves at each of its ends is shaped.

    Yields the discipline's name; None where nothing is asked for. ``GuestCannot`` where the
    kernel cannot: then the trial is skipped.
    """
    if shape.plain:
        yield None
        return
    with contextlib.ExitStack() as undo:
        for end in ends:
            undo.callback(_quietly, end)
        yield _shape(ends, shape)


def _shape(ends: Sequence[End], shape: Shape) -> str:
    """Shape all ends by the first discipline that each of them takes; its name."""
    try:
        for end in ends:
            end("replace", shape.netem())
    except _SAYS_NOTHING_OF_THE_KERNEL:
        raise
    except GuestError as error:
        if shape.delay_ms or shape.loss_percent:
            raise GuestCannot(
                f"the kernel has no netem ({error}), which link_delay_ms and link_loss_percent need; load the "
                "module sch_netem, or leave both out: a rate needs tbf alone",
            ) from error
    else:
        return shape.netem()[0]
    try:
        for end in ends:
            end("replace", shape.token_bucket())
    except _SAYS_NOTHING_OF_THE_KERNEL:
        raise
    except GuestError as error:
        raise GuestCannot(
            f"the kernel has neither netem nor tbf ({error}), and so no link of a given rate; load the module "
            "sch_tbf, or leave link_rate_bits_per_second out",
        ) from error
    return shape.token_bucket()[0]


def _quietly(end: End) -> None:
    with contextlib.suppress(GuestError):
        end("del", ())


def end_there(change: End, guard: Callable[[], Callable[[], None]]) -> End:
    """The end at an interface of another host.

    ``change`` does it there; ``guard`` promises that the discipline goes with the connection, until it is withdrawn.
    """
    held: list[Callable[[], None]] = []

    def changed(verb: str, words: Sequence[str]) -> None:
        if verb == "del":
            if held:
                kept = held.pop()
                change(verb, words)
                kept()  # not where that failed: the promise stands
            return
        promised = [] if held else [guard()]
        try:
            change(verb, words)
        except GuestError:
            for withdraw in promised:
                withdraw()
            raise
        held.extend(promised)

    return changed


def end_here(pid: int, interface: str) -> End:
    """The end at an interface of this machine, in the network namespace of a process."""

    def change(verb: str, words: Sequence[str]) -> None:
        _there(pid, "tc", "qdisc", verb, "dev", interface, "root", *words)

    return change


def arriving_here(pid: int, interface: str) -> End:
    """The far end of a cable, by what arrives at this end of it: an ``ifb`` holds back what a socket here is to get.

    A packet socket has its frames before that. ``GuestCannot`` where the kernel has no ``ifb``.
    """
    made: list[str] = []

    def change(verb: str, words: Sequence[str]) -> None:
        if verb == "del":
            if made:
                made.clear()
                with contextlib.suppress(GuestError):
                    _there(pid, "tc", "qdisc", "del", "dev", interface, "ingress")
                _there(pid, "ip", "link", "del", _HOLDING)
            return
        if not made:
            try:
                _there(pid, "ip", "link", "add", _HOLDING, "type", "ifb")
            except GuestError as error:
                raise GuestCannot(
                    f"this machine's kernel has no ifb ({error}), which holds back what arrives at a real NIC; load "
                    "the module ifb, or leave the parameters link_... out",
                ) from error
            made.append(_HOLDING)
            _there(pid, "ip", "link", "set", _HOLDING, "up")
            _there(pid, "tc", "qdisc", "add", "dev", interface, "ingress")
            _there(pid, "tc", "filter", "add", "dev", interface, "ingress", *_EVERY_FRAME, *_TO_HOLDING)
        _there(pid, "tc", "qdisc", verb, "dev", _HOLDING, "root", *words)

    return change


def _there(pid: int, *command: str) -> None:
    """A program in the network namespace of a process; a ``GuestError`` with its complaint."""
    enter = ["nsenter", f"--net=/proc/{pid}/ns/net", "--"]
    done = subprocess.run([*enter, *command], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        complaints = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise GuestError(f"{command[0]}: {complaints[0]}")
