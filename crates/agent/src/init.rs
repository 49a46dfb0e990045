//! PID 1 of a machine whose root holds nothing else: file systems, modules, disk, channel, and never returning.
//!
//! The kernel's command line says what differs from machine to machine: `virtoll.channel`, `virtoll.modules` (those to be
//! loaded besides), `virtoll.disk` (to be mounted at /mnt) or `virtoll.root` (to become the root), `virtoll.disktype`,
//! `virtoll.data` (an ext4 disk to be mounted at /data) with its `virtoll.scheduler`, `virtoll.end`. A disk is `/dev/NODE` or `serial:ITS-SERIAL`.

mod sys;

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use virtoll_clock::Readings;

use crate::channel::Channel;
use crate::disks;
use crate::network;
use crate::options::Role;
use crate::session::Session;

/// What is mounted where it is missing: kind, place, options.
const FILE_SYSTEMS: [(&str, &str, &str); 6] = [
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", ""),
    ("devpts", "/dev/pts", "ptmxmode=0666"),
    ("tmpfs", "/tmp", "mode=1777"),
    ("tmpfs", "/run", "mode=0755"),
];
const MODULES: &str = "/lib/modules";
const DEFAULT_CHANNEL: &str = "virtio-serial";
/// The argument of the agent that a root on a disk is started with.
const ON_DISK: &str = "on-disk";
/// Where a root is mounted before it becomes the root, and where a disk that is not the root is.
const NEW_ROOT: &str = "/new-root";
const SPARE: &str = "/mnt";
/// Where the disk for workloads' files is, and the type of its file system.
const DATA: &str = "/data";
const DATA_TYPE: &str = "ext4";
/// Prefix of a disk's serial number where a device node could be.
const BY_SERIAL: &str = "serial:";
/// What stands before the serial number in the page of a SCSI disk that holds it (SPC-4, 7.8.15).
const VPD_HEADER_BYTES: usize = 4;
/// How long a disk may take to appear.
const DISK_DEADLINE: Duration = Duration::from_secs(60);
const DISK_INTERVAL: Duration = Duration::from_millis(2);

/// Sets the machine up, serves, and powers it off; `started` is when this program began.
pub fn run_machine(arguments: &[String], started: Readings) -> ! {
    mount_file_systems();
    let command_line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let word = |name| value_of(&command_line, name);
    if !arguments.iter().any(|argument| argument == ON_DISK) {
        load_modules(&command_line);
        let kind = word("virtoll.disktype").unwrap_or("ext4");
        let root = word("virtoll.root");
        if let (Some(device), None) = (word("virtoll.disk"), root)
            && let Err(cause) = await_disk(device).and_then(|node| mount_disk(&node, kind, SPARE))
        {
            eprintln!("virtoll-agent: disk {device} on {SPARE}: {cause}");
        }
        if let Some(device) = root {
            let cause = await_disk(device).and_then(|node| enter_root(&node, kind));
            eprintln!("virtoll-agent: root {device}: {}", cause.expect_err("a new program"));
            end_machine(&command_line);
        }
    }
    if let Some(device) = word("virtoll.data")
        && let Err(cause) = await_disk(device).and_then(|node| {
            choose_scheduler(&node, word("virtoll.scheduler"));
            mount_disk(&node, DATA_TYPE, DATA)
        })
    {
        eprintln!("virtoll-agent: disk {device} on {DATA}: {cause}");
    }
    if let Err(cause) = network::loopback_up() {
        eprintln!("virtoll-agent: loopback: {cause}");
    }
    let name = word("virtoll.channel").unwrap_or(DEFAULT_CHANNEL);
    if is_console(&command_line, name) {
        // What the kernel says would come between the channel's lines; its last words before a panic still do.
        let _ = fs::write("/proc/sys/kernel/printk", "1");
    }
    let served = Channel::open(name, is_paced(&command_line))
        .and_then(|channel| Session::new(channel, Role::Guest, started))
        .and_then(Session::serve);
    if let Err(cause) = served {
        eprintln!("virtoll-agent: channel {name}: {cause}");
    }
    end_machine(&command_line);
}

/// Switches the machine off, or resets it where that is what ends it (`virtoll.end=reset`).
fn end_machine(command_line: &str) -> ! {
    let cause = if value_of(command_line, "virtoll.end") == Some("reset") {
        sys::reset()
    } else {
        sys::power_off()
    };
    eprintln!("virtoll-agent: the kernel does not end the machine: {cause}");
    loop {
        std::thread::park();
    }
}

fn mount_file_systems() {
    for (kind, place, options) in FILE_SYSTEMS {
        // Where the mount works it was wanted, and where a file system is there already the kernel says EBUSY.
        let _ = fs::create_dir_all(place);
        if is_mounted(place) {
            continue;
        }
        if let Err(cause) = sys::mount(kind, place, options) {
            eprintln!("virtoll-agent: mount {kind} on {place}: {cause}");
        }
    }
}

fn is_mounted(place: &str) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(place))
}

/// Loads the modules that the image lists, and those of `virtoll.modules=`; one that fails is reported on the console.
fn load_modules(command_line: &str) {
    let listed = |name| fs::read_to_string(Path::new(MODULES).join(name)).unwrap_or_default();
    let wanted = value_of(command_line, "virtoll.modules").unwrap_or_default();
    for file in modules_to_load(&listed("order"), &listed("on-request"), wanted) {
        let path: PathBuf = Path::new(MODULES).join(&file);
        let parameters = module_parameters(command_line, file.trim_end_matches(".ko"));
        if let Err(cause) = sys::load_module(&path, &parameters) {
            eprintln!("virtoll-agent: module {}: {cause}", path.display());
        }
    }
}

/// Files in the order of loading: all of `order`, then those that `on_request` has for each wanted name (`name: files`).
fn modules_to_load(order: &str, on_request: &str, wanted: &str) -> Vec<String> {
    let mut files: Vec<String> = order.split_whitespace().map(str::to_owned).collect();
    for name in wanted.split(',').filter(|name| !name.is_empty()) {
        let lines = on_request.lines().filter_map(|line| line.split_once(':'));
        let found =
            lines.filter(|(other, _)| *other == name).flat_map(|(_, rest)| rest.split_whitespace());
        for file in found.map(str::to_owned) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    files
}

/// What the kernel's command line has for a module (`module.name=value`), as `modprobe` would hand it on.
fn module_parameters(command_line: &str, module: &str) -> String {
    let prefix = format!("{module}.");
    let words = command_line.split_whitespace().filter_map(|word| word.strip_prefix(&prefix));
    words.collect::<Vec<_>>().join(" ")
}

/// Waits for a disk, given by its node or by `serial:` and what it says it is; its node. Its driver looks for it after
/// it was loaded.
fn await_disk(disk: &str) -> io::Result<String> {
    let find = || match disk.strip_prefix(BY_SERIAL) {
        Some(serial) => disk_of_serial(Path::new("/sys/block"), serial),
        None => Some(disk.to_owned()),
    };
    let deadline = Instant::now() + DISK_DEADLINE;
    loop {
        if let Some(node) = find().filter(|node| Path::new(node).exists()) {
            return Ok(node);
        }
        if Instant::now() >= deadline {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no such disk appeared"));
        }
        std::thread::sleep(DISK_INTERVAL);
    }
}

/// The node of the disk with this serial number; names depend on the order in which disks were found.
fn disk_of_serial(disks: &Path, serial: &str) -> Option<String> {
    let found = fs::read_dir(disks).ok()?.flatten().find(|disk| says(&disk.path(), serial))?;
    Some(format!("/dev/{}", found.file_name().to_string_lossy()))
}

/// Whether a disk has this serial number: virtio's own file, `NVMe`'s of its controller, ATA's page after its header.
fn says(disk: &Path, serial: &str) -> bool {
    let files = [("serial", 0), ("device/serial", 0), ("device/vpd_pg80", VPD_HEADER_BYTES)];
    files.iter().any(|(file, header)| {
        let said = fs::read(disk.join(file)).unwrap_or_default();
        let number = said.get(*header..).unwrap_or_default();
        number.trim_ascii() == serial.as_bytes()
    })
}

/// Has the disk's requests ordered as asked; one that the kernel has not is told on the console, and seen in `facts`.
fn choose_scheduler(node: &str, wanted: Option<&str>) {
    let (Some(name), Some(disk)) = (wanted, node.strip_prefix("/dev/")) else { return };
    if let Err(cause) = fs::write(disks::scheduler_file(disk), name) {
        eprintln!("virtoll-agent: scheduler {name} of {node}: {cause}");
    }
}

fn mount_disk(device: &str, kind: &str, place: &str) -> io::Result<()> {
    fs::create_dir_all(place)?;
    sys::mount_disk(device, kind, place)
}

/// Makes a disk the root and starts its own agent in the place of this one; returns only if that fails.
///
/// The files of the first root are in the machine's memory, so they are removed.
fn enter_root(device: &str, kind: &str) -> io::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    if !root_is_in_memory(&mounts) {
        return Err(io::Error::other("the first root is not an initramfs, and is left as it is"));
    }
    mount_disk(device, kind, NEW_ROOT)?;
    for (_, place, _) in FILE_SYSTEMS.iter().rev() {
        sys::unmount(place)?;
    }
    for entry in fs::read_dir("/")?.flatten() {
        let path = entry.path();
        if path != Path::new(NEW_ROOT) {
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    }
    std::env::set_current_dir(NEW_ROOT)?;
    sys::move_mount(".", "/")?;
    std::os::unix::fs::chroot(".")?;
    std::env::set_current_dir("/")?;
    Err(Command::new("/init").arg(ON_DISK).exec())
}

/// Whether the last file system mounted on / is the one that an initramfs is unpacked to.
fn root_is_in_memory(mounts: &str) -> bool {
    let root = mounts.lines().rev().find(|line| line.split(' ').nth(1) == Some("/"));
    root.is_some_and(|line| line.split(' ').nth(2) == Some("rootfs"))
}

fn value_of<'a>(command_line: &'a str, name: &str) -> Option<&'a str> {
    let words = command_line.split_whitespace();
    words
        .filter_map(|word| word.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// Whether the kernel prints on the channel's device.
fn is_console(command_line: &str, channel: &str) -> bool {
    let device = channel.strip_prefix("/dev/");
    let consoles = command_line.split_whitespace().filter_map(|word| word.strip_prefix("console="));
    device.is_some() && consoles.map(|name| name.split(',').next()).any(|name| name == device)
}

fn is_paced(command_line: &str) -> bool {
    command_line.split_whitespace().any(|word| word == "virtoll.paced")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_text::any_text;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any_text(&["console=ttyS0", "virtoll.paced", "root=", "=", "e1000:", "veth", "/", "rootfs", ",", "."])) {
            let _ = (value_of(&text, "root"), is_console(&text, "/dev/ttyS0"), is_paced(&text));
            let _ = root_is_in_memory(&text);
            let _ = (modules_to_load(&text, &text, "e1000"), module_parameters(&text, "e1000"));
        }
    }

    #[test]
    fn the_command_line_is_read_by_names() {
        let line = "quiet virtoll.channel=/dev/ttyS1 x virtoll.root=/dev/vda\n";
        assert_eq!(value_of(line, "virtoll.channel"), Some("/dev/ttyS1"));
        assert_eq!(value_of(line, "virtoll.root"), Some("/dev/vda"));
        assert_eq!(value_of(line, "virtoll.disk"), None);
        assert_eq!(value_of(line, "quiet"), None);
    }

    #[test]
    fn only_an_initramfs_is_cleared_away() {
        assert!(root_is_in_memory("rootfs / rootfs rw 0 0\nproc /proc proc rw 0 0\n"));
        assert!(!root_is_in_memory("rootfs / rootfs rw 0 0\n/dev/vda / ext4 rw 0 0\n"));
        assert!(!root_is_in_memory("none / hostfs rw 0 0\n"));
        assert!(!root_is_in_memory(""));
    }

    #[test]
    fn a_disk_is_found_by_its_serial_number() {
        let disks = std::env::temp_dir().join(format!("virtoll-disks-{}", std::process::id()));
        for (file, said) in [
            ("vda/serial", "other\n"),
            ("vdb/serial", "of-virtio\n"),
            ("nvme0n1/device/serial", "of-nvme             \n"),
            ("sda/device/vpd_pg80", "\0\u{80}\0\u{14}virtoll-data        "),
            ("sdb/device/vpd_pg80", "\0"),
        ] {
            fs::create_dir_all(disks.join(file).parent().unwrap()).unwrap();
            fs::write(disks.join(file), said.chars().map(|sign| sign as u8).collect::<Vec<_>>())
                .unwrap();
        }
        fs::create_dir_all(disks.join("loop0")).unwrap();
        let found = |serial| disk_of_serial(&disks, serial);
        assert_eq!(found("of-virtio"), Some("/dev/vdb".to_owned()));
        assert_eq!(found("of-nvme"), Some("/dev/nvme0n1".to_owned()));
        assert_eq!(found("virtoll-data"), Some("/dev/sda".to_owned()));
        assert_eq!(found("virtoll"), None);
        fs::remove_dir_all(&disks).unwrap();
    }

    #[test]
    fn the_channel_may_be_the_console() {
        assert!(is_console("console=ttyS0,115200 quiet", "/dev/ttyS0"));
        assert!(!is_console("console=ttyS0 quiet", "/dev/ttyS1"));
        assert!(!is_console("console=ttyS0", "virtio-serial"));
    }

    #[test]
    fn modules_are_loaded_in_order_and_once() {
        let on_request = "ext4: crc16.ko jbd2.ko ext4.ko\nahci: libata.ko ahci.ko\nsd_mod: libata.ko sd_mod.ko\n";
        let loaded = modules_to_load("a.ko\nb.ko\n", on_request, "ahci,sd_mod,none");
        assert_eq!(loaded, ["a.ko", "b.ko", "libata.ko", "ahci.ko", "sd_mod.ko"]);
        assert_eq!(modules_to_load("a.ko\n", on_request, ""), ["a.ko"]);
    }

    #[test]
    fn a_module_gets_its_parameters_from_the_command_line() {
        let line = "virtio_mmio.device=4K@0xd0:5 quiet virtio_mmio.device=4K@0xd1:6 virtio.x=1\n";
        assert_eq!(module_parameters(line, "virtio_mmio"), "device=4K@0xd0:5 device=4K@0xd1:6");
        assert_eq!(module_parameters(line, "virtio_net"), "");
    }

    #[test]
    fn a_paced_channel_is_asked_for_by_a_word() {
        assert!(is_paced("quiet virtoll.paced\n"));
        assert!(!is_paced("quiet virtoll.channel=/dev/ttyS1\n"));
    }
}
