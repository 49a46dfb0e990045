//! `terminal`: a process on a pseudo terminal, for a person who looks into a guest.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Stdio;

use virtoll_clock::monotonic_ns;
use virtoll_proto::{Error, Event, reply, request};

use crate::background::Background;
use crate::channel::Channel;
use crate::exec;
use crate::reap::reap;
use crate::sys::{self, ChildSignals, Ended};

/// How long a process may take to leave after its terminal was hung up.
const HANG_UP_NS: u64 = 1_000_000_000;
/// The most that is read for one event.
const PORTION_BYTES: usize = 16 << 10;

/// The open terminal.
pub struct Terminal {
    master: File,
    pid: u32,
    pending: Vec<u8>,
}

impl Terminal {
    /// Starts the process.
    ///
    /// # Errors
    /// `bad-request` for an empty `argv`, `system` if there is no terminal or the process cannot be started.
    pub fn open(wanted: &request::Terminal) -> Result<Self, Error> {
        let system = |what: &str| {
            let what = format!("terminal: {what}");
            move |cause: io::Error| Error::system(&what, &cause)
        };
        let mut command = exec::command(&wanted.argv)?;
        let (master, slave) = sys::open_terminal().map_err(system("open /dev/ptmx"))?;
        sys::set_size(master.as_fd(), wanted.rows, wanted.columns).map_err(system("set size"))?;
        sys::set_nonblocking(master.as_fd()).map_err(system("fcntl"))?;
        let end = |file: &File| file.try_clone().map(Stdio::from).map_err(system("dup"));
        command.stdin(end(&slave)?).stdout(end(&slave)?).stderr(end(&slave)?);
        sys::on_terminal_of_its_own(&mut command);
        let child = command.spawn().map_err(system(&wanted.argv[0]))?;
        // The number is enough: it is reaped by the session, and nothing else takes children.
        Ok(Self { master, pid: child.id(), pending: Vec::new() })
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The descriptor to wait on.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }

    /// Whether input waits to be written.
    pub fn has_input(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Queues input.
    ///
    /// # Errors
    /// The write's.
    pub fn input(&mut self, data: &[u8]) -> Result<reply::Empty, Error> {
        self.pending.extend_from_slice(data);
        self.write_pending().map_err(|cause| Error::system("terminal-input", &cause))?;
        Ok(reply::Empty {})
    }

    /// Sets the size.
    ///
    /// # Errors
    /// The call's.
    pub fn resize(&mut self, rows: u16, columns: u16) -> Result<reply::Empty, Error> {
        sys::set_size(self.master.as_fd(), rows, columns)
            .map_err(|cause| Error::system("terminal-resize", &cause))?;
        Ok(reply::Empty {})
    }

    /// Writes what waits and sends one portion of output; the rest comes with the next call.
    ///
    /// # Errors
    /// The channel's.
    pub fn transfer(&mut self, channel: &mut Channel) -> io::Result<()> {
        // A terminal whose process is gone refuses input; its end is reported when it is reaped.
        let _ = self.write_pending();
        self.send_portion(channel).map(drop)
    }

    /// Sends the remaining output and the end.
    ///
    /// # Errors
    /// The channel's.
    pub fn finish(&mut self, channel: &mut Channel, ended: Ended) -> io::Result<()> {
        while self.send_portion(channel)? {}
        channel.event(&Event::TerminalExit { status: ended.status, signal: ended.signal })
    }

    /// Hangs up, kills what does not leave, and reports the end. `background` notes those of its children that ended
    /// meanwhile.
    ///
    /// # Errors
    /// The channel's or the wait's.
    pub fn close(
        &mut self,
        channel: &mut Channel,
        signals: &ChildSignals,
        background: &mut Background,
    ) -> io::Result<()> {
        sys::kill_group(self.pid, sys::Signal::HUP);
        let mut deadline_ns = monotonic_ns() + HANG_UP_NS;
        loop {
            let mut own = None;
            for (pid, ended) in reap(signals)? {
                background.note(pid, ended);
                own = own.or((pid == self.pid).then_some(ended));
            }
            if let Some(ended) = own {
                return self.finish(channel, ended);
            }
            let left_ns = deadline_ns.saturating_sub(monotonic_ns());
            if left_ns == 0 {
                sys::kill_group(self.pid, sys::Signal::KILL);
                deadline_ns = u64::MAX;
                continue;
            }
            let wanted = [(signals.as_fd(), false)];
            sys::wait(&wanted, Some(left_ns.min(HANG_UP_NS)))?;
        }
    }

    /// Sends one portion; false if there was none.
    fn send_portion(&mut self, channel: &mut Channel) -> io::Result<bool> {
        let mut portion = [0; PORTION_BYTES];
        match self.master.read(&mut portion) {
            Ok(0) | Err(_) => Ok(false),
            Ok(count) => {
                channel.event(&Event::Terminal { data: portion[..count].to_vec() })?;
                Ok(true)
            }
        }
    }

    fn write_pending(&mut self) -> io::Result<()> {
        while !self.pending.is_empty() {
            match self.master.write(&self.pending) {
                Ok(count) => drop(self.pending.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.pending.clear();
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
