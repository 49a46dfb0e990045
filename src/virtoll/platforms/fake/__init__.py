"""The seeded model: a platform without a process, for self-tests and for the tests of the whole path."""
