"""The pipeline: experiment, plan, platforms, workloads, timekeeper, run folder. Begin reading at `execution`."""
