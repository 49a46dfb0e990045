//! Facts about confinement: what the kernel holds of this process's rights, and what it lets a process with them do.
//!
//! Each attempt only asks whether it is allowed and changes nothing: a file is opened and closed again, and a system call
//! is given what the kernel refuses after it has looked at the caller's rights.

mod sys;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use virtoll_proto::reply::facts::Reach;

use super::machine::status_field;
use super::read_trimmed;

/// Allowed, as the answer has it; anything else is the name of the error.
const ALLOWED: &str = "allowed";
/// Where sockets of engines, system buses and displays lie.
const SOCKET_FOLDERS: [&str; 4] = ["/run", "/tmp", "/dev", "/var/run"];
const MOST_SOCKETS: usize = 20;
const MOST_ENTRIES: usize = 2000;
const SOCKET_DEPTH: usize = 3;
/// Where a node of a device may be made, in this order.
const NODE_FOLDERS: [&str; 3] = ["/dev", "/run", "/tmp"];
/// Character device 1:1, the machine's memory.
const MEMORY: (u32, u32) = (1, 1);

/// Reads what the kernel holds and tries each attempt once.
pub fn collect() -> Reach {
    let number = |name| status_field(name)?.parse().ok();
    Reach {
        user_map: read_trimmed("/proc/self/uid_map").map(|map| words(&map)),
        seccomp_mode: number("Seccomp"),
        seccomp_filters: number("Seccomp_filters"),
        no_new_privileges: status_field("NoNewPrivs").map(|value| value == "1"),
        capabilities_bounding_hex: status_field("CapBnd"),
        security_label: security_label(),
        writable_mounts: fs::read_to_string("/proc/self/mounts").ok().map(|all| writable(&all)),
        network_namespace: fs::read_link("/proc/self/ns/net")
            .ok()
            .map(|name| name.display().to_string()),
        sockets: sockets(),
        abstract_sockets: fs::read_to_string("/proc/net/unix").ok().map(|all| abstract_names(&all)),
        attempts: attempts(),
    }
}

fn attempts() -> BTreeMap<String, String> {
    let tried: [(&str, io::Result<()>); 20] = [
        ("block-device", node_of_disk()),
        ("bpf", sys::list_bpf_programs()),
        ("cgroup-files", cgroup_file().and_then(|file| write_to(&file))),
        ("clock", sys::set_clock()),
        ("core-pattern", write_to(Path::new("/proc/sys/kernel/core_pattern"))),
        ("file-handles", sys::open_by_handle()),
        ("kernel-log", sys::read_kernel_log()),
        ("kernel-memory", read_from(Path::new("/proc/kcore"))),
        ("keyrings", sys::name_keyring()),
        ("machine-memory", open_node(true, MEMORY)),
        ("module", sys::load_module()),
        ("mount", sys::mount_nothing()),
        ("outer-process", outer_process()),
        ("packet-socket", sys::open_packet_socket()),
        ("perf", sys::count_of_whole_cpu()),
        ("namespace", sys::enter_own_namespace()),
        ("swappiness", write_to(Path::new("/proc/sys/vm/swappiness"))),
        ("sys-files", write_to(Path::new("/sys/kernel/mm/transparent_hugepage/enabled"))),
        ("sysrq", write_to(Path::new("/proc/sysrq-trigger"))),
        ("user-namespace", sys::make_user_namespace()),
    ];
    tried.into_iter().map(|(name, outcome)| (name.to_owned(), told(&outcome))).collect()
}

fn told(outcome: &io::Result<()>) -> String {
    match outcome {
        Ok(()) => ALLOWED.to_owned(),
        Err(error) => error.raw_os_error().map_or_else(|| error.to_string(), sys::error_name),
    }
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a security module says that this process is; none where no module says anything.
fn security_label() -> Option<String> {
    read_trimmed("/proc/self/attr/current")
        .map(|label| label.trim_end_matches('\0').to_owned())
        .filter(|label| !label.is_empty())
}

/// Where file systems are mounted that may be written to, with their kinds.
fn writable(mounts: &str) -> Vec<String> {
    let of_line = |line: &str| {
        let fields = line.split(' ').collect::<Vec<_>>();
        let [_, place, kind, options, ..] = fields[..] else { return None };
        options.split(',').any(|option| option == "rw").then(|| format!("{place} {kind}"))
    };
    mounts.lines().filter_map(of_line).collect()
}

/// Sockets that have a path here, up to so many.
fn sockets() -> Vec<String> {
    let mut found = Vec::new();
    let mut left = MOST_ENTRIES;
    for folder in SOCKET_FOLDERS {
        // A second name of a folder that was looked through already.
        if !Path::new(folder).is_symlink() {
            look_for_sockets(Path::new(folder), SOCKET_DEPTH, &mut left, &mut found);
        }
    }
    found.sort();
    found.truncate(MOST_SOCKETS);
    found
}

fn look_for_sockets(folder: &Path, depth: usize, left: &mut usize, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        match entry.file_type() {
            Ok(kind) if kind.is_socket() => found.push(entry.path().display().to_string()),
            Ok(kind) if kind.is_dir() && depth > 1 => {
                look_for_sockets(&entry.path(), depth - 1, left, found);
            }
            _ => {}
        }
    }
}

/// How many sockets of this network namespace have an abstract name, which no file system guards.
fn abstract_names(table: &str) -> u64 {
    let names = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(7));
    names.filter(|name| name.starts_with('@')).count() as u64
}

fn write_to(file: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).open(file).map(drop)
}

fn read_from(file: &Path) -> io::Result<()> {
    OpenOptions::new().read(true).open(file).map(drop)
}

/// The list of processes of some group that is seen here: who may write to it moves processes out of their limits.
fn cgroup_file() -> io::Result<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let groups = fs::read_dir(root)?.flatten().map(|entry| entry.path());
    let mut files =
        std::iter::once(root.to_owned()).chain(groups).map(|one| one.join("cgroup.procs"));
    files.find(|file| file.exists()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
}

/// Makes a node for the first disk that the kernel lists, and opens it for reading.
fn node_of_disk() -> io::Result<()> {
    let listed = fs::read_to_string("/proc/partitions")?;
    let first = listed.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    open_node(false, first.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?)
}

/// Makes a node of a device, opens it for reading and removes it again; the first folder that allows it decides.
fn open_node(of_characters: bool, device: (u32, u32)) -> io::Result<()> {
    let mut outcome = Err(io::Error::from_raw_os_error(libc::ENOENT));
    for folder in NODE_FOLDERS {
        let node = Path::new(folder).join(format!("virtoll-asks-{}", std::process::id()));
        outcome = sys::make_node(&node, of_characters, device).and_then(|()| {
            let opened = read_from(&node);
            fs::remove_file(&node)?;
            opened
        });
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// Whether the memory of the first process may be read, where that is not this one and not of this guest.
fn outer_process() -> io::Result<()> {
    if std::process::id() == 1 {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    read_from(Path::new("/proc/1/mem"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_text::any_text;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any_text(&["rw", "rw,nosuid", "ro", "/proc", "/", "ext4", "@abstract", "00000001:"])) {
            let _ = (writable(&text), abstract_names(&text), words(&text));
        }
    }

    #[test]
    fn mounts_that_may_be_written_to_are_told_with_their_kinds() {
        let mounts = "/dev/vda / ext4 ro,relatime 0 0\nproc /proc proc rw,nosuid 0 0\n\
                      proc /proc/sys proc ro,rw_odd 0 0\nodd\n";
        assert_eq!(writable(mounts), ["/proc proc"]);
    }

    #[test]
    fn abstract_names_are_counted() {
        let table = "Num RefCount Protocol Flags Type St Inode Path\n\
                     0: 2 0 00010000 0001 01 17 /run/a\n0: 2 0 00010000 0001 01 18 @/b\n0: 2 0 0 1 3 19\n";
        assert_eq!(abstract_names(table), 1);
    }

    #[test]
    #[cfg_attr(miri, ignore = "mount(2), bpf(2) and eighteen others")]
    fn every_attempt_has_an_outcome_and_leaves_nothing() {
        let tried = attempts();
        assert_eq!(tried.len(), 20);
        assert!(tried.values().all(|one| one == ALLOWED || one.starts_with('E')), "{tried:?}");
        let own = format!("virtoll-asks-{}", std::process::id());
        assert!(NODE_FOLDERS.iter().all(|folder| !Path::new(folder).join(&own).exists()));
    }
}
