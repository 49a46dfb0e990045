//! `enter`: cgroups, CPUs, namespaces, mounts and another root for one program, which then takes this process's place.
//!
//! All of it is system calls of this one process, so that a guest's start has no interpreter and no `mount` program in it.
//! `docs/protocol.md` specifies the options.

mod arguments;
mod disk;
mod error;
mod protect;
mod root;
mod sys;

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use virtoll_clock::Readings;

use arguments::{Arguments, Step};
use error::EnterError;

/// The word that names the command.
pub const ENTER: &str = "enter";
/// What a shell exits with when a program cannot be started.
const NOT_STARTED: u8 = 127;

/// Runs the command; it returns if a step fails, or with the program's end where this process stays as its parent.
pub fn run(words: &[String]) -> ExitCode {
    let done = arguments::parse(words).and_then(|arguments| Ok(enter(&arguments)?));
    done.unwrap_or_else(|failure| failure.of(ENTER).report())
}

fn enter(arguments: &Arguments) -> Result<ExitCode, EnterError> {
    if arguments.protect && !arguments.namespaces.has_mount() && protect::mounts_are_the_hosts() {
        return Err(EnterError::HostsMounts);
    }
    let report = arguments.report.map(sys::inherited).transpose();
    let report = report.map_err(EnterError::step("--report"))?;
    for file in &arguments.cgroups {
        join(file).map_err(|cause| EnterError::Cgroup(file.clone(), cause))?;
    }
    if !arguments.cpus.is_empty() {
        crate::sys::pin(&arguments.cpus).map_err(EnterError::step("--cpus"))?;
    }
    if let Some(file) = &arguments.network {
        sys::enter_network(file).map_err(|cause| EnterError::Network(file.clone(), cause))?;
    }
    sys::unshare(arguments.namespaces).map_err(EnterError::step("--unshare"))?;
    for step in &arguments.steps {
        take(step)?;
    }
    if arguments.namespaces.has_pid() || arguments.reap {
        return stay_as_parent(arguments, report);
    }
    become_program(arguments, report)
}

/// Moves this process to the group of a `cgroup.procs` file.
fn join(file: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).open(file)?.write_all(b"0")
}

fn take(step: &Step) -> Result<(), EnterError> {
    match step {
        Step::Bind(source, target) => root::bind(source, target)
            .map_err(|cause| EnterError::Bind(source.clone(), target.clone(), cause)),
        Step::Unmount(target) => {
            root::unmount(target).map_err(|cause| EnterError::Unmount(target.clone(), cause))
        }
        Step::Hide(folder) => {
            root::hide(folder).map_err(|cause| EnterError::Hide(folder.clone(), cause))
        }
        Step::Disk(file, folder) => disk::mount_file(file, folder)
            .map_err(|cause| EnterError::Disk(file.clone(), folder.clone(), cause)),
    }
}

/// A child goes on; this process waits for it, reaps what else becomes its own, and ends as the child did.
fn stay_as_parent(arguments: &Arguments, report: Option<File>) -> Result<ExitCode, EnterError> {
    if arguments.reap {
        crate::sys::adopt_orphans().map_err(EnterError::step("--reap"))?;
    }
    if let Some(child) = sys::fork().map_err(EnterError::step("fork"))? {
        drop(report);
        sys::release_code();
        return sys::end_as(child).map_err(EnterError::step("wait"));
    }
    if arguments.namespaces.has_pid() {
        sys::die_with_parent().map_err(EnterError::step("parent-death signal"))?;
    }
    become_program(arguments, report)
}

/// Changes root if asked, then executes the program; returns only if that fails.
fn become_program(arguments: &Arguments, report: Option<File>) -> Result<ExitCode, EnterError> {
    if let Some(root) = &arguments.root {
        root::mount_system(root)?;
        for (folder, place) in &arguments.shares {
            let target = root.join(place.strip_prefix("/").unwrap_or(place));
            take(&Step::Bind(folder.clone(), target))?;
        }
        if arguments.protect {
            protect::protect(root)?;
        }
        change_root(root).map_err(|cause| EnterError::Root(root.clone(), cause))?;
    }
    if arguments.root.is_none() && arguments.protect {
        protect::protect(Path::new("/"))?;
    }
    if let Some(kept) = arguments.capabilities {
        sys::keep_capabilities(kept).map_err(EnterError::step("--capabilities"))?;
    }
    if let Some(mut report) = report {
        // Nobody may be listening any more; the guest starts all the same.
        let _ = writeln!(report, "{}", Readings::take().monotonic_ns);
    }
    let (program, rest): (&OsString, _) =
        arguments.program.split_first().ok_or(EnterError::NoProgram)?;
    let cause = Command::new(program).args(rest).exec();
    eprintln!("virtoll-agent: {ENTER}: {}: {cause}", program.display());
    Ok(ExitCode::from(NOT_STARTED))
}

fn change_root(root: &Path) -> io::Result<()> {
    std::os::unix::fs::chroot(root)?;
    std::env::set_current_dir("/")
}
