"""Every workload that Virtoll knows, in the order of the tables.

A new workload is one file here, a function that imports it and its line in ``WORKLOADS`` (``CONTRIBUTING.md`` has the
check-list). A workload is imported when an experiment names it: each that is not makes every command start faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtoll.experiment.model import Parameters, WorkloadChoice
from virtoll.experiment.registry import Registry

if TYPE_CHECKING:
    from virtoll.workloads.base import Workload


def _forward() -> type[Workload[Parameters]]:
    from virtoll.workloads.forward import Forward

    return Forward


def _throughput() -> type[Workload[Parameters]]:
    from virtoll.workloads.throughput import Throughput

    return Throughput


def _virtual_routers() -> type[Workload[Parameters]]:
    from virtoll.workloads.virtual_routers import VirtualRouters

    return VirtualRouters


def _transmitters() -> type[Workload[Parameters]]:
    from virtoll.workloads.transmitters import Transmitters

    return Transmitters


def _superpi() -> type[Workload[Parameters]]:
    from virtoll.workloads.superpi import SuperPi

    return SuperPi


def _bzip2() -> type[Workload[Parameters]]:
    from virtoll.workloads.bzip2 import Bzip2

    return Bzip2


def _povray() -> type[Workload[Parameters]]:
    from virtoll.workloads.povray import PovRay

    return PovRay


def _sysbench_cpu() -> type[Workload[Parameters]]:
    from virtoll.workloads.sysbench_cpu import SysbenchCpu

    return SysbenchCpu


def _masr() -> type[Workload[Parameters]]:
    from virtoll.workloads.masr import Masr

    return Masr


def _stream() -> type[Workload[Parameters]]:
    from virtoll.workloads.stream import Stream

    return Stream


def _forkwait() -> type[Workload[Parameters]]:
    from virtoll.workloads.forkwait import ForkWait

    return ForkWait


def _kernel_operations() -> type[Workload[Parameters]]:
    from virtoll.workloads.kernel import KernelOperations

    return KernelOperations


def _context_switch() -> type[Workload[Parameters]]:
    from virtoll.workloads.context_switch import ContextSwitch

    return ContextSwitch


def _ipc_bandwidth() -> type[Workload[Parameters]]:
    from virtoll.workloads.ipc_bandwidth import IpcBandwidth

    return IpcBandwidth


def _bonnie() -> type[Workload[Parameters]]:
    from virtoll.workloads.bonnie import Bonnie

    return Bonnie


def _zfg() -> type[Workload[Parameters]]:
    from virtoll.workloads.zfg import Zfg

    return Zfg


def _dd() -> type[Workload[Parameters]]:
    from virtoll.workloads.dd import Dd

    return Dd


def _dbench() -> type[Workload[Parameters]]:
    from virtoll.workloads.dbench import Dbench

    return Dbench


def _fio() -> type[Workload[Parameters]]:
    from virtoll.workloads.fio import Fio

    return Fio


def _tcp_stream() -> type[Workload[Parameters]]:
    from virtoll.workloads.tcp import TcpStream

    return TcpStream


def _tcp_request_response() -> type[Workload[Parameters]]:
    from virtoll.workloads.tcp import TcpRequestResponse

    return TcpRequestResponse


def _iperf_udp() -> type[Workload[Parameters]]:
    from virtoll.workloads.iperf import IperfUdp

    return IperfUdp


def _rsync_tree() -> type[Workload[Parameters]]:
    from virtoll.workloads.rsync import RsyncTree

    return RsyncTree


def _rsync_file() -> type[Workload[Parameters]]:
    from virtoll.workloads.rsync import RsyncFile

    return RsyncFile


def _kernel_compile() -> type[Workload[Parameters]]:
    from virtoll.workloads.kernel_compile import KernelCompile

    return KernelCompile


def _mariadb_oltp() -> type[Workload[Parameters]]:
    from virtoll.workloads.mariadb_oltp import MariadbOltp

    return MariadbOltp


def _mariadb_oltp_outside() -> type[Workload[Parameters]]:
    from virtoll.workloads.mariadb_oltp_outside import MariadbOltpOutside

    return MariadbOltpOutside


def _nginx() -> type[Workload[Parameters]]:
    from virtoll.workloads.nginx import Nginx

    return Nginx


def _nginx_httperf() -> type[Workload[Parameters]]:
    from virtoll.workloads.nginx_httperf import NginxHttperf

    return NginxHttperf


def _lmbench() -> type[Workload[Parameters]]:
    from virtoll.workloads.lmbench import Lmbench

    return Lmbench


def _netperf_tcp_stream() -> type[Workload[Parameters]]:
    from virtoll.workloads.netperf import NetperfStream

    return NetperfStream


def _netperf_tcp_rr() -> type[Workload[Parameters]]:
    from virtoll.workloads.netperf import NetperfRequestResponse

    return NetperfRequestResponse


WORKLOADS: Registry[type[Workload[Parameters]]] = Registry(
    {
        "forward": _forward,
        "throughput": _throughput,
        "virtual-routers": _virtual_routers,
        "transmitters": _transmitters,
        "superpi": _superpi,
        "bzip2": _bzip2,
        "povray": _povray,
        "sysbench-cpu": _sysbench_cpu,
        "masr": _masr,
        "stream": _stream,
        "forkwait": _forkwait,
        "kernel-operations": _kernel_operations,
        "context-switch": _context_switch,
        "ipc-bandwidth": _ipc_bandwidth,
        "bonnie": _bonnie,
        "zfg": _zfg,
        "dd": _dd,
        "dbench": _dbench,
        "fio": _fio,
        "tcp-stream": _tcp_stream,
        "tcp-request-response": _tcp_request_response,
        "iperf-udp": _iperf_udp,
        "rsync-tree": _rsync_tree,
        "rsync-file": _rsync_file,
        "kernel-compile": _kernel_compile,
        "mariadb-oltp": _mariadb_oltp,
        "mariadb-oltp-outside": _mariadb_oltp_outside,
        "nginx": _nginx,
        "nginx-httperf": _nginx_httperf,
        "lmbench": _lmbench,
        "netperf-tcp-stream": _netperf_tcp_stream,
        "netperf-tcp-rr": _netperf_tcp_rr,
    }
)


def workload_of(choice: WorkloadChoice) -> Workload[Parameters]:
    """The workload of an experiment's entry, with its parameters."""
    return WORKLOADS[choice.workload].with_parameters(choice.parameters)
