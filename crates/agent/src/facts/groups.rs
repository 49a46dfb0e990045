//! Facts about the limits of control groups, as far as they can be seen from inside.

use std::fs;

use virtoll_proto::reply::facts::{CpuQuota, Groups};

use super::read_trimmed;

/// The smallest limits of this process's groups and of those above them.
pub fn collect() -> Groups {
    Groups { memory_limit_bytes: memory_limit_bytes(), cpu_quota: cpu_quota() }
}

/// What `file` holds in this process's group of a controller and in all groups above it. `controller` is empty for the
/// unified hierarchy; inside a container the path that the kernel reports may lie above the mount: then only the
/// mounted root is found.
fn upwards(root: &str, controller: &str, file: &str) -> Vec<(String, String)> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(group) = groups.lines().find_map(|line| group_of(line, controller)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut path = group.trim_end_matches('/').to_owned();
    loop {
        let folder = format!("{root}{path}");
        if let Some(text) = read_trimmed(&format!("{folder}/{file}")) {
            found.push((folder, text));
        }
        match path.rfind('/') {
            Some(end) => path.truncate(end),
            None => return found,
        }
    }
}

/// The path in a line of /proc/self/cgroup, if it is the controller's.
fn group_of(line: &str, controller: &str) -> Option<String> {
    let mut fields = line.splitn(3, ':');
    let (number, names, path) = (fields.next()?, fields.next()?, fields.next()?);
    let unified = controller.is_empty() && number == "0" && names.is_empty();
    let legacy = !controller.is_empty() && names.split(',').any(|name| name == controller);
    (unified || legacy).then(|| path.to_owned())
}

fn memory_limit_bytes() -> Option<u64> {
    let mut all = upwards("/sys/fs/cgroup", "", "memory.max");
    all.extend(upwards("/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes"));
    // The older interface writes "no limit" as the largest number of whole pages.
    all.iter().filter_map(|(_, text)| text.parse().ok()).filter(|limit| *limit < 1 << 62).min()
}

/// The tightest CPU quota: microseconds of CPU time in each period.
fn cpu_quota() -> Option<CpuQuota> {
    let unified = upwards("/sys/fs/cgroup", "", "cpu.max");
    let mut all: Vec<(u64, u64)> = unified.iter().filter_map(|(_, text)| pair(text)).collect();
    for root in ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"] {
        for (folder, quota) in upwards(root, "cpu", "cpu.cfs_quota_us") {
            let period = read_trimmed(&format!("{folder}/cpu.cfs_period_us")).unwrap_or_default();
            all.extend(pair(&format!("{quota} {period}")));
        }
    }
    let tightest = all.into_iter().min_by(|one, other| {
        (u128::from(one.0) * u128::from(other.1)).cmp(&(u128::from(other.0) * u128::from(one.1)))
    });
    tightest.map(|(quota_us, period_us)| CpuQuota { quota_us, period_us })
}

/// `quota period`; none for "max" and "-1", which are no quota.
fn pair(text: &str) -> Option<(u64, u64)> {
    let (quota, period) = text.split_once(' ')?;
    Some((quota.parse().ok()?, period.parse().ok().filter(|period| *period > 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_text::any_text;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any_text(&["0::/", "1:cpu,cpuacct:/a", "max", "cpu", ":", "/"])) {
            let _ = (group_of(&text, "cpu"), pair(&text));
        }
    }

    #[test]
    fn a_group_is_found_by_its_controller() {
        assert_eq!(group_of("0::/a/b", ""), Some("/a/b".to_owned()));
        assert_eq!(group_of("4:cpu,cpuacct:/x", "cpu"), Some("/x".to_owned()));
        assert_eq!(group_of("4:cpuset:/x", "cpu"), None);
        assert_eq!(group_of("1:name=systemd:/x", ""), None);
    }

    #[test]
    fn what_is_no_quota_is_none() {
        assert_eq!(pair("20000 100000"), Some((20_000, 100_000)));
        assert_eq!(pair("max 100000"), None);
        assert_eq!(pair("-1 100000"), None);
        assert_eq!(pair("20000 0"), None);
    }
}
