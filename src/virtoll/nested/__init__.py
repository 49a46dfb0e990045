"""Nested testbeds: a whole hypervisor host, emulated in the lab, for machines without hardware virtualisation.

Main types: ``TESTBEDS`` (their kinds), ``prepare_testbed`` (makes the files, outside the lab, once), ``nested_machine``
(boots one inside). What is measured on one says that a product works, and nothing of how fast it is.
"""

from virtoll.nested.build import TestbedImage, prepare_testbed
from virtoll.nested.kinds import TESTBEDS, TestbedKind
from virtoll.nested.machine import NestedMachine, nested_machine

__all__ = ["TESTBEDS", "NestedMachine", "TestbedImage", "TestbedKind", "nested_machine", "prepare_testbed"]
