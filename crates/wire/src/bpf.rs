//! Loads the XDP programs that the build compiled, with the few maps that they use.
//!
//! [`Object`] is what `build.rs` wrote; [`Loaded`] holds one program in the kernel together with its data, which is a
//! map of one value that both sides see: [`Shared`]. Nothing of libbpf or BTF is needed.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use bytemuck::Pod;

pub(crate) use sys::{Shared, attach_xdp, devices, run_live, run_once};

mod attributes;
mod sys;

/// How a program is attached to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachMode {
    /// By the driver.
    Native,
    /// By the stack, for drivers that cannot.
    Generic,
}

/// The programs of one source file.
#[derive(Debug)]
pub(crate) struct Object {
    /// Size of the zeroed data that they share.
    pub(crate) data_bytes: u64,
    /// The programs.
    pub(crate) programs: &'static [Program],
}

/// One program.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) instructions: &'static [u64],
    pub(crate) relocations: &'static [(usize, Target)],
}

/// What an instruction refers to.
#[derive(Debug)]
pub(crate) enum Target {
    Map(&'static str),
    Data(u32),
}

/// Machine code, written by the build.
#[allow(clippy::unreadable_literal)]
mod programs {
    use super::{Object, Program, Target};

    include!(concat!(env!("OUT_DIR"), "/programs.rs"));
}

pub(crate) use programs::{GENERATOR, SINK};

/// A source register's value in a 64-bit load: the immediate is a map's descriptor.
const PSEUDO_MAP: u64 = 1;
/// The same: the address of a map's first value, plus the next immediate.
const PSEUDO_MAP_VALUE: u64 = 2;

/// The kernel's refusal, in one sentence with the verifier's last line where it has one.
pub(crate) fn refused(what: &str, cause: &io::Error, log: &str) -> io::Error {
    let last =
        log.lines().rev().find(|line| !line.trim().is_empty() && !line.starts_with("processed"));
    let last = last.map_or(String::new(), |line| format!(" ({line})"));
    let hint = match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) if log.is_empty() => {
            "; XDP programs need root in the first user namespace"
        }
        _ => "",
    };
    io::Error::new(cause.kind(), format!("{what}: {cause}{last}{hint}"))
}

impl Object {
    /// Makes the data that this object's programs share.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn data<T: Pod>(&self) -> io::Result<Shared<T>> {
        assert_eq!(size_of::<T>() as u64, self.data_bytes, "the programs' data has another layout");
        Shared::create(1)
    }

    /// Loads one program; `maps` gives the descriptor of each map that it names.
    ///
    /// # Errors
    /// The kernel's refusal, with the verifier's last line.
    pub(crate) fn load(
        &self,
        name: &str,
        data: BorrowedFd<'_>,
        maps: &[(&str, BorrowedFd<'_>)],
    ) -> io::Result<OwnedFd> {
        let program = self.programs.iter().find(|program| program.name == name);
        let program = program.ok_or_else(|| io::Error::other(format!("no XDP program {name}")))?;
        let mut instructions = program.instructions.to_vec();
        for (at, target) in program.relocations {
            let (kind, descriptor, offset) = match target {
                Target::Data(offset) => (PSEUDO_MAP_VALUE, data, *offset),
                Target::Map(wanted) => {
                    let map = maps.iter().find(|(name, _)| name == wanted);
                    let map = map.ok_or_else(|| io::Error::other(format!("no map {wanted}")))?;
                    (PSEUDO_MAP, map.1, 0)
                }
            };
            // Layout: code 8 bits, destination 4, source 4, offset 16, immediate 32.
            let kept = instructions[*at] & 0x0fff;
            instructions[*at] = kept | kind << 12 | (descriptor.as_raw_fd() as u64) << 32;
            instructions[*at + 1] = u64::from(offset) << 32;
        }
        sys::load_program(name, &instructions)
    }
}

/// Descriptors by name, borrowed.
pub(crate) fn named<'a>(name: &'static str, map: &'a impl AsFd) -> (&'static str, BorrowedFd<'a>) {
    (name, map.as_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `BPF_STX | BPF_ATOMIC | BPF_W`, and `BPF_ADD | BPF_FETCH`: without the fetch it orders nothing on Arm.
    const ATOMIC: u64 = 0xc3;
    const ADD_AND_FETCH: u64 = 0x01;

    #[test]
    fn generators_see_their_configuration_once_the_start_has_come() {
        let sending = GENERATOR.programs.iter().filter(|program| program.name != "plain");
        for program in sending {
            let barriers = program
                .instructions
                .iter()
                .filter(|word| *word & 0xff == ATOMIC && *word >> 32 == ADD_AND_FETCH);
            // One way for a source alone, and one for several; bursts have one for all.
            let ways = if program.name.starts_with("burst_") { 1 } else { 2 };
            assert_eq!(barriers.count(), ways, "{}", program.name);
        }
    }
}
