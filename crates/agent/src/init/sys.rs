//! System calls of a machine's first process: mounts, modules, the machine's end.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::c_int;

use crate::sys::{checked, text};

/// Mounts a file system of the kernel's own.
///
/// # Errors
/// The call's.
pub fn mount(kind: &str, place: &str, options: &str) -> io::Result<()> {
    mount_with(kind, kind, place, 0, options)
}

/// Mounts a disk, for reading only where it cannot be written.
///
/// # Errors
/// The call's.
pub fn mount_disk(device: &str, kind: &str, place: &str) -> io::Result<()> {
    let read_only = [libc::EROFS, libc::EACCES];
    match mount_with(device, kind, place, 0, "") {
        Err(error) if error.raw_os_error().is_some_and(|code| read_only.contains(&code)) => {
            mount_with(device, kind, place, libc::MS_RDONLY, "")
        }
        other => other,
    }
}

/// Moves what is mounted at one place to another.
///
/// # Errors
/// The call's.
pub fn move_mount(from: &str, to: &str) -> io::Result<()> {
    mount_with(from, "", to, libc::MS_MOVE, "")
}

fn mount_with(source: &str, kind: &str, place: &str, flags: u64, options: &str) -> io::Result<()> {
    let (source, kind, place, options) = (
        text(source.as_bytes())?,
        text(kind.as_bytes())?,
        text(place.as_bytes())?,
        text(options.as_bytes())?,
    );
    // SAFETY: all strings are valid and end in zero.
    checked(unsafe {
        libc::mount(source.as_ptr(), place.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast())
    })
    .map(drop)
}

/// Takes away what is mounted at a place; where nothing is, that is no error.
///
/// # Errors
/// The call's.
pub fn unmount(place: &str) -> io::Result<()> {
    let place = text(place.as_bytes())?;
    // SAFETY: the string is valid and ends in zero.
    match checked(unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) }) {
        Err(error) if error.raw_os_error() != Some(libc::EINVAL) => Err(error),
        _ => Ok(()),
    }
}

/// Loads a kernel module with its parameters (`name=value ...`); one that is loaded is no error.
///
/// # Errors
/// The call's.
pub fn load_module(path: &Path, parameters: &str) -> io::Result<()> {
    let (file, parameters) = (File::open(path)?, text(parameters.as_bytes())?);
    let compressed = path.extension().is_none_or(|extension| extension.as_bytes() != b"ko");
    let flags: c_int = if compressed { 4 } else { 0 };
    // SAFETY: the descriptor is open and the parameters are a string that ends in zero.
    let result = unsafe {
        libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), parameters.as_ptr(), flags)
    };
    match checked(result as c_int) {
        Err(error) if error.raw_os_error() != Some(libc::EEXIST) => Err(error),
        _ => Ok(()),
    }
}

/// Writes everything back and switches the machine off; returns only if the kernel refuses.
pub fn power_off() -> io::Error {
    end_by(libc::RB_POWER_OFF)
}

/// Writes everything back and resets the machine; returns only if the kernel refuses.
pub fn reset() -> io::Error {
    end_by(libc::RB_AUTOBOOT)
}

fn end_by(how: c_int) -> io::Error {
    // SAFETY: plain system calls.
    unsafe {
        libc::sync();
        libc::reboot(how);
    }
    io::Error::last_os_error()
}
