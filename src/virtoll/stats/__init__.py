"""Statistics: from the records of a run folder to summaries, intervals, comparisons and caveats.

Pure functions over frozen dataclasses, no I/O: `analysis.analyse(RunData) -> Analysis` is the whole of it, the other
modules are its parts. Rules: the unit of repetition is the block (a fresh guest), never the trial or the packet.
Comparisons are paired by block. Outliers are flagged, never deleted. What is not measured is None.
"""
