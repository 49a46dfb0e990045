//! Why a program is not entered: the step that failed, and the kernel's reason.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::command_line::Failure;

/// Why [`enter`](super::run) does not come to its program.
#[derive(Debug)]
pub enum EnterError {
    /// Protection would change mounts that are not the program's own.
    HostsMounts,
    /// No program is named.
    NoProgram,
    /// An option, or a step that no option names, failed.
    Step(&'static str, io::Error),
    /// A cgroup's file does not take the program.
    Cgroup(PathBuf, io::Error),
    /// A network namespace cannot be entered.
    Network(PathBuf, io::Error),
    /// A file or folder cannot be shown at another place.
    Bind(PathBuf, PathBuf, io::Error),
    /// A place cannot be unmounted.
    Unmount(PathBuf, io::Error),
    /// A folder cannot be hidden.
    Hide(PathBuf, io::Error),
    /// A disk's file cannot be mounted on a folder.
    Disk(PathBuf, PathBuf, io::Error),
    /// One of the root's own mounts failed.
    Mount(PathBuf, io::Error),
    /// A place cannot be protected.
    Protect(PathBuf, io::Error),
    /// The root cannot be changed.
    Root(PathBuf, io::Error),
}

impl EnterError {
    /// What makes an error of the reason why a step failed.
    pub fn step(name: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Step(name, cause)
    }

    /// The same of a mount on a target.
    pub fn mount(target: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Mount(target.to_owned(), cause)
    }
}

impl fmt::Display for EnterError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostsMounts => {
                to.write_str("--protect would change the host's own mounts: add --unshare mount")
            }
            Self::NoProgram => to.write_str("no program is named"),
            Self::Step(name, cause) => write!(to, "{name}: {cause}"),
            Self::Cgroup(file, cause) => {
                write!(to, "cgroup file {} does not take the guest: {cause}", file.display())
            }
            Self::Network(file, cause) => write!(to, "--net {}: {cause}", file.display()),
            Self::Bind(source, target, cause) => {
                let (source, target) = (source.display(), target.display());
                write!(to, "{source} could not be shown at {target}: {cause}")
            }
            Self::Unmount(target, cause) => {
                write!(to, "{} could not be unmounted: {cause}", target.display())
            }
            Self::Hide(folder, cause) => {
                write!(to, "{} could not be hidden: {cause}", folder.display())
            }
            Self::Disk(file, folder, cause) => {
                let (file, folder) = (file.display(), folder.display());
                write!(to, "{file} could not be mounted at {folder}: {cause}")
            }
            Self::Mount(target, cause) => write!(to, "mount on {}: {cause}", target.display()),
            Self::Protect(place, cause) => {
                write!(to, "{} could not be protected: {cause}", place.display())
            }
            Self::Root(root, cause) => write!(to, "change root to {}: {cause}", root.display()),
        }
    }
}

impl From<EnterError> for Failure {
    fn from(error: EnterError) -> Self {
        Self::Work(error.to_string())
    }
}
