"""Every workload that Virtoll knows: one line each, in the order of the tables.

A new workload is one file here and one line below (``CONTRIBUTING.md`` has the check-list).
"""

from virtoll.workloads.base import Workload
from virtoll.workloads.bzip2 import Bzip2
from virtoll.workloads.forkwait import ForkWait
from virtoll.workloads.forward import Forward
from virtoll.workloads.iperf import IperfUdp
from virtoll.workloads.masr import Masr
from virtoll.workloads.rsync import RsyncFile, RsyncTree
from virtoll.workloads.superpi import SuperPi
from virtoll.workloads.sysbench_cpu import SysbenchCpu
from virtoll.workloads.tcp import TcpRequestResponse, TcpStream

_ALL: tuple[Workload, ...] = (
    Forward(),
    SuperPi(),
    Bzip2(),
    SysbenchCpu(),
    Masr(),
    ForkWait(),
    TcpStream(),
    TcpRequestResponse(),
    IperfUdp(),
    RsyncTree(),
    RsyncFile(),
)
WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _ALL}
