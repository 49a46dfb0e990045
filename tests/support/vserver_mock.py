"""``vserver``, ``vserver-info`` and ``vkill`` of Linux-VServer, as ``container_mocks`` says."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.support.mocked_containers import Share, Store, end, fail, inside, launch, options, refuse, running, send

# What ``vserver ... build`` writes into fstab (util-vserver's distrib/misc/fstab).
FSTAB = (
    "none\t/proc\t\tproc\tdefaults\t\t0 0\n"
    "none\t/tmp\t\ttmpfs\tsize=16m,mode=1777\t0 0\n"
    "none\t/dev/pts\tdevpts\tgid=5,mode=620\t\t0 0\n"
)
# The sizes and kinds of these are the container's behind the mock, whatever fstab says.
OWN_MOUNTS = {"/proc", "/sys", "/dev/pts", "/tmp", "/run"}


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
        known = {"-m", "--context", "--hostname", "--initstyle", "--rootdir", "--confdir"}
        given = dict(options(rest, known, {"--force"}, 1, "vserver-build"))
        if given.get("-m") != "skeleton":
            fail(1, f"Unknown build-method '{given.get('-m')}'" if "-m" in given else "No build-method specified")
        private = Path(given["--rootdir"]) / name
        if not private.parent.is_dir():
            fail(1, f"Root-directory '{private.parent}' does not exist or is invalid")
        if private.exists() or configuration.exists():
            taken = f"vserver-topdirectory '{private}' and/or configuration at '{configuration}'\n"
            fail(1, f"{taken}exist already; please try to use '--force', or remove them manually.")
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
        commands = "start|stop|suexec|restart|condrestart|exec|enter|chkconfig|running|status|delete"
        fail(2, f"Usage: vserver <vserver> {{{commands}}}")


def fstab_binds(fstab: Path, private: Path) -> list[Share]:
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
            found.append((source, target))
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
