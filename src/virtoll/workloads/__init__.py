"""Every workload that Virtoll knows: one line each, in the order of the tables.

A new workload is one file here and one line below (``CONTRIBUTING.md`` has the check-list).
"""

from virtoll.workloads.base import Workload
from virtoll.workloads.forkwait import ForkWait
from virtoll.workloads.forward import Forward
from virtoll.workloads.masr import Masr
from virtoll.workloads.superpi import SuperPi

WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in (Forward(), SuperPi(), Masr(), ForkWait())}
