//! Facts about kernel, processors, memory and the agent itself.

use std::collections::BTreeSet;
use std::fs;

use virtoll_proto::reply::facts::Machine;

use super::{read_trimmed, sys};
use crate::disks;

const DATA: &str = "/data";

/// Reads all of them.
pub fn collect() -> Machine {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags: BTreeSet<&str> =
        cpu_field(&processors, &["flags", "Features"]).unwrap_or("").split_whitespace().collect();
    let online = read_trimmed("/sys/devices/system/cpu/online");
    let clock_source =
        |file| read_trimmed(&format!("/sys/devices/system/clocksource/clocksource0/{file}"));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    Machine {
        kernel_release: read_trimmed("/proc/sys/kernel/osrelease"),
        kernel_version: read_trimmed("/proc/sys/kernel/version"),
        machine: sys::machine(),
        cpus_online: cpu_list(online.as_deref()).or_else(sys::online_processors),
        cpus_allowed: cpu_list(status_field("Cpus_allowed_list").as_deref()),
        cpu_model: cpu_model(&processors),
        cpu_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        memory_total_bytes: memory_total_bytes(),
        memory_installed_bytes: memory_installed_bytes(
            &fs::read_to_string("/proc/iomem").unwrap_or_default(),
        ),
        page_size_bytes: sys::page_size(),
        clock_source: clock_source("current_clocksource"),
        clock_sources: clock_source("available_clocksource"),
        data_schedulers: disk_mounted_at(&mounts, DATA)
            .and_then(|disk| read_trimmed(&disks::scheduler_file(disk))),
        clock_tick_hz: sys::clock_tick(),
        scheduler_tick_hz: sys::scheduler_tick(),
        scheduler_tickless: tickless(),
        boot_id: read_trimmed("/proc/sys/kernel/random/boot_id"),
        root_filesystem: root_filesystem(),
        hypervisor: hypervisor(&flags),
        cmdline: read_trimmed("/proc/cmdline"),
        pid: std::process::id(),
        uid: sys::user_id(),
        capabilities_hex: status_field("CapEff"),
    }
}

/// The last disk that was mounted there, by its node's name; none where that is no disk of its own.
fn disk_mounted_at<'a>(mounts: &'a str, place: &str) -> Option<&'a str> {
    let line = mounts.lines().rev().find(|line| line.split(' ').nth(1) == Some(place))?;
    line.split(' ').next()?.strip_prefix("/dev/")
}

fn cpu_field<'a>(processors: &'a str, names: &[&str]) -> Option<&'a str> {
    processors.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        names.contains(&name.trim()).then(|| value.trim())
    })
}

/// A field of /proc/self/status; none where this kernel has it not.
pub(super) fn status_field(name: &str) -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| {
        let (field, value) = line.split_once(':')?;
        (field == name).then(|| value.trim().to_owned())
    })
}

/// As the kernel names it; of Arm's processors the numbers by which they name themselves, which tell two apart.
fn cpu_model(processors: &str) -> Option<String> {
    let numbers = || {
        let field = |name| cpu_field(processors, &[name]);
        let (maker, part) = (field("CPU implementer")?, field("CPU part")?);
        let (variant, revision) = (field("CPU variant")?, field("CPU revision")?);
        Some(format!("implementer {maker}, part {part}, variant {variant}, revision {revision}"))
    };
    let named = |names| cpu_field(processors, names).map(str::to_owned);
    named(&["model name"]).or_else(numbers).or_else(|| named(&["Model"]))
}

/// How many processors a list such as `0-3,8` names.
fn cpu_list(list: Option<&str>) -> Option<u64> {
    list?.split(',').try_fold(0, |count, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        Some(count + last.checked_sub(first)? + 1)
    })
}

fn memory_total_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What the kernel was given, its own part included. None where addresses are hidden from this process.
fn memory_installed_bytes(map: &str) -> Option<u64> {
    let ranges = map.lines().filter_map(|line| line.strip_suffix(" : System RAM"));
    let total = ranges.filter(|range| !range.starts_with(' ')).try_fold(0_u64, |total, range| {
        let (first, last) = range.split_once('-')?;
        let first = u64::from_str_radix(first, 16).ok()?;
        let last = u64::from_str_radix(last, 16).ok()?;
        (last > 0).then(|| total.checked_add(last.checked_sub(first)? + 1))?
    });
    total.filter(|bytes| *bytes > 0)
}

/// CPUs on which the tick stops while they work (`nohz_full`); empty where there are none.
fn tickless() -> Option<String> {
    read_trimmed("/sys/devices/system/cpu/nohz_full").map(|list| list.replace("(null)", ""))
}

/// As the mounts name it; behind a change of root they do not, and the file system's own number is asked.
fn root_filesystem() -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let of_root = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        (fields.next()? == "/").then(|| fields.next().map(str::to_owned))?
    };
    mounts.lines().rev().find_map(of_root).or_else(|| sys::file_system("/"))
}

fn hypervisor(flags: &BTreeSet<&str>) -> Option<String> {
    read_trimmed("/sys/hypervisor/type")
        .or_else(|| sys::hypervisor_signature().filter(|_| flags.contains("hypervisor")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_text::any_text;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any_text(&["0-3", ",", "-", "/", " / ext4", "/dev/vda", "System", "RAM", ":", "00000000-0009ffff", "hypervisor", "processor"])) {
            let _ = (cpu_list(Some(&text)), disk_mounted_at(&text, "/"), cpu_field(&text, &["processor"]));
            let _ = memory_installed_bytes(&text);
        }
    }

    #[test]
    fn processor_lists_are_counted() {
        assert_eq!(cpu_list(Some("0-3,8")), Some(5));
        assert_eq!(cpu_list(Some("0")), Some(1));
        assert_eq!(cpu_list(Some("")), None);
        assert_eq!(cpu_list(None), None);
    }

    #[test]
    fn processors_without_a_name_are_told_by_their_numbers() {
        let arm = "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\n\
                   CPU variant\t: 0x4\nCPU part\t: 0xd0b\nCPU revision\t: 1\n\nModel\t: Raspberry Pi 5\n";
        let numbers = "implementer 0x41, part 0xd0b, variant 0x4, revision 1";
        assert_eq!(cpu_model(arm).as_deref(), Some(numbers));
        assert_eq!(cpu_model("model name\t: Test 3000\n").as_deref(), Some("Test 3000"));
        assert_eq!(cpu_model("Model\t: A Board\n").as_deref(), Some("A Board"));
        assert_eq!(cpu_model(""), None);
    }

    #[test]
    fn a_disk_is_found_by_where_it_is_mounted() {
        let mounts =
            "/dev/vda / ext4 rw 0 0\ntmpfs /data tmpfs rw 0 0\n/dev/vdb /data ext4 rw 0 0\n";
        assert_eq!(disk_mounted_at(mounts, "/data"), Some("vdb"));
        assert_eq!(disk_mounted_at(mounts, "/"), Some("vda"));
        assert_eq!(disk_mounted_at(mounts, "/mnt"), None);
        assert_eq!(disk_mounted_at("tmpfs /data tmpfs rw 0 0\n", "/data"), None);
    }

    #[test]
    fn installed_memory_is_the_sum_of_its_ranges() {
        let map = "00001000-0009fbff : System RAM\n0009fc00-0009ffff : Reserved\n\
                   00100000-0ffdffff : System RAM\n  01000000-01e0 : Kernel code\n";
        assert_eq!(memory_installed_bytes(map), Some(0x9ec00 + 0xfee_0000));
        assert_eq!(memory_installed_bytes("00000000-00000000 : System RAM\n"), None);
        assert_eq!(memory_installed_bytes(""), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "uname(2)")]
    fn what_every_kernel_tells_is_read() {
        let facts = collect();
        assert!(facts.kernel_release.is_some());
        assert!(facts.memory_total_bytes > Some(1 << 20));
        assert!(facts.cpus_online >= Some(1));
        assert!(facts.scheduler_tick_hz >= Some(24));
    }
}
