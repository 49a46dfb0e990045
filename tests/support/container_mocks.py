"""Programs named vzctl, vzlist, prlctl, vserver, vserver-info and vkill, which take what their manual pages and sources
document and refuse all else with the product's own exit code and words; behind them is a bare namespace container.

State is a folder ($MOCK_STATE): a JSON file and a process number a container. $MOCK_BUSYBOX is a static busybox,
of which templates are made. $MOCK_REFUSES: each line "COMMAND CODE words" has that command of vzctl, prlctl or vserver
fail; $MOCK_DIES: "create" has vzctl or prlctl killed in the middle of that. A container that prlctl made has a UUID for
its number, and a host that has such a one has Virtuozzo's vzlist.
Sources: docs/platforms/openvz.md and vserver.md name file and commit of each.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tests.support.repository import ROOT

from virtoll.image.clone import built_agent
from virtoll.lab.enter import Bind, Enter, Namespace

PROGRAMS = ("vzctl", "vzlist", "prlctl", "vserver", "vserver-info", "vkill")
NAMESPACES: tuple[Namespace, ...] = ("mount", "net", "ipc", "uts", "pid")
# vzctl(8), "Setting container parameters": what each option takes.
SET_OPTIONS = {
    "--ram",
    "--swap",
    "--privvmpages",
    "--physpages",
    "--applyconfig",
    "--cpus",
    "--cpuunits",
    "--cpulimit",
    "--cpumask",
    "--capability",
    "--netif_add",
    "--name",
    "--hostname",
    "--onboot",
}
# Of Virtuozzo's vzctl alone, for containers that prlctl has made.
VIRTUOZZO_OPTIONS = {"--bindmount_add"}
# What ``vserver ... build`` writes into fstab (util-vserver's distrib/misc/fstab).
FSTAB = (
    "none\t/proc\t\tproc\tdefaults\t\t0 0\n"
    "none\t/tmp\t\ttmpfs\tsize=16m,mode=1777\t0 0\n"
    "none\t/dev/pts\tdevpts\tgid=5,mode=620\t\t0 0\n"
)
# The sizes and kinds of these are the container's behind the mock, whatever fstab says.
OWN_MOUNTS = {"/proc", "/sys", "/dev/pts", "/tmp", "/run"}
START_SECONDS = 120.0
PRLCTL_SET = {"--cpus", "--cpuunits", "--cpulimit", "--cpumask", "--memsize", "--swap", "--name"}


def install(folder: Path) -> None:
    """Put the programs into a folder for PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        lines = [
            f"#!{sys.executable}",
            "import sys",
            f"sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'src')!r}]",
            "from tests.support.container_mocks import main",
            f"main({name!r}, sys.argv[1:])",
        ]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / name).chmod(0o755)


def put_container(state: Path, number: int | str, name: str) -> None:
    """One of OpenVZ's that the programs did not make; one of Virtuozzo's where the number is a UUID."""
    private = state / f"p{number}"
    private.mkdir(parents=True)
    one: dict[str, Any] = {
        "key": str(number),
        "name": name,
        "private": str(private),
        "root": None,
        "virtuozzo": not str(number).isdigit(),
        "netifs": [],
        "set": [],
    }
    (state / f"{number}.json").write_text(json.dumps(one))


def fail(code: int, words: str) -> NoReturn:
    print(words, file=sys.stderr)
    sys.exit(code)


def refuse(command: str) -> None:
    """As a test wants it."""
    for line in os.environ.get("MOCK_REFUSES", "").splitlines():
        refused, code, words = line.split(" ", 2)
        if refused == command:
            fail(int(code), words)


def die(command: str) -> None:
    """As a test wants it."""
    if os.environ.get("MOCK_DIES") == command:
        os.kill(os.getpid(), signal.SIGKILL)


class Store:
    """The containers by their key (number or name)."""

    def __init__(self) -> None:
        self.folder = Path(os.environ["MOCK_STATE"])
        self.folder.mkdir(parents=True, exist_ok=True)
        self.scripts = self.folder / "conf"
        self.scripts.mkdir(exist_ok=True)

    def all(self) -> dict[str, dict[str, Any]]:
        found = (json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json")))
        return {one["key"]: one for one in found}

    def find(self, handle: str) -> dict[str, Any] | None:
        return next((one for one in self.all().values() if handle in (one["key"], one["name"])), None)

    def save(self, one: dict[str, Any]) -> None:
        (self.folder / f"{one['key']}.json").write_text(json.dumps(one))
        with (self.folder / "calls.jsonl").open("a") as file:
            file.write("")

    def drop(self, one: dict[str, Any]) -> None:
        (self.folder / f"{one['key']}.json").unlink()

    def note(self, program: str, argv: list[str]) -> None:
        with (self.folder / "calls.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps([program, *argv]) + "\n")


def running(one: dict[str, Any]) -> bool:
    pid = one.get("pid")
    try:
        return pid is not None and "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def launch(one: dict[str, Any], init: list[str], shares: Sequence[Bind] = ()) -> None:
    """The container's first process, in namespaces of its own and in the root of its files, with ``shares`` there."""
    around = Enter(namespaces=NAMESPACES, root=Path(one["private"]), shares=tuple(shares))
    process = subprocess.Popen(
        [*around.prefix(built_agent()), *init],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + START_SECONDS
    while (first := started(process.pid, one["private"], init)) is None:
        if process.poll() is not None:
            fail(7, "Container start failed")
        if time.monotonic() > deadline:
            fail(7, 'Container start failed (try to check kernel messages, e.g. "dmesg | tail")')
        time.sleep(0.01)  # a program that another process executes is no event
    one |= {"pid": first, "holder": process.pid}
    writable(one)


def started(holder: int, private: str, init: list[str]) -> int | None:
    """The number of the container's first process once it executes ``init`` in the container's root, else None.

    It changes root after all is mounted there, and executes then; while it does, the kernel shows no command line.
    """
    with contextlib.suppress(OSError):  # it may end as it is looked at
        for child in Path(f"/proc/{holder}/task/{holder}/children").read_text().split():
            words = [os.fsdecode(word) for word in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")]
            confined = Path(f"/proc/{child}/root").samefile(private) and str(built_agent()) not in words
            if confined and init[0] in words:
                return int(child)
    return None


def writable(one: dict[str, Any]) -> None:
    """Its root is its own, and no image that others share."""
    enter = ["nsenter", f"--target={one['pid']}", "--mount", "--"]
    subprocess.run([*enter, "mount", "-o", "remount,bind,rw", one["private"]], check=True)


def inside(one: dict[str, Any], argv: list[str]) -> NoReturn:
    enter = ["nsenter", f"--target={one['pid']}", "--mount", "--net", "--ipc", "--uts", "--pid", "--root", "--wd"]
    os.execvp(enter[0], [*enter, "--", *argv])


def end(one: dict[str, Any]) -> None:
    """Kill its first process, and with it all; who entered it from outside is let go on, so that it reaps its own."""
    if running(one):
        with contextlib.suppress(ProcessLookupError):  # it may end by itself meanwhile
            held = os.pidfd_open(one["pid"])
            send(one, signal.SIGCONT)
            signal.pidfd_send_signal(held, signal.SIGKILL)
            select.select([held], [], [])
            os.close(held)
    one["pid"] = None


def send(one: dict[str, Any], number: int) -> None:
    """To every process of the container: its PID namespace is its own. ``nsenter`` stops with what it entered with."""
    try:
        space = Path(f"/proc/{one['pid']}/ns/pid").readlink()
    except OSError:
        return  # it has ended, and all below it
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if (entry / "ns/pid").readlink() == space:
                os.kill(int(entry.name), number)
                if number == signal.SIGCONT and Path(f"/proc/{parent}/ns/pid").readlink() != space:
                    os.kill(parent, number)
        except OSError:
            continue


def bind_of(given: str) -> Bind:
    """``--bindmount_add``: source and target, both absolute."""
    source, _, target = given.partition(":")
    if not source.startswith("/") or not target.startswith("/") or target == "/":
        fail(20, f"Invalid value for --bindmount_add: {given}")
    return Bind(Path(source), Path(target))


def options(argv: list[str], known: set[str], flags: set[str], code: int, program: str) -> list[tuple[str, str]]:
    """Pairs; whatever is not documented is refused as getopt refuses it."""
    found, words = [], iter(argv)
    for word in words:
        if word in flags:
            found.append((word, ""))
        elif word in known:
            value = next(words, None)
            if value is None:
                fail(code, f"{program}: option '{word}' requires an argument")
            found.append((word, value))
        else:
            fail(code, f"{program}: unrecognized option '{word}'")
    return found


def vzctl(argv: list[str], store: Store) -> None:  # noqa: C901 - one branch a command
    if argv == ["--version"]:
        print("vzctl version 4.8")
        return
    if len(argv) < 2:
        fail(20 if not argv else 21, "CT ID missing")
    command, handle, rest = argv[0], argv[1], argv[2:]
    refuse(command)
    one = store.find(handle)
    if command == "create":
        given = options(
            rest,
            {"--ostemplate", "--layout", "--private", "--root", "--name", "--hostname", "--config"},
            set(),
            20,
            "vzctl",
        )
        vz_create(handle, dict(given), store)
        return
    if one is None:
        fail(14, "Container config file does not exist")
    if command == "set":
        known = SET_OPTIONS | VIRTUOZZO_OPTIONS if one["virtuozzo"] else SET_OPTIONS
        given = options(rest, known, {"--save", "--force"}, 20, "vzctl")
        if "--bindmount_add" in dict(given) and ("--save", "") not in given:
            fail(20, "The --bindmount-* options must be used together with the --save option.")
        one["netifs"] += [value for key, value in given if key == "--netif_add"]
        one["set"] += given
        store.save(one)
    elif command == "start":
        if running(one):
            fail(32, "Container is already running")
        vz_start(one, store)
        store.save(one)
    elif command == "exec3":
        if not running(one):
            fail(31, "Container is not running")
        inside(one, rest)
    elif command == "chkpnt":
        if rest not in (["--suspend"], ["--resume"]):
            fail(20, f"Invalid option {' '.join(rest)}")
        if not running(one):
            fail(31, "Unable to setup checkpointing: container is not running")
        send(one, signal.SIGSTOP if rest == ["--suspend"] else signal.SIGCONT)
    elif command == "stop":
        options(rest, set(), {"--fast", "--skip-umount"}, 20, "vzctl")
        if not running(one):
            print("Unable to stop: container is not running", file=sys.stderr)
            return
        end(one)
        unmount(one)
        store.save(one)
    elif command == "umount":
        if not one["root"] or not is_mount(one["root"]):
            fail(40, "CT is not mounted")
        if running(one):
            fail(32, "Container is running -- stop it first")
        unmount(one)
    elif command in ("destroy", "delete"):
        if rest:
            fail(20, f"Invalid options: {' '.join(rest)} ")
        if running(one):
            fail(32, "Container is currently running. Stop it first.")
        if one["root"] and is_mount(one["root"]):
            fail(41, "Container is currently mounted (umount first)")
        vz_destroy(one, store)
    elif command == "status":
        print(f"CTID {one['key']} exist unmounted {'running' if running(one) else 'down'}")
    else:
        fail(20, f"Bad command: {command}")


def vz_create(handle: str, given: dict[str, str], store: Store) -> None:
    if not handle.isdigit() or int(handle) <= 100:
        fail(21, f"Bad CT ID {handle}")
    private = Path(given["--private"])
    if private.exists() and any(private.iterdir()):
        fail(44, f"Private area already exists in {private}")
    cache = private.parents[1] / "template/cache"
    template = cache / f"{given['--ostemplate']}.tar"
    if not template.exists():
        fail(91, f"Cached OS template {cache}/{given['--ostemplate']}.tar[.gz|.bz2|.xz] not found")
    # vps-create compares the free room with what `ls -l` has, in KiB; that of a link is its own, and no whole number.
    if template.lstat().st_size % 1024:
        fail(46, f"Insufficient disk space in {private}.tmp; needed: {template.lstat().st_size / 1024}")
    (store.scripts / f"{handle}.conf").write_text(f'VE_ROOT="{given["--root"]}"\nVE_PRIVATE="{private}"\n')
    one = {"key": handle, "name": given.get("--name", "-"), "private": str(private), "root": given["--root"]}
    store.save({**one, "virtuozzo": False, "netifs": [], "set": []})
    unpacked = private.with_name(f"{private.name}.tmp")
    unpacked.mkdir(parents=True)
    unpack(template, unpacked)
    die("create")
    unpacked.rename(private)
    for kind in ("conf", "mount"):
        (store.scripts / f"{handle}.{kind}.destroyed").unlink(missing_ok=True)
    print("Container private area was created")


def unpack(template: Path, private: Path) -> None:
    """As vps-create does."""
    with template.open("rb") as archive:
        subprocess.run(["tar", "-C", str(private), "--numeric-owner", "-Sp", "-x"], stdin=archive, check=True)
    private.chmod(0o755)


def vz_destroy(one: dict[str, Any], store: Store) -> None:
    """The files of the container's own are kept under another name."""
    subprocess.run(["rm", "-rf", one["private"]], check=True)
    for kind in ("conf", "mount"):
        with contextlib.suppress(FileNotFoundError):
            (store.scripts / f"{one['key']}.{kind}").rename(store.scripts / f"{one['key']}.{kind}.destroyed")
    try:
        Path(one["root"] or "").rmdir()
    except OSError as error:
        print(f"Warning: failed to remove {one['root']}: {error.strerror}", file=sys.stderr)
    store.drop(one)


def mount_points() -> list[str]:
    """Of this mount namespace, in the order they were mounted."""
    return [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]


def is_mount(folder: str) -> bool:
    return folder in mount_points()


def vz_mount(one: dict[str, Any], store: Store) -> None:
    """The private area at the root, and then the container's own script, as it is executed."""
    Path(one["root"]).mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", one["private"], one["root"]], check=True)
    script = store.scripts / f"{one['key']}.mount"
    if not script.exists():
        return
    told = {"VEID": one["key"], "VE_CONFFILE": str(store.scripts / f"{one['key']}.conf")}
    environment = {"HOME": "/", "TERM": "linux", "PATH": "/bin:/sbin:/usr/bin:/usr/sbin:", **told}
    try:
        failed = subprocess.run([str(script)], env=environment, stdin=subprocess.DEVNULL, check=False).returncode
    except OSError as error:
        print(f"Error exec {script}: {error.strerror}", file=sys.stderr)
        failed = 1
    if failed:
        unmount(one)
        fail(79, f"Error executing mount script {script}")


def unmount(one: dict[str, Any]) -> None:
    """What is mounted below the root first, the last first, and then the root."""
    if one["root"]:
        below = [place for place in mount_points() if place.startswith(f"{one['root']}/")]
        subprocess.run(["umount", *reversed(below), one["root"]], check=True)


def vz_start(one: dict[str, Any], store: Store) -> None:
    shares = [bind_of(value) for key, value in one["set"] if key == "--bindmount_add"]
    for share in shares:
        (Path(one["private"]) / share.target.relative_to("/")).mkdir(parents=True, exist_ok=True)
    if one["root"]:
        if is_mount(one["root"]):
            unmount(one)
        vz_mount(one, store)
        below = [place for place in mount_points() if place.startswith(f"{one['root']}/")]
        shares += [Bind(Path(place), Path(place.removeprefix(one["root"]))) for place in below]
    launch(one, ["/sbin/init", "-z", "      "], shares)
    for text in one["netifs"]:
        inner, mac, outer = text.split(",")[:3]
        pair = ["link", "add", outer, "type", "veth", "peer", "name", f"y{one['key'][-4:]}{inner}"[:15]]
        for line in ([*pair, "address", mac], ["link", "set", pair[-1], "netns", str(one["pid"]), "name", inner]):
            subprocess.run(["ip", *line], check=True)


def vzlist(argv: list[str], store: Store) -> None:
    found = [one for one in store.all().values() if "virtuozzo" in one]
    new = any(one["virtuozzo"] for one in found)
    if new and "-t" in argv:
        fail(1, "vzlist: invalid option -- 't'\nUsage: vzlist [-a|-S] [-n] [-H] [-o field[,field...] | -1]")
    if argv != ["-a", "-H", *(() if new else ("-t",)), "-o", "ctid,name"]:
        fail(1, f"vzlist: invalid option -- '{' '.join(argv)}'")
    if not found:
        fail(1, "Container(s) not found")
    for one in found:
        print(f"{one['key']:>{36 if new else 10}} {one['name']:<32}")


def prlctl(argv: list[str], store: Store) -> None:
    if argv == ["list", "-a"]:
        print("UUID                                    STATUS       IP_ADDR         T  NAME")
        return
    if len(argv) < 2:
        fail(3, "Usage: prlctl ACTION <ID | NAME> [OPTIONS] [...]")
    command, name, rest = argv[0], argv[1], argv[2:]
    refuse(command)
    one = store.find(name)
    if command == "create":
        given = dict(options(rest, {"--vmtype", "--ostemplate", "--dst", "--uuid"}, set(), 3, "prlctl"))
        if given.get("--vmtype") != "ct" or "--ostemplate" not in given:
            fail(3, "Invalid argument for --vmtype")
        number = str(uuid.uuid4())
        private = store.folder / f"private-{number}"
        one = {"key": number, "name": name, "private": str(private), "root": None}
        store.save({**one, "virtuozzo": True, "netifs": [], "set": []})
        for each in ("sbin", "bin", "usr/bin", "lib", "lib64", "proc", "sys", "dev", "run", "tmp"):
            (private / each).mkdir(parents=True)
        die("create")
        fill_template(private)
        return
    if one is None:
        fail(255, "Failed to get VM config: The virtual machine could not be found.")
    if command == "set":
        one["set"] += options(rest, PRLCTL_SET, set(), 3, "prlctl")
        store.save(one)
    elif command == "start" and not rest:
        vz_start(one, store)
        store.save(one)
    elif command in ("pause", "resume") and not rest:
        send(one, signal.SIGSTOP if command == "pause" else signal.SIGCONT)
    elif command == "stop" and rest == ["--kill"]:
        end(one)
        store.save(one)
    elif command == "delete" and not rest:
        subprocess.run(["rm", "-rf", one["private"]], check=True)
        store.drop(one)
    else:
        fail(3, f"Unrecognized command: {command} {' '.join(rest)}")


def fill_template(private: Path) -> None:
    """A template's own files: busybox as init, shell and tar."""
    shutil.copy(os.environ["MOCK_BUSYBOX"], private / "bin/busybox")
    for name in ("sh", "tar"):
        (private / "bin" / name).symlink_to("busybox")
    (private / "sbin/init").write_text("#!/bin/sh\nwhile :; do sleep 1000; done\n")
    (private / "sbin/init").chmod(0o755)
    (private / "bin/sleep").symlink_to("busybox")


def vserver(argv: list[str], store: Store) -> None:  # noqa: C901 - one branch a command
    if argv == ["--version"]:
        print(
            "vserver 0.30.216-pre3126 -- manages the state of vservers\nThis program is part of util-vserver 0.30.216"
        )
        return
    silent = argv[:1] == ["--silent"]
    name, command, *rest = argv[1:] if silent else argv
    refuse(command)
    configuration = store.folder / "etc" / name
    one = store.find(name)
    if command == "build":
        given = dict(
            options(
                rest,
                {"-m", "--context", "--hostname", "--initstyle", "--rootdir", "--confdir"},
                {"--force"},
                1,
                "vserver-build",
            )
        )
        if given.get("-m") != "skeleton":
            fail(1, f"Unknown build-method '{given.get('-m')}'" if "-m" in given else "No build-method specified")
        private = Path(given["--rootdir"]) / name
        if not private.parent.is_dir():
            fail(1, f"Root-directory '{private.parent}' does not exist or is invalid")
        if private.exists() or configuration.exists():
            fail(
                1,
                f"vserver-topdirectory '{private}' and/or configuration at '{configuration}'\n"
                "exist already; please try to use '--force', or remove them manually.",
            )
        for each in (private / "etc", private / "dev", private / "proc", configuration):
            each.mkdir(parents=True)
        (configuration / "fstab").write_text(FSTAB)
        context = given["--context"]
        store.save({"key": f"v{context}", "name": name, "context": context, "private": str(private)})
        return
    if one is None:
        fail(5, f"Can not find a vserver-setup at '{configuration}/'.")
    if command == "start":
        if rest[:2] != ["--rescue", "--rescue-init"]:
            fail(1, f"vserver ... start: unknown option '{rest[0] if rest else ''}'")
        if not (configuration / "spaces/net").exists():
            fail(1, "the mock has guests with a network namespace only")
        launch(one, rest[2:], fstab_binds(configuration / "fstab", Path(one["private"])))
        store.save(one)
    elif command == "exec":
        if not running(one):
            fail(1, "'vserver ... suexec' is supported for running vservers only; aborting...")
        inside(one, rest)
    elif command == "stop":
        end(one)
        store.save(one)
    elif command == "delete":
        if not silent:
            fail(2, f"Are you sure you want to delete the vserver {name} (y/N) ")
        end(one)
        subprocess.run(["rm", "-rf", one["private"], str(configuration)], check=True)
        store.drop(one)
    else:
        fail(
            2,
            "Usage: vserver <vserver> "
            "{start|stop|suexec|restart|condrestart|exec|enter|chkconfig|running|status|delete}",
        )


def fstab_binds(fstab: Path, private: Path) -> list[Bind]:
    """What ``secure-mount -a --chroot --fstab`` mounts in the guest's namespace; it only says which line failed."""
    found = []
    for number, line in enumerate(fstab.read_text().splitlines(), 1):
        words = line.split()
        if len(words) < 4:
            fail(1, f"{fstab}:{number}:1: syntax error")
        source, target, kind, flags = words[:4]
        if target in OWN_MOUNTS:
            continue
        if not {"bind", "rbind"} & set(flags.split(",")) or kind != "none":
            fail(1, f"the mock mounts folders of the host alone, and not {line!r}")
        if Path(source).is_dir() and (private / target.lstrip("/")).is_dir():
            found.append(Bind(Path(source), Path(target)))
        else:
            print(f"{fstab}:{number}:1: failed to mount fstab-entry", file=sys.stderr)
    return found


def vserver_info(argv: list[str], store: Store) -> None:
    context, tag = argv[-2:]
    one = next((each for each in store.all().values() if each.get("context") == context), None)
    if one is None or not running(one) or tag not in ("RUNNING", "INITPID"):
        sys.exit(1)
    print("1" if tag == "RUNNING" else one["pid"])


def vkill(argv: list[str], store: Store) -> None:
    if len(argv) != 6 or (argv[0], argv[2], argv[4:]) != ("--xid", "-s", ["--", "0"]):
        fail(1, "Usage: vkill [--xid|-c <xid>] [-s <signal>] [--] <pid>*")
    one = next((each for each in store.all().values() if each.get("context") == argv[1]), None)
    if one is None or not running(one):
        fail(1, "vkill: vc_ctx_kill(): No such process")
    send(one, getattr(signal, f"SIG{argv[3]}"))


def main(program: str, argv: list[str]) -> None:
    """One of the programs."""
    actions: dict[str, Callable[[list[str], Store], None]] = {
        "vzctl": vzctl,
        "vzlist": vzlist,
        "prlctl": prlctl,
        "vserver": vserver,
        "vserver-info": vserver_info,
        "vkill": vkill,
    }
    store = Store()
    store.note(program, argv)
    actions[program](argv, store)
