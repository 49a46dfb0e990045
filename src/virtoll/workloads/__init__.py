"""Every workload that Virtoll knows: one line each, in the order of the tables.

A new workload is one file here, its import and one line below (``CONTRIBUTING.md`` has the check-list).
"""

from collections.abc import Mapping

from virtoll.experiment.model import Parameters, WorkloadChoice
from virtoll.workloads.base import Workload
from virtoll.workloads.bonnie import Bonnie
from virtoll.workloads.bzip2 import Bzip2
from virtoll.workloads.context_switch import ContextSwitch
from virtoll.workloads.dbench import Dbench
from virtoll.workloads.dd import Dd
from virtoll.workloads.fio import Fio
from virtoll.workloads.forkwait import ForkWait
from virtoll.workloads.forward import Forward
from virtoll.workloads.iperf import IperfUdp
from virtoll.workloads.kernel import KernelOperations
from virtoll.workloads.kernel_compile import KernelCompile
from virtoll.workloads.lmbench import Lmbench
from virtoll.workloads.mariadb_oltp import MariadbOltp
from virtoll.workloads.masr import Masr
from virtoll.workloads.netperf import NetperfRequestResponse, NetperfStream
from virtoll.workloads.nginx import Nginx
from virtoll.workloads.nginx_httperf import NginxHttperf
from virtoll.workloads.povray import PovRay
from virtoll.workloads.rsync import RsyncFile, RsyncTree
from virtoll.workloads.stream import Stream
from virtoll.workloads.superpi import SuperPi
from virtoll.workloads.sysbench_cpu import SysbenchCpu
from virtoll.workloads.tcp import TcpRequestResponse, TcpStream
from virtoll.workloads.transmitters import Transmitters
from virtoll.workloads.virtual_routers import VirtualRouters
from virtoll.workloads.zfg import Zfg

_ALL: tuple[type[Workload[Parameters]], ...] = (
    Forward,
    VirtualRouters,
    Transmitters,
    SuperPi,
    Bzip2,
    PovRay,
    SysbenchCpu,
    Masr,
    Stream,
    ForkWait,
    KernelOperations,
    ContextSwitch,
    Bonnie,
    Zfg,
    Dd,
    Dbench,
    Fio,
    TcpStream,
    TcpRequestResponse,
    IperfUdp,
    RsyncTree,
    RsyncFile,
    KernelCompile,
    MariadbOltp,
    Nginx,
    NginxHttperf,
    Lmbench,
    NetperfStream,
    NetperfRequestResponse,
)
WORKLOADS: Mapping[str, type[Workload[Parameters]]] = {workload.name: workload for workload in _ALL}


def workload_of(choice: WorkloadChoice) -> Workload[Parameters]:
    """The workload of an experiment's entry, with its parameters."""
    return WORKLOADS[choice.workload].with_parameters(choice.parameters)
