"""numpy, and of scipy the functions of distributions: loaded here alone, with one thread.

Each brings a library of linear algebra that starts a thread for each CPU as it is loaded. That costs 0.1 s of CPU time
each, and the tables of a run are too small to share out. A user's own `OPENBLAS_NUM_THREADS` is kept, and programs that
are started later find their environment as it was.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_THREADS = "OPENBLAS_NUM_THREADS"


@contextmanager
def _one_thread() -> Iterator[None]:
    """What is loaded inside starts no threads of its own."""
    if _THREADS in os.environ:
        yield
        return
    os.environ[_THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[_THREADS]


with _one_thread():
    import numpy as np
    from scipy.special import bdtr, digamma, ndtri, polygamma, stdtr, stdtrit

__all__ = ["bdtr", "digamma", "ndtri", "np", "polygamma", "stdtr", "stdtrit"]
