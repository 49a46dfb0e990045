//! What `facts` returns. A fact that cannot be read is null.
#![allow(missing_docs)] // the fields are those of docs/protocol.md

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// `facts`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Facts {
    #[serde(flatten)]
    pub machine: Machine,
    #[serde(flatten)]
    pub groups: Groups,
    #[serde(flatten)]
    pub files: Files,
    /// In the order of their numbers.
    pub interfaces: Option<Vec<Interface>>,
    /// Settings of the kernel by name.
    pub sysctls: BTreeMap<String, Option<String>>,
    /// What confines the agent's process.
    pub reach: Option<Reach>,
}

/// Kernel, processors, memory and the agent itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Machine {
    pub kernel_release: Option<String>,
    pub kernel_version: Option<String>,
    pub machine: Option<String>,
    pub cpus_online: Option<u64>,
    pub cpus_allowed: Option<u64>,
    pub cpu_model: Option<String>,
    pub cpu_flags: BTreeSet<String>,
    pub memory_total_bytes: Option<u64>,
    pub memory_installed_bytes: Option<u64>,
    pub page_size_bytes: Option<u64>,
    pub clock_source: Option<String>,
    /// Those that the kernel could take instead, as it lists them.
    pub clock_sources: Option<String>,
    /// The I/O schedulers of the disk with the data directory, as the kernel lists them: `[none] mq-deadline`.
    pub data_schedulers: Option<String>,
    pub clock_tick_hz: Option<u64>,
    pub scheduler_tick_hz: Option<u64>,
    pub scheduler_tickless: Option<String>,
    pub boot_id: Option<String>,
    pub root_filesystem: Option<String>,
    pub hypervisor: Option<String>,
    pub cmdline: Option<String>,
    pub pid: u32,
    pub uid: u32,
    pub capabilities_hex: Option<String>,
}

/// Limits of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Groups {
    pub memory_limit_bytes: Option<u64>,
    pub cpu_quota: Option<CpuQuota>,
}

/// CPU time in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct CpuQuota {
    pub quota_us: u64,
    pub period_us: u64,
}

/// The agent's program and the root file system.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Files {
    pub agent_bytes: Option<usize>,
    pub agent_sha256: Option<String>,
    pub files_count: Option<usize>,
    pub files_sha256: Option<String>,
    pub modules_sha256: Option<String>,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Interface {
    pub name: String,
    pub mac: Option<String>,
    pub mtu: u32,
    pub driver: Option<String>,
    pub speed_mbit: Option<u64>,
    /// By ethtool's name; those that the driver does not report are absent.
    pub offloads: BTreeMap<String, bool>,
}

/// What confines the agent's process, and what a process with its rights may do.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Reach {
    /// The user namespace's map of user numbers: `0 0 4294967295` is the first namespace's.
    pub user_map: Option<String>,
    /// 0 none, 1 strict, 2 by filters.
    pub seccomp_mode: Option<u64>,
    pub seccomp_filters: Option<u64>,
    pub no_new_privileges: Option<bool>,
    pub capabilities_bounding_hex: Option<String>,
    /// Of `AppArmor`, `SELinux` or another module.
    pub security_label: Option<String>,
    /// Place and kind of each mount that may be written to.
    pub writable_mounts: Option<Vec<String>>,
    /// As the kernel names it (`net:[4026532008]`): the same name outside means the same kernel.
    pub network_namespace: Option<String>,
    /// Sockets with a path that is seen inside.
    pub sockets: Vec<String>,
    /// How many abstract names its network namespace has.
    pub abstract_sockets: Option<u64>,
    /// `allowed`, or the name of the error with which the kernel refused.
    pub attempts: BTreeMap<String, String>,
}
