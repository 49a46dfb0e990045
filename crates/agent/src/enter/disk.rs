//! The file system in a file, mounted for reading by a loop device that is free again when the mount is gone.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};

use super::sys;

/// What an image with tools is made as: `virtoll.image.forms`.
const KIND: &str = "erofs";
/// Another process may take the device that was found free.
const TRIES: usize = 16;

/// Mounts the file's file system at a folder of this mount namespace, for reading only.
///
/// # Errors
/// The calls': such as that the host has no loop devices, or its kernel does not know the file system.
pub fn mount_file(file: &Path, folder: &Path) -> io::Result<()> {
    let content = File::open(file)?;
    // The mount holds the device from here on.
    let (path, _device) = attach(&content)?;
    Ok(mount(&path, folder, KIND, MountFlags::RDONLY, c"")?)
}

/// A loop device that shows the file, and gives it up with its last user.
fn attach(content: &File) -> io::Result<(PathBuf, File)> {
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    let mut last = io::ErrorKind::ResourceBusy.into();
    for _ in 0..TRIES {
        let path = PathBuf::from(format!("/dev/loop{}", sys::free_loop_device(&control)?));
        let device = File::open(&path)?;
        match sys::show_in_loop_device(&device, content) {
            Ok(()) => return Ok((path, device)),
            Err(cause) if cause.kind() == io::ErrorKind::ResourceBusy => last = cause,
            Err(cause) => return Err(cause),
        }
    }
    Err(last)
}
