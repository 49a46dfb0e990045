"""``vzctl``, ``vzlist`` and ``prlctl`` of OpenVZ and Virtuozzo, as ``container_mocks`` says."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.mocked_containers import Share, Store, die, end, fail, inside, launch, options, refuse, running, send

# vzctl(8), "Setting container parameters": what each option takes.
SIZES = {"--ram", "--swap", "--privvmpages", "--physpages", "--cpus", "--cpuunits", "--cpulimit", "--cpumask"}
SET_OPTIONS = SIZES | {"--applyconfig", "--capability", "--netif_add", "--name", "--hostname", "--onboot"}
# Of Virtuozzo's vzctl alone, for containers that prlctl has made.
VIRTUOZZO_OPTIONS = {"--bindmount_add"}
PRLCTL_SET = {"--cpus", "--cpuunits", "--cpulimit", "--cpumask", "--memsize", "--swap", "--name"}


def share_of(given: str) -> Share:
    """``--bindmount_add``: source and target, both absolute."""
    source, _, target = given.partition(":")
    if not source.startswith("/") or not target.startswith("/") or target == "/":
        fail(20, f"Invalid value for --bindmount_add: {given}")
    return source, target


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
        known = {"--ostemplate", "--layout", "--private", "--root", "--name", "--hostname", "--config"}
        vz_create(handle, dict(options(rest, known, set(), 20, "vzctl")), store)
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
    shares = [share_of(value) for key, value in one["set"] if key == "--bindmount_add"]
    for _, target in shares:
        Path(one["private"], target.lstrip("/")).mkdir(parents=True, exist_ok=True)
    if one["root"]:
        if is_mount(one["root"]):
            unmount(one)
        vz_mount(one, store)
        below = [place for place in mount_points() if place.startswith(f"{one['root']}/")]
        shares += [(place, place.removeprefix(one["root"])) for place in below]
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
        number = Path("/proc/sys/kernel/random/uuid").read_text().strip()
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
    (private / "bin/busybox").write_bytes(Path(os.environ["MOCK_BUSYBOX"]).read_bytes())
    (private / "bin/busybox").chmod(0o755)
    for name in ("sh", "tar"):
        (private / "bin" / name).symlink_to("busybox")
    (private / "sbin/init").write_text("#!/bin/sh\nwhile :; do sleep 1000; done\n")
    (private / "sbin/init").chmod(0o755)
    (private / "bin/sleep").symlink_to("busybox")
