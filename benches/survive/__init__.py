"""What Virtoll survives, shown at the scale that people trust: a module a part, the figures in docs/reliability.md."""
