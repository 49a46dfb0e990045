//! `exec`: a process with its whole output, byte for byte, within a time and a size.
//!
//! The answer comes when the process itself has ended: what it wrote is complete then; what a process that it left in
//! the background writes later is not waited for.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStdin, Command, Stdio};

use sha2::{Digest, Sha256};
use virtoll_clock::monotonic_ns;
use virtoll_proto::request::Exec;
use virtoll_proto::{Error, reply};

use crate::sys::{self, ChildSignals, Ended};

/// The default search path for programs.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The most that is read at once.
const PORTION_BYTES: usize = 16 << 10;

/// Carries the request out.
///
/// # Errors
/// `bad-request` for an empty `argv`, `system` if the process cannot be started or waited for.
pub fn run(request: &Exec, signals: &ChildSignals) -> Result<reply::Exec, Error> {
    Ok(follow(request, signals)?.answer())
}

/// A process that has ended, and what it wrote.
pub struct Finished {
    running: Running,
    ended: Ended,
}

impl Finished {
    /// The reply.
    pub fn answer(self) -> reply::Exec {
        self.running.answer(self.ended)
    }

    /// SHA-256 (hex) of what is kept of its standard output.
    pub fn output_sha256(&self) -> String {
        format!("{:x}", Sha256::digest(&self.running.stdout.bytes))
    }
}

/// Runs a process to its end.
///
/// # Errors
/// As `run`.
pub fn follow(request: &Exec, signals: &ChildSignals) -> Result<Finished, Error> {
    let mut command = command(&request.argv)?;
    if let Some(environment) = &request.env {
        command.env_clear().envs(environment);
    }
    if let Some(directory) = &request.directory {
        command.current_dir(directory);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    sys::in_group_of_its_own(&mut command);
    let name = &request.argv[0];
    let child = command.spawn().map_err(|cause| Error::system(format!("exec {name}"), &cause))?;
    let mut running = Running::new(child, request)
        .map_err(|cause| Error::system(format!("exec {name}"), &cause))?;
    let ended = running
        .follow(signals)
        .inspect_err(|_| running.kill())
        .map_err(|cause| Error::system(format!("exec {name}: wait"), &cause))?;
    Ok(Finished { running, ended })
}

/// A command with the default search path where the environment has none.
///
/// # Errors
/// `bad-request` for an empty `argv`.
pub fn command(argv: &[String]) -> Result<Command, Error> {
    let Some((program, arguments)) = argv.split_first().filter(|(program, _)| !program.is_empty())
    else {
        return Err(Error::bad_request("argv must name a program"));
    };
    if argv.iter().any(|argument| argument.contains('\0')) {
        return Err(Error::bad_request("argv must not hold a zero byte"));
    }
    let mut command = Command::new(program);
    command.args(arguments);
    if std::env::var_os("PATH").is_none() {
        command.env("PATH", DEFAULT_PATH);
    }
    Ok(command)
}

/// One of the two output streams.
struct Output<R> {
    stream: Option<R>,
    bytes: Vec<u8>,
    limit_bytes: usize,
    truncated: bool,
}

impl<R: Read + AsFd> Output<R> {
    fn new(stream: Option<R>, limit_bytes: u64) -> io::Result<Self> {
        if let Some(stream) = &stream {
            sys::set_nonblocking(stream.as_fd())?;
        }
        let limit_bytes = usize::try_from(limit_bytes).unwrap_or(usize::MAX);
        Ok(Self { stream, bytes: Vec::new(), limit_bytes, truncated: false })
    }

    /// Takes everything that is there.
    fn take(&mut self) -> io::Result<()> {
        let mut portion = [0; PORTION_BYTES];
        while let Some(stream) = &mut self.stream {
            match stream.read(&mut portion) {
                Ok(0) => self.stream = None,
                Ok(count) => self.keep(&portion[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn keep(&mut self, portion: &[u8]) {
        let room = self.limit_bytes - self.bytes.len();
        self.truncated |= portion.len() > room;
        self.bytes.extend_from_slice(&portion[..portion.len().min(room)]);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(AsFd::as_fd)
    }
}

struct Running {
    child: Child,
    input: Option<ChildStdin>,
    to_write: Vec<u8>,
    written: usize,
    stdout: Output<std::process::ChildStdout>,
    stderr: Output<std::process::ChildStderr>,
    deadline_ns: u64,
    timed_out: bool,
}

impl Running {
    fn new(mut child: Child, request: &Exec) -> io::Result<Self> {
        let to_write = request.stdin.clone().unwrap_or_default();
        let input = child.stdin.take().filter(|_| !to_write.is_empty());
        if let Some(input) = &input {
            sys::set_nonblocking(input.as_fd())?;
        }
        Ok(Self {
            stdout: Output::new(child.stdout.take(), request.limit_bytes)?,
            stderr: Output::new(child.stderr.take(), request.limit_bytes)?,
            child,
            input,
            to_write,
            written: 0,
            deadline_ns: monotonic_ns().saturating_add(request.timeout_ns),
            timed_out: false,
        })
    }

    /// Moves bytes until the process has ended.
    fn follow(&mut self, signals: &ChildSignals) -> io::Result<Ended> {
        loop {
            // Looked at before the streams are read: all that it wrote is then in them.
            signals.clear();
            let status = self.child.try_wait()?;
            self.stdout.take()?;
            self.stderr.take()?;
            self.feed()?;
            if let Some(status) = status {
                return Ok(sys::ended(status));
            }
            let left_ns = self.deadline_ns.saturating_sub(monotonic_ns());
            if left_ns == 0 && !self.timed_out {
                self.timed_out = true;
                self.kill();
                continue;
            }
            let mut wanted = vec![(signals.as_fd(), false)];
            wanted.extend(self.stdout.descriptor().map(|stream| (stream, false)));
            wanted.extend(self.stderr.descriptor().map(|stream| (stream, false)));
            wanted.extend(self.input.as_ref().map(|input| (input.as_fd(), true)));
            sys::wait(&wanted, (!self.timed_out).then_some(left_ns))?;
        }
    }

    fn feed(&mut self) -> io::Result<()> {
        while let Some(input) = &mut self.input {
            match input.write(&self.to_write[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It does not read any more; that is its own affair.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.input = None,
                Err(error) => return Err(error),
            }
            if self.written == self.to_write.len() {
                self.input = None;
            }
        }
        Ok(())
    }

    fn kill(&mut self) {
        sys::kill_group(self.child.id(), sys::Signal::KILL);
    }

    fn answer(self, ended: Ended) -> reply::Exec {
        reply::Exec {
            status: ended.status,
            signal: ended.signal,
            truncated: self.stdout.truncated || self.stderr.truncated,
            stdout: self.stdout.bytes,
            stderr: self.stderr.bytes,
            timed_out: self.timed_out,
        }
    }
}
