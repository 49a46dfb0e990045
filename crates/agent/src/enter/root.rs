//! The mounts of a program in another root: /proc, /sys, a small /dev, /run and /tmp.
//!
//! They are made in a mount namespace of the program's own. The root folder itself is never written to: the image is
//! shared by all guests.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{
    MountFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_remount,
};

use super::error::EnterError;
use crate::sys::text;

const CGROUPS: &str = "/sys/fs/cgroup";
/// Hierarchies of cgroup v1 that hold limits, and that of v2 beside them.
const LIMITING: [&str; 3] = ["memory", "cpu", "unified"];
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Flags that an ordinary user's namespace may not take away from the file system below.
const LOCKED: [(StatVfsMountFlags, MountFlags); 3] = [
    (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
    (StatVfsMountFlags::NODEV, MountFlags::NODEV),
    (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
];

/// Mounts the kernel's file systems below `root`, a folder with the mount points proc, sys, dev, run and tmp.
///
/// The root is mounted on itself for reading only: a program in it may be root and want to write.
///
/// # Errors
/// The target and the kernel's reason.
pub fn mount_system(root: &Path) -> Result<(), EnterError> {
    bind(root, root).map_err(EnterError::mount(root))?;
    make_read_only(root).map_err(EnterError::mount(root))?;
    new_mount("proc", &root.join("proc"), "")?;
    let sys = root.join("sys");
    if new_mount("sysfs", &sys, "").is_err() {
        // A kernel or container that refuses a fresh /sys.
        mount_bind_recursive("/sys", &sys)
            .map_err(|cause| EnterError::mount(&sys)(cause.into()))?;
    }
    show_cgroups(Path::new(CGROUPS), &sys.join("fs/cgroup"));
    for name in ["dev", "run", "tmp"] {
        new_mount("tmpfs", &root.join(name), "mode=0755")?;
    }
    make_devices(&root.join("dev"))
}

fn make_devices(folder: &Path) -> Result<(), EnterError> {
    for name in DEVICES {
        let target = folder.join(name);
        File::create(&target)
            .and_then(|_| bind(&Path::new("/dev").join(name), &target))
            .map_err(EnterError::mount(&target))?;
    }
    let terminals = folder.join("pts");
    fs::create_dir(&terminals).map_err(EnterError::mount(&terminals))?;
    if new_mount("devpts", &terminals, "newinstance,ptmxmode=0666,mode=0620").is_ok() {
        // Without it a guest has no terminal, and all else works.
        let _ = symlink("pts/ptmx", folder.join("ptmx"));
    }
    Ok(())
}

/// Shows the hierarchies that hold limits, read-only: a guest is to see its own. A fresh /sys hides them.
///
/// A hierarchy that cannot be shown is left out.
fn show_cgroups(own: &Path, target: &Path) {
    let is_empty = fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_none());
    if !is_empty {
        return;
    }
    let show = |source: &Path, target: &Path| {
        if bind(source, target).is_ok() {
            let _ = make_read_only(target);
        }
    };
    if own.join("cgroup.controllers").is_file() {
        show(own, target);
        return;
    }
    let present = LIMITING.iter().filter(|name| own.join(name).is_dir()).collect::<Vec<_>>();
    if !present.is_empty() && new_mount("tmpfs", target, "mode=0755,size=64k").is_ok() {
        for name in present {
            if fs::create_dir(target.join(name)).is_ok() {
                show(&own.join(name), &target.join(name));
            }
        }
    }
}

/// Makes a bind mount read-only. Its access-time flags stay: a remount that names none keeps them.
///
/// # Errors
/// The call's.
pub fn make_read_only(target: &Path) -> io::Result<()> {
    let present = statvfs(target)?.f_flag;
    let kept = LOCKED.iter().filter(|(flag, _)| present.contains(*flag));
    let flags = kept.fold(MountFlags::BIND | MountFlags::RDONLY, |flags, (_, kept)| flags | *kept);
    Ok(mount_remount(target, flags, c"")?)
}

/// Shows a file or folder at another place.
///
/// # Errors
/// The call's.
pub fn bind(source: &Path, target: &Path) -> io::Result<()> {
    Ok(mount_bind(source, target)?)
}

/// Takes away what is mounted at a place, with all below it; programs that use it keep it.
///
/// # Errors
/// The call's.
pub fn unmount(target: &Path) -> io::Result<()> {
    Ok(rustix::mount::unmount(target, UnmountFlags::DETACH)?)
}

/// Mounts an empty file system over a folder.
///
/// # Errors
/// The call's.
pub fn hide(folder: &Path) -> io::Result<()> {
    Ok(mount("tmpfs", folder, "tmpfs", MountFlags::empty(), c"size=64k")?)
}

fn new_mount(kind: &str, target: &Path, options: &str) -> Result<(), EnterError> {
    text(options.as_bytes())
        .and_then(|options| Ok(mount(kind, target, kind, MountFlags::empty(), options.as_c_str())?))
        .map_err(EnterError::mount(target))
}
