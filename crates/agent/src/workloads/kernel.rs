//! Operations of the kernel, one kind at a time, over and over (lmbench's `lat_syscall`, `lat_sig`, `lat_pipe` and
//! `lat_proc`; `McVoy` and Staelin 1996).
//!
//! Everything that an operation needs is made before the start mark. Batches are timed by the guest's clock; what that
//! clock costs, and what is to be subtracted from a signal's handling, is measured after the end mark.
//!
//! Several workers are processes of their own that do the same at once, as lmbench's `-P` has it; the batches that are
//! kept are the first one's, which is this process.

mod sys;

use std::cell::RefCell;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use virtoll_clock::monotonic_ns;
use virtoll_proto::reply::figures::{self, Sending};
use virtoll_proto::request::jobs::{Kernel, KernelOperation as Operation};
use virtoll_proto::{Error, ErrorKind};

use super::series::{Durations, MOST, clock_cost};
use super::sys::{close_inherited, end, fork, fork_and_wait, pipe, read_all, wait_for, write_all};
use super::{Done, MOST_WORKERS, Outcome, Workload};

const SHELL: &str = "/bin/sh";
/// By name: the environment may name a folder of the host's, which is not in the guest.
const FOLDER: &str = "/tmp";

/// Makes ready what the operation needs.
///
/// # Errors
/// `bad-request` for numbers that do not fit, `limit` for too many batches, `unsupported` where there is no shell,
/// `system` for what cannot be made.
pub fn ready(wanted: Kernel) -> Result<Ready, Error> {
    if wanted.batch_operations == 0 || !wanted.operations.is_multiple_of(wanted.batch_operations) {
        return Err(Error::bad_request(
            "kernel: operations must be a multiple of batch_operations, which must be at least 1",
        ));
    }
    if !(1..=MOST_WORKERS).contains(&wanted.workers) {
        return Err(Error::bad_request(format!("kernel: workers must be 1 to {MOST_WORKERS}")));
    }
    let count = wanted.operations / wanted.batch_operations;
    if count.saturating_mul(wanted.workers) > MOST {
        let sentence = format!("kernel: batches of all workers must be at most {MOST} in a job");
        return Err(Error::new(ErrorKind::Limit, sentence));
    }
    let batches = Durations::of(count, "kernel: batches")?;
    if wanted.operation == Operation::ForkSh && !Path::new(SHELL).exists() {
        return Err(Error::unsupported(format!(
            "fork-sh starts {SHELL}, which is not in this guest: it is in the image full"
        )));
    }
    let made = |cause| Error::system("kernel: make its files and processes", &cause);
    let others = (1..wanted.workers)
        .map(|number| Worker::start(&wanted, count, number))
        .collect::<io::Result<Vec<_>>>()
        .map_err(made)?;
    let ground = Ground::make(wanted.operation, 0).map_err(made)?;
    Ok(Ready { wanted, ground, others, batches: Rc::new(RefCell::new(batches)) })
}

/// What the operation needs, made: it is there for each repeat. The batches are the last repeat's.
pub struct Ready {
    wanted: Kernel,
    ground: Ground,
    others: Vec<Worker>,
    batches: Rc<RefCell<Durations>>,
}

impl Workload for Ready {
    fn run(&self) -> Result<Box<dyn Done>, Error> {
        let mut batches = self.batches.borrow_mut();
        batches.clear();
        let each = self.wanted.batch_operations;
        self.others.iter().for_each(Worker::begin);
        let own = self.ground.repeat(self.wanted.operation, each, &mut batches);
        let done = own + self.others.iter().map(Worker::done).sum::<u64>();
        let batches = Rc::clone(&self.batches);
        Ok(Box::new(Figures { operation: self.wanted.operation, each, done, batches }))
    }
}

struct Figures {
    operation: Operation,
    each: u64,
    done: u64,
    batches: Rc<RefCell<Durations>>,
}

impl Done for Figures {
    fn value(&self) -> Option<String> {
        Some(self.done.to_string())
    }

    fn check(self: Box<Self>) -> Outcome {
        let batches = self.batches.take();
        let count = batches.room() as u64;
        let overhead =
            (self.operation == Operation::SignalHandle).then(|| sending(self.each, count));
        let result = figures::Kernel {
            operations: self.each * count,
            batch_operations: self.each,
            batches: batches.summary(),
            sending: overhead.flatten(),
            clock: clock_cost(),
        };
        Outcome { result: figures::Figures::Kernel(result), check: self.done.to_string() }
    }
}

/// Signals sent that are none, in as many batches of as many: what lmbench subtracts from handling one.
fn sending(each: u64, count: u64) -> Option<Sending> {
    let own = std::process::id() as libc::pid_t;
    let mut batches = Durations::of(count, "batches").ok()?;
    let sent = batched(each, &mut batches, |_| u64::from(sys::signal_nothing(own)));
    Some(Sending { sent, batches: batches.summary() })
}

/// Times batches; the sum of what each operation says that it did. An operation is given its number.
#[inline]
fn batched(each: u64, batches: &mut Durations, mut operation: impl FnMut(u64) -> u64) -> u64 {
    let mut done = 0;
    for batch in 0..batches.room() as u64 {
        let begin = monotonic_ns();
        for number in 0..each {
            done += operation(batch * each + number);
        }
        batches.push(monotonic_ns() - begin);
    }
    done
}

/// Another process that does the same operations whenever it is told to.
///
/// What it uses is made here, so that it takes no memory after its fork, and removed here once it has ended. The files
/// are open over there alone: with many workers this process would have too many.
struct Worker {
    _process: Ended,
    orders: OwnedFd,
    answers: OwnedFd,
    _file: Removed,
    _echo: Option<Ended>,
}

impl Worker {
    fn start(wanted: &Kernel, count: u64, number: u64) -> io::Result<Self> {
        let mut batches = Durations::of(count, "batches").map_err(io::Error::other)?;
        let ground = Ground::make(wanted.operation, number)?;
        let (input, orders) = pipe()?;
        let (answers, output) = pipe()?;
        let pid = fork(|| {
            close_inherited(orders.as_raw_fd());
            close_inherited(answers.as_raw_fd());
            let mut order = [0];
            while read_all(input.as_raw_fd(), &mut order) {
                batches.clear();
                let done = ground.repeat(wanted.operation, wanted.batch_operations, &mut batches);
                if !write_all(output.as_raw_fd(), &done.to_ne_bytes()) {
                    return 1;
                }
            }
            0
        })?;
        let Ground { file, echo, .. } = ground;
        let echo = echo.map(|echo| echo.process);
        Ok(Self { _process: Ended(pid), orders, answers, _file: file.path, _echo: echo })
    }

    #[inline]
    fn begin(&self) {
        write_all(self.orders.as_raw_fd(), &[0]);
    }

    /// How many it did, once it is at their end; 0 where it is gone.
    fn done(&self) -> u64 {
        let mut bytes = [0; size_of::<u64>()];
        let came = read_all(self.answers.as_raw_fd(), &mut bytes);
        if came { u64::from_ne_bytes(bytes) } else { 0 }
    }
}

/// A child that is ended with this.
struct Ended(libc::pid_t);

impl Drop for Ended {
    fn drop(&mut self) {
        end(self.0);
    }
}

/// A file that is removed with this.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Files and processes that the operations use.
struct Ground {
    zero: File,
    null: File,
    file: OneByte,
    echo: Option<Echo>,
    program: Option<sys::Program>,
}

impl Ground {
    fn make(operation: Operation, worker: u64) -> io::Result<Self> {
        let null = File::options().write(true).open("/dev/null")?;
        // The agent itself, which is in every guest: it says its version and ends.
        let agent = format!("/proc/{}/exe", std::process::id());
        let line = format!("{agent} --version");
        let words: Option<&[&str]> = match operation {
            Operation::ForkExec => Some(&[&agent, "--version"]),
            Operation::ForkSh => Some(&[SHELL, "-c", &line]),
            _ => None,
        };
        Ok(Self {
            zero: File::open("/dev/zero")?,
            file: OneByte::make(worker)?,
            echo: (operation == Operation::Pipe).then(Echo::start).transpose()?,
            program: words.map(|words| sys::Program::new(words, null.as_raw_fd())).transpose()?,
            null,
        })
    }

    /// Every operation counts 1 if it did what it should: the sum is the check value. It takes no memory from the heap,
    /// so that a forked child may do it.
    fn repeat(&self, kind: Operation, each: u64, batches: &mut Durations) -> u64 {
        let (zero, null) = (self.zero.as_raw_fd(), self.null.as_raw_fd());
        let (name, open) = (self.file.name.as_c_str(), self.file.open.as_raw_fd());
        let own = std::process::id() as libc::pid_t;
        match kind {
            Operation::NullCall => {
                let parent = sys::parent();
                batched(each, batches, |_| u64::from(sys::parent() == parent))
            }
            Operation::Read => batched(each, batches, |_| {
                let mut byte = [1];
                u64::from(read_all(zero, &mut byte) && byte == [0])
            }),
            Operation::Write => batched(each, batches, |_| u64::from(write_all(null, &[0]))),
            Operation::Stat => batched(each, batches, |_| sys::size_by_name(name).unwrap_or(0)),
            Operation::Fstat => batched(each, batches, |_| sys::size_of_open(open).unwrap_or(0)),
            Operation::OpenClose => {
                batched(each, batches, |_| u64::from(sys::open_and_close(name)))
            }
            Operation::SignalInstall => {
                let _guard = Handler::install();
                batched(each, batches, |_| u64::from(sys::install_handler() == Some(true)))
            }
            Operation::SignalHandle => {
                let _guard = Handler::install();
                batched(each, batches, |_| sys::signal_itself(own))
            }
            Operation::Pipe => {
                let Some(echo) = &self.echo else { return 0 };
                batched(each, batches, |number| u64::from(echo.round_trip(number as u8)))
            }
            Operation::ForkExit => {
                batched(each, batches, |_| u64::from(fork_and_wait().unwrap_or(false)))
            }
            Operation::ForkExec | Operation::ForkSh => {
                let Some(program) = &self.program else { return 0 };
                let once = || wait_for(fork(|| program.become_it())?);
                batched(each, batches, |_| u64::from(once().unwrap_or(false)))
            }
        }
    }
}

/// SIGUSR1 handled for as long as this lives.
struct Handler;

impl Handler {
    fn install() -> Self {
        sys::install_handler();
        Self
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        sys::remove_handler();
    }
}

/// A file of one byte in the guest's folder for temporary files, removed at the end.
struct OneByte {
    path: Removed,
    name: CString,
    open: File,
}

impl OneByte {
    fn make(worker: u64) -> io::Result<Self> {
        let own = std::process::id();
        let path = Path::new(FOLDER).join(format!("virtoll-kernel-{own}-{worker}"));
        let name = CString::new(path.as_os_str().as_bytes())?;
        let open = File::create(&path)?;
        let file = Self { path: Removed(path), name, open };
        (&file.open).write_all(b"1")?;
        Ok(file)
    }
}

/// A process that answers each byte with the next one.
struct Echo {
    process: Ended,
    there: OwnedFd,
    back: OwnedFd,
}

impl Echo {
    fn start() -> io::Result<Self> {
        let (input, there) = pipe()?;
        let (back, output) = pipe()?;
        let (unwanted, ends) =
            ([there.as_raw_fd(), back.as_raw_fd()], [input.as_raw_fd(), output.as_raw_fd()]);
        let pid = fork(|| {
            unwanted.into_iter().for_each(close_inherited);
            echo(ends)
        })?;
        let started = Self { process: Ended(pid), there, back };
        if started.round_trip(0) {
            Ok(started)
        } else {
            Err(io::Error::other("the other process does not answer"))
        }
    }

    #[inline]
    fn round_trip(&self, byte: u8) -> bool {
        let mut answer = [byte];
        write_all(self.there.as_raw_fd(), &[byte])
            && read_all(self.back.as_raw_fd(), &mut answer)
            && answer[0] == byte.wrapping_add(1)
    }
}

/// Until its input ends.
fn echo([input, output]: [RawFd; 2]) -> i32 {
    let mut byte = [0];
    while read_all(input, &mut byte) {
        byte[0] = byte[0].wrapping_add(1);
        if !write_all(output, &byte) {
            return 1;
        }
    }
    0
}
