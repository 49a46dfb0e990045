"""Claims against made-up runs: what a run says about one, and the platforms that the papers ran."""

from __future__ import annotations
