"""The agent as the controller sees it: client, timekeeper, counters of the path, check values of its jobs."""
