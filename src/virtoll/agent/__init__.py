"""The agent as the controller sees it: typed operations, client, timekeeper, counters of the path, check values of its jobs."""
