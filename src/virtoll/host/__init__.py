"""This machine as it is measured: its fingerprint and fitness, and what each guest uses of it."""
