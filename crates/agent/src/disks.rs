//! The machine's disks as /sys shows them.

/// The file in which a whole disk's I/O scheduler is chosen, and which lists those that there are.
pub fn scheduler_file(disk: &str) -> String {
    format!("/sys/block/{disk}/queue/scheduler")
}
