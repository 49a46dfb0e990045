"""The lab: the namespaces that a run lives in, so that nothing is left behind, by construction.

Rooms: ``launch`` (outside: enters the namespaces, watches, cleans up), ``init`` (PID 1 inside), ``residue`` (what can
outlive a process all the same, recorded before it is made), ``inside`` (the lab as the pipeline sees it: spawn,
record, sweep up), ``network`` (veth pairs, bridges, taps), ``data`` (room on the host's disk) and
``enter`` (what the agent puts a program into before it executes it).
"""
