"""Virtoll from Python (docs/python.md): `virtoll` itself has the names, each imported when it is first used.

`measured.run` measures an experiment, `loaded.load` opens a run that was measured, `tables.load_all` opens many. They
return what the report is made of: the records of the run folder, the analysis, and the rows of `virtoll report --json`.
The command line finds runs (`folders`, `dataset`) and checks needs (`needs`) by the same modules. Nothing here computes
a statistic.
"""
