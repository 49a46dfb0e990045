"""The agent as the controller sees it: operations, client, timekeeper, counters of the path, its jobs' check values."""
