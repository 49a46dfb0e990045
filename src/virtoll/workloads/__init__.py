"""Every workload that Virtoll knows, in the order of the tables.

A new workload is one file here and its line in ``WORKLOADS`` (``CONTRIBUTING.md`` has the check-list). A workload is
imported when an experiment names it: each that is not makes every command start faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtoll.experiment.model import Parameters, WorkloadChoice
from virtoll.experiment.registry import Registry

if TYPE_CHECKING:
    from virtoll.workloads.base import Workload

WORKLOADS: Registry[type[Workload[Parameters]]] = Registry.of_classes(
    "virtoll.workloads",
    {
        "forward": "forward:Forward",
        "throughput": "throughput:Throughput",
        "virtual-routers": "virtual_routers:VirtualRouters",
        "transmitters": "transmitters:Transmitters",
        "superpi": "superpi:SuperPi",
        "bzip2": "bzip2:Bzip2",
        "povray": "povray:PovRay",
        "sysbench-cpu": "sysbench_cpu:SysbenchCpu",
        "masr": "masr:Masr",
        "stream": "stream:Stream",
        "forkwait": "forkwait:ForkWait",
        "kernel-operations": "kernel:KernelOperations",
        "context-switch": "context_switch:ContextSwitch",
        "ipc-bandwidth": "ipc_bandwidth:IpcBandwidth",
        "bonnie": "bonnie:Bonnie",
        "zfg": "zfg:Zfg",
        "dd": "dd:Dd",
        "dbench": "dbench:Dbench",
        "fio": "fio:Fio",
        "tcp-stream": "tcp:TcpStream",
        "tcp-request-response": "tcp:TcpRequestResponse",
        "iperf-udp": "iperf:IperfUdp",
        "rsync-tree": "rsync:RsyncTree",
        "rsync-file": "rsync:RsyncFile",
        "kernel-compile": "kernel_compile:KernelCompile",
        "mariadb-oltp": "mariadb_oltp:MariadbOltp",
        "mariadb-oltp-outside": "mariadb_oltp_outside:MariadbOltpOutside",
        "nginx": "nginx:Nginx",
        "nginx-httperf": "nginx_httperf:NginxHttperf",
        "lmbench": "lmbench:Lmbench",
        "netperf-tcp-stream": "netperf:NetperfStream",
        "netperf-tcp-rr": "netperf:NetperfRequestResponse",
    },
)


def workload_of(choice: WorkloadChoice) -> Workload[Parameters]:
    """The workload of an experiment's entry, with its parameters."""
    return WORKLOADS[choice.workload].with_parameters(choice.parameters)
