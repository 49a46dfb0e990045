//! `facts`: what is measured inside the guest, for the equivalence report. What cannot be read is null.

mod files;
mod groups;
mod interfaces;
mod machine;
mod reach;
mod sys;

pub use sys::{driver, ethtool_word, ethtool_words, set_ethtool_word};

use std::collections::BTreeMap;

use virtoll_proto::reply::facts::Facts;

/// Everything that is known.
pub fn collect() -> Facts {
    Facts {
        machine: machine::collect(),
        groups: groups::collect(),
        files: files::collect(),
        interfaces: interfaces::collect(),
        sysctls: sysctls(),
        reach: Some(reach::collect()),
    }
}

/// Kernel settings that the packet path, memory and time depend on.
const SYSCTLS: [&str; 14] = [
    "kernel.sched_autogroup_enabled",
    "kernel.numa_balancing",
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.ip_forward",
    "net.ipv4.tcp_congestion_control",
    "vm.nr_hugepages",
    "vm.overcommit_memory",
    "vm.swappiness",
];

fn sysctls() -> BTreeMap<String, Option<String>> {
    let read = |name: &&str| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        ((*name).to_owned(), read_trimmed(&path))
    };
    SYSCTLS.iter().map(read).collect()
}

/// A small file without the white space around it; none if it cannot be read.
fn read_trimmed(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}
