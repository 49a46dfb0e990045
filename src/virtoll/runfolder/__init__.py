"""The run folder: the border between measuring and analysing (docs/run-folder.md). `store` reads and writes it."""
