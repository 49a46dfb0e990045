//! Facts about kernel, processors, memory and the agent itself.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Map, Value, json};

use super::{read_trimmed, sys};

/// Adds the facts.
pub fn collect(facts: &mut Map<String, Value>) {
    let mut put = |name: &str, value: Value| {
        facts.insert(name.to_owned(), value);
    };
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags: BTreeSet<&str> =
        cpu_field(&processors, &["flags", "Features"]).unwrap_or("").split_whitespace().collect();
    put("kernel_release", json!(read_trimmed("/proc/sys/kernel/osrelease")));
    put("kernel_version", json!(read_trimmed("/proc/sys/kernel/version")));
    put("machine", json!(sys::machine()));
    put(
        "cpus_online",
        json!(
            cpu_list(read_trimmed("/sys/devices/system/cpu/online").as_deref())
                .or_else(sys::online_processors)
        ),
    );
    put("cpus_allowed", json!(cpu_list(status_field("Cpus_allowed_list").as_deref())));
    put("cpu_model", json!(cpu_field(&processors, &["model name", "Model"])));
    put("cpu_flags", json!(flags));
    put("memory_total_bytes", json!(memory_total_bytes()));
    put(
        "memory_installed_bytes",
        json!(memory_installed_bytes(&fs::read_to_string("/proc/iomem").unwrap_or_default())),
    );
    put("page_size_bytes", json!(sys::page_size()));
    put(
        "clock_source",
        json!(read_trimmed("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
    );
    put("clock_tick_hz", json!(sys::clock_tick()));
    put("scheduler_tick_hz", json!(sys::scheduler_tick()));
    put("scheduler_tickless", json!(tickless()));
    put("boot_id", json!(read_trimmed("/proc/sys/kernel/random/boot_id")));
    put("root_filesystem", json!(root_filesystem()));
    put("hypervisor", json!(hypervisor(&flags)));
    put("cmdline", json!(read_trimmed("/proc/cmdline")));
    put("pid", json!(std::process::id()));
    put("uid", json!(sys::user_id()));
    put("capabilities_hex", json!(status_field("CapEff")));
}

fn cpu_field<'a>(processors: &'a str, names: &[&str]) -> Option<&'a str> {
    processors.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        names.contains(&name.trim()).then(|| value.trim())
    })
}

fn status_field(name: &str) -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| {
        let (field, value) = line.split_once(':')?;
        (field == name).then(|| value.trim().to_owned())
    })
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

    #[test]
    fn processor_lists_are_counted() {
        assert_eq!(cpu_list(Some("0-3,8")), Some(5));
        assert_eq!(cpu_list(Some("0")), Some(1));
        assert_eq!(cpu_list(Some("")), None);
        assert_eq!(cpu_list(None), None);
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
    fn every_fact_of_the_protocol_is_there() {
        let mut facts = Map::new();
        collect(&mut facts);
        assert!(facts["kernel_release"].is_string());
        assert!(facts["memory_total_bytes"].as_u64() > Some(1 << 20));
        assert!(facts["cpus_online"].as_u64() >= Some(1));
        assert!(facts["scheduler_tick_hz"].as_u64() >= Some(24));
        assert_eq!(facts.len(), 21);
    }
}
