//! PID 1 of a machine whose root holds nothing else: file systems, modules, channel, and never returning.

use std::fs;
use std::path::{Path, PathBuf};

use crate::channel::Channel;
use crate::network;
use crate::options::Seat;
use crate::session::Session;
use crate::sys;

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

/// Sets the machine up, serves, and powers it off.
pub fn run_machine() -> ! {
    mount_file_systems();
    load_modules();
    if let Err(cause) = network::loopback_up() {
        eprintln!("virtoll-agent: loopback: {cause}");
    }
    let command_line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let name = channel_name(&command_line);
    let served = Channel::open(&name, is_paced(&command_line))
        .and_then(|channel| Session::new(channel, Seat::Guest))
        .and_then(Session::serve);
    if let Err(cause) = served {
        eprintln!("virtoll-agent: channel {name}: {cause}");
    }
    let cause = sys::power_off();
    eprintln!("virtoll-agent: the kernel does not power off: {cause}");
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

/// Loads the modules that the image lists; a module that fails is told on the console and left out.
fn load_modules() {
    let order = fs::read_to_string(Path::new(MODULES).join("order")).unwrap_or_default();
    for line in order.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let path: PathBuf = Path::new(MODULES).join(line);
        if let Err(cause) = sys::load_module(&path) {
            eprintln!("virtoll-agent: module {}: {cause}", path.display());
        }
    }
}

fn channel_name(command_line: &str) -> String {
    command_line
        .split_whitespace()
        .find_map(|word| word.strip_prefix("virtoll.channel="))
        .unwrap_or(DEFAULT_CHANNEL)
        .to_owned()
}

fn is_paced(command_line: &str) -> bool {
    command_line.split_whitespace().any(|word| word == "virtoll.paced")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_channel_comes_from_the_command_line() {
        assert_eq!(channel_name("quiet virtoll.channel=/dev/ttyS1 x\n"), "/dev/ttyS1");
        assert_eq!(channel_name("quiet\n"), "virtio-serial");
        assert!(is_paced("quiet virtoll.paced\n"));
        assert!(!is_paced("quiet virtoll.channel=/dev/ttyS1\n"));
    }
}
