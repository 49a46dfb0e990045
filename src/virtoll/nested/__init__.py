"""Nested hosts: a whole hypervisor host, emulated in the lab, for machines without hardware virtualisation.

Main types: ``NESTED_HOSTS`` (their kinds), ``prepare_nested_host`` (makes the files, outside the lab, once),
``nested_machine`` (boots one inside). What is measured on one says that a product works, and nothing of how fast it is.
"""

from virtoll.nested.build import NestedImage, prepare_nested_host
from virtoll.nested.kinds import NESTED_HOSTS, NestedKind
from virtoll.nested.machine import NestedMachine, nested_machine

__all__ = ["NESTED_HOSTS", "NestedImage", "NestedKind", "NestedMachine", "nested_machine", "prepare_nested_host"]
