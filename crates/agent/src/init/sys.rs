//! System calls of a machine's first process: mounts, modules, the machine's end.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount_move};
use rustix::system::{RebootCommand, finit_module, reboot};

use crate::sys::text;

/// Mounts a file system of the kernel's own.
///
/// # Errors
/// The call's.
pub fn mount(kind: &str, place: &str, options: &str) -> io::Result<()> {
    mount_with(kind, kind, place, MountFlags::empty(), options)
}

/// Mounts a disk, for reading only where it cannot be written.
///
/// # Errors
/// The call's.
pub fn mount_disk(device: &str, kind: &str, place: &str) -> io::Result<()> {
    let read_only = [libc::EROFS, libc::EACCES];
    match mount_with(device, kind, place, MountFlags::empty(), "") {
        Err(error) if error.raw_os_error().is_some_and(|code| read_only.contains(&code)) => {
            mount_with(device, kind, place, MountFlags::RDONLY, "")
        }
        other => other,
    }
}

/// Moves what is mounted at one place to another.
///
/// # Errors
/// The call's.
pub fn move_mount(from: &str, to: &str) -> io::Result<()> {
    Ok(mount_move(from, to)?)
}

fn mount_with(
    source: &str,
    kind: &str,
    place: &str,
    flags: MountFlags,
    options: &str,
) -> io::Result<()> {
    let options = text(options.as_bytes())?;
    Ok(rustix::mount::mount(source, place, kind, flags, options.as_c_str())?)
}

/// Takes away what is mounted at a place; where nothing is, that is no error.
///
/// # Errors
/// The call's.
pub fn unmount(place: &str) -> io::Result<()> {
    match rustix::mount::unmount(place, UnmountFlags::DETACH) {
        Err(Errno::INVAL) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Loads a kernel module with its parameters (`name=value ...`); one that is loaded is no error.
///
/// # Errors
/// The call's.
pub fn load_module(path: &Path, parameters: &str) -> io::Result<()> {
    let (file, parameters) = (File::open(path)?, text(parameters.as_bytes())?);
    let compressed = path.extension().is_none_or(|extension| extension.as_bytes() != b"ko");
    let flags = if compressed { 4 } else { 0 };
    match finit_module(&file, &parameters, flags) {
        Err(Errno::EXIST) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Writes everything back and switches the machine off; returns only if the kernel refuses.
pub fn power_off() -> io::Error {
    end_by(RebootCommand::PowerOff)
}

/// Writes everything back and resets the machine; returns only if the kernel refuses.
pub fn reset() -> io::Error {
    end_by(RebootCommand::Restart)
}

fn end_by(how: RebootCommand) -> io::Error {
    rustix::fs::sync();
    reboot(how).map_or_else(Into::into, |()| io::ErrorKind::Other.into())
}
