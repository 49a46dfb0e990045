"""The seeded model: a platform without a process, for the experiment `models` and for the tests of the whole path."""
