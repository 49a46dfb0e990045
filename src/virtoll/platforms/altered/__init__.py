"""Guests with a known fault, for `virtoll selftest`: `parameters`, their `agent`, the router that loses, `driver`."""
