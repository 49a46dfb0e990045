"""Runs as a dataset: typed tables of samples, points, boots and runs, as Parquet, Arrow and SQL (docs/dataset.md).

``tables`` declares the columns, ``rows`` makes the rows of a run's records, ``arrow`` their tables and files, ``kept``
keeps these, and ``query`` answers SQL over them. It is imported by what needs it: its libraries are an extra.
"""
