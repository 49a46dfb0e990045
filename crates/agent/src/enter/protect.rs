//! What of /proc and /sys is the whole kernel's: hidden from a guest, or shown to it for reading only.
//!
//! The network's own settings stay, because they are the guest's namespace's: a guest is a router and sets them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::EnterError;
use super::root::{bind, hide, make_read_only};

/// As container engines hide them.
const HIDDEN: [&str; 10] = [
    "proc/acpi",
    "proc/asound",
    "proc/kcore",
    "proc/keys",
    "proc/latency_stats",
    "proc/sched_debug",
    "proc/scsi",
    "proc/timer_list",
    "sys/devices/virtual/powercap",
    "sys/firmware",
];
const READ_ONLY: [&str; 4] = ["proc/bus", "proc/fs", "proc/irq", "proc/sysrq-trigger"];
/// A mount of its own already, with others below it.
const DEVICES: &str = "sys";
const SETTINGS: &str = "proc/sys";
const OWN_SETTINGS: &str = "net";

/// The first PID namespace, whose number is the same on every kernel (`PROC_PID_INIT_INO`).
const FIRST_PROCESSES: &str = "pid:[4026531836]";

/// Whether this process sees the mounts of the host's first process.
///
/// In another PID namespace process 1 is a container's. What cannot be read is not the host's: /proc of a container that
/// was entered by its mounts alone knows no such process, and a user's namespace may not look at the host's first one.
pub fn mounts_are_the_hosts() -> bool {
    let name = |file: &str| fs::read_link(file).ok();
    are_the_hosts(
        name("/proc/self/ns/pid").as_deref(),
        name("/proc/self/ns/mnt").as_deref(),
        name("/proc/1/ns/mnt").as_deref(),
    )
}

fn are_the_hosts(processes: Option<&Path>, own: Option<&Path>, first: Option<&Path>) -> bool {
    processes == Some(Path::new(FIRST_PROCESSES)) && own.is_some() && own == first
}

/// Changes the mounts below a root, in a mount namespace that is the guest's own.
///
/// # Errors
/// The place and the kernel's reason. What this kernel has not is left out.
pub fn protect(root: &Path) -> Result<(), EnterError> {
    for place in HIDDEN.map(|place| root.join(place)) {
        unless_absent(&place, cover(&place, root))?;
    }
    let mut shown: Vec<PathBuf> = READ_ONLY.iter().map(|place| root.join(place)).collect();
    for entry in fs::read_dir(root.join(SETTINGS)).into_iter().flatten().flatten() {
        if entry.file_name() != OWN_SETTINGS {
            shown.push(entry.path());
        }
    }
    for place in shown {
        unless_absent(&place, show_read_only(&place))?;
    }
    let devices = root.join(DEVICES);
    unless_absent(&devices, make_read_only(&devices))
}

fn unless_absent(place: &Path, outcome: io::Result<()>) -> Result<(), EnterError> {
    match outcome {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            Err(EnterError::Protect(place.to_owned(), cause))
        }
        _ => Ok(()),
    }
}

/// Covers a folder by an empty one, and a file by the device that holds nothing.
fn cover(place: &Path, root: &Path) -> io::Result<()> {
    if fs::metadata(place)?.is_dir() {
        hide(place)?;
        return make_read_only(place);
    }
    bind(&root.join("dev/null"), place)
}

fn show_read_only(place: &Path) -> io::Result<()> {
    bind(place, place)?;
    make_read_only(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_mounts_are_those_of_its_first_process() {
        let host = (Some("pid:[4026531836]"), Some("mnt:[4026531832]"), Some("mnt:[4026531832]"));
        for (names, wanted, why) in [
            (host, true, "a shell of the host"),
            ((host.0, Some("mnt:[4026532201]"), host.2), false, "mounts of its own"),
            ((Some("pid:[4026532202]"), host.1, host.2), false, "a container's own process 1"),
            ((None, None, host.2), false, "a container that was entered by its mounts alone"),
            ((host.0, host.1, None), false, "a user who may not look at process 1"),
            ((host.0, None, None), false, "nothing can be read"),
        ] {
            let [processes, own, first] =
                [names.0, names.1, names.2].map(|name| name.map(Path::new));
            assert_eq!(are_the_hosts(processes, own, first), wanted, "{why}");
        }
    }
}
