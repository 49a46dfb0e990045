"""Figures as SVG, as PDF, and as what a browser draws them from. `drawer` draws them, in a process beside this one.

The SVG on the page has letters as text, and colours that the page may set (`figures/style.py`). Files have a light
page's, on white. Main types: `Drawer`, `Drawing`.
"""

import base64
import json
import resource
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from virtoll.errors import DrawingError
from virtoll.report import drawer
from virtoll.report.figures.base import FigureSpec
from virtoll.report.figures.practice import practice
from virtoll.report.figures.style import Specification, Width, by_the_page, config, printable_texts
from virtoll.stats.analysis import Analysis
from virtoll.system.python import isolated_script


@dataclass(frozen=True)
class Drawing:
    """One figure. `page`: the SVG that stands on the page; `svg`: an SVG file's text; `pdf`: a PDF file's bytes.

    Those three are waited for: ValueError where the specification cannot be drawn, DrawingError where what draws has
    ended. `specification`: what a browser draws it from, as JSON that may stand in an element `script`. `narrow`: the
    same as wide as a paper's column, where it can be read there or its panels can be stacked.
    """

    name: str
    specification: str
    narrow: str | None
    drawn: Future[Mapping[str, str]]

    @property
    def page(self) -> str:
        """An SVG with colours that the page sets."""
        return self.drawn.result()["page"]

    @property
    def svg(self) -> str:
        """An SVG on white, at the width that a paper has it in."""
        return self.drawn.result()["svg"]

    @property
    def pdf(self) -> bytes:
        """As wide as a paper's column or both."""
        return base64.b64decode(self.drawn.result()["pdf"])


class Drawer:
    """The process that draws, from its start to the context's end; several may be there.

    It is started at once and practises on a small figure: what draws is then ready before there is a figure.
    """

    def __init__(self) -> None:
        """Start it. Nothing is waited for."""
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end of the context
        argv = isolated_script(Path(drawer.__file__))
        try:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise DrawingError(f"cannot start the process that draws: {reason}. Free what it lacks.") from error
        self._asking, self._hearing = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        try:
            self.rendered("practice", practice)
        except RuntimeError as error:  # as Python says that no thread can be started
            self.__exit__(None, None, None)
            raise DrawingError(f"cannot start the threads that draw: {error}. {_memory_words()}") from error

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, whatever it is at; what is not drawn then never is."""
        self._process.kill()
        self._process.wait()
        self._asking.shutdown(cancel_futures=True)
        self._hearing.shutdown()  # whoever still waits for a drawing is told
        for stream in (self._process.stdin, self._process.stdout, self._complaints):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    def render(self, name: str, spec: FigureSpec, analysis: Analysis) -> Drawing:
        """Have one figure drawn as SVG for the page, and as PDF for a paper, whose one column or two it is as wide as.

        The figure must have something to draw (`spec.why_not` is None).
        """
        in_a_column = spec.in_a_column(analysis)
        return self.rendered(name, partial(spec.draw, analysis), in_a_column=in_a_column, stacks=spec.stacks)

    def rendered(
        self, name: str, draw: Callable[[Width], Specification], *, in_a_column: bool = False, stacks: bool = False
    ) -> Drawing:
        """The same of what draws at a width; `in_a_column` and `stacks` as a `FigureSpec` has them."""
        request, drawing = asked(name, draw, in_a_column=in_a_column, stacks=stacks)
        self._asking.submit(self._ask, request)
        self._hearing.submit(self._hear, drawing)
        return drawing

    def _ask(self, request: Mapping[str, Any]) -> None:
        """Where it has ended, that is heard instead of an answer."""
        stream = self._process.stdin
        assert stream is not None
        with suppress(BrokenPipeError):
            stream.write(json.dumps(request).encode() + b"\n")
            stream.flush()

    def _hear(self, drawing: Drawing) -> None:
        """The next answer, which is this drawing's."""
        stream = self._process.stdout
        assert stream is not None
        line = stream.readline()
        if not line.endswith(b"\n"):
            drawing.drawn.set_exception(self._ended(drawing.name))
            return
        answer = json.loads(line)
        if "error" in answer:
            drawing.drawn.set_exception(ValueError(f"figure {drawing.name} cannot be drawn: {answer['error']}"))
        else:
            drawing.drawn.set_result(answer)

    def _ended(self, name: str) -> DrawingError:
        code = self._process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        self._complaints.seek(0)
        complaint = self._complaints.read().decode(errors="replace").strip().rpartition("\n")[2]
        return DrawingError(
            f"figure {name} was not drawn: the process that draws {how}{f' ({complaint})' if complaint else ''}. "
            f"Nothing was written. {_memory_words()}"
        )


def _memory_words() -> str:
    """What to do where memory may be missing: the library that draws reserves many GiB of addresses."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        return "The addresses of a process are limited here: end the limit ('ulimit -v unlimited') and try again."
    return "See that the machine has memory left, and give the command again."


def asked(
    name: str, draw: Callable[[Width], Specification], *, in_a_column: bool, stacks: bool = False
) -> tuple[dict[str, Any], Drawing]:
    """What `drawer.answer` is asked for, and the drawing that its answer fills."""
    shown = as_json(printable_texts(draw(Width.PAGE)))
    narrow = as_json(printable_texts(draw(Width.COLUMN))) if in_a_column or stacks else None
    printed = _at(narrow, Width.COLUMN) if in_a_column and narrow is not None else None
    return {"name": name, "shown": _at(shown, Width.PAGE), "printed": printed}, Drawing(name, shown, narrow, Future())


def _at(specification: str, width: Width) -> dict[str, Any]:
    return {"specification": specification, "config": config(width), "pixels": width.pixels, "points": width.points}


def as_json(specification: Specification) -> str:
    """Compact, and without a character that could end an element of HTML."""
    text = json.dumps(specification, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def inline(drawing: Drawing, label: str) -> str:
    """The SVG for an HTML page, named for screen readers and described by its caption; `label` is text of HTML.

    Where a reader has none of the fonts, letters are wider than what was measured: nothing of them is cut off.
    """
    attributes = f'role="img" aria-label="{label}" aria-describedby="caption-{drawing.name}"'
    return by_the_page(drawing.page).replace("<svg", f'<svg {attributes} overflow="visible"', 1)
