//! System calls of the agent: children, descriptors, terminals.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use libc::c_int;

/// Asks a process to end.
pub const TERMINATE: c_int = libc::SIGTERM;
/// Ends a process without asking it.
pub const KILL: c_int = libc::SIGKILL;
/// Tells a process that its terminal is gone.
pub const HANG_UP: c_int = libc::SIGHUP;

pub(crate) fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

pub(crate) fn owned(result: c_int) -> io::Result<OwnedFd> {
    // SAFETY: a descriptor that a call has just returned belongs to nobody else.
    checked(result).map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// SIGCHLD as something to wait on.
pub struct ChildSignals(OwnedFd);

impl ChildSignals {
    /// Blocks the signal in this thread and those that it starts, and opens the descriptor.
    ///
    /// # Errors
    /// The call's.
    pub fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: the set is initialised by sigemptyset before it is used.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            owned(libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))
                .map(Self)
        }
    }

    /// Forgets the signals that came so far; what they announced is looked at next.
    pub fn clear(&self) {
        let mut place = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        // SAFETY: `place` is valid for writes of its size; the descriptor does not block.
        while unsafe {
            libc::read(self.0.as_raw_fd(), place.as_mut_ptr().cast(), size_of_val(&place))
        } > 0
        {}
    }
}

impl AsFd for ChildSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The number of some child that has ended, left to be taken.
///
/// # Errors
/// The wait's.
pub fn ended_child() -> io::Result<Option<u32>> {
    // SAFETY: all-zero bytes are a valid siginfo, and one with pid 0 says that nothing has ended.
    let mut information: libc::siginfo_t = unsafe { zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `information` is valid for writes.
    let result = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut information, flags) };
    match checked(result) {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        Err(error) => Err(error),
        // SAFETY: waitid filled the member that si_pid reads, or left it zero.
        Ok(_) => Ok(Some(unsafe { information.si_pid() } as u32).filter(|pid| *pid != 0)),
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit status, if it exited.
    pub status: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
}

/// Takes the exit status of a child that has ended.
///
/// # Errors
/// The wait's.
pub fn take_child(pid: u32) -> io::Result<Ended> {
    let mut status = 0;
    // SAFETY: `status` is valid for writes.
    checked(unsafe { libc::waitpid(pid as libc::pid_t, &raw mut status, 0) })?;
    Ok(ended(ExitStatus::from_raw(status)))
}

/// How a process ended, from its status.
pub fn ended(status: ExitStatus) -> Ended {
    Ended { status: status.code(), signal: status.signal() }
}

/// Signals a process group; one that is gone is no error.
pub fn kill_group(leader: u32, signal: c_int) {
    // SAFETY: plain system call.
    unsafe { libc::kill(-(leader as libc::pid_t), signal) };
}

fn unblock_signals() {
    // SAFETY: async-signal-safe calls on a local set, between fork and exec.
    unsafe {
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// The command's process leads a process group.
pub fn in_group_of_its_own(command: &mut Command) {
    command.process_group(0);
    // SAFETY: the closure makes only async-signal-safe calls.
    unsafe {
        command.pre_exec(|| {
            unblock_signals();
            Ok(())
        });
    }
}

/// The command's process leads a process group and is killed with this thread, however that ends.
pub fn in_group_for_life(command: &mut Command) {
    command.process_group(0);
    // SAFETY: the closure makes only async-signal-safe calls.
    unsafe {
        command.pre_exec(|| {
            unblock_signals();
            checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0)).map(drop)
        });
    }
}

/// Sets this thread's timer slack to 1 ns, so that its waits do not end up to 50 us late.
pub fn wake_in_time() {
    // SAFETY: no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
}

/// The command's process leads a session whose terminal is its standard input.
pub fn on_terminal_of_its_own(command: &mut Command) {
    // SAFETY: the closure makes only async-signal-safe calls.
    unsafe {
        command.pre_exec(|| {
            unblock_signals();
            checked(libc::setsid())?;
            checked(libc::ioctl(0, libc::TIOCSCTTY, 0)).map(drop)
        });
    }
}

/// Waits until one of the descriptors is readable (or writable too, if its flag is set) or hung up; which are.
///
/// # Errors
/// The call's; after an interruption nothing is ready.
pub fn wait(wanted: &[(BorrowedFd<'_>, bool)], timeout_ns: Option<u64>) -> io::Result<Vec<bool>> {
    let mut entries: Vec<libc::pollfd> = wanted
        .iter()
        .map(|(descriptor, writing)| libc::pollfd {
            fd: descriptor.as_raw_fd(),
            events: if *writing { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN },
            revents: 0,
        })
        .collect();
    let timeout = timeout_ns.map(|timeout_ns| libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `entries` and `timeout` are valid for the duration of the call.
    let result = unsafe {
        libc::ppoll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout, std::ptr::null())
    };
    match checked(result) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(vec![false; wanted.len()]),
        Err(error) => Err(error),
        Ok(_) => Ok(entries.iter().map(|entry| entry.revents != 0).collect()),
    }
}

/// Whether the other end of a descriptor is not there.
///
/// # Errors
/// The call's.
pub fn hung_up(descriptor: BorrowedFd<'_>) -> io::Result<bool> {
    let mut entry = libc::pollfd { fd: descriptor.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: `entry` is valid for the duration of the call.
    checked(unsafe { libc::poll(&raw mut entry, 1, 0) })?;
    Ok(entry.revents & libc::POLLHUP != 0)
}

/// Makes reads and writes return instead of waiting.
///
/// # Errors
/// The call's.
pub fn set_nonblocking(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: plain system calls on an open descriptor.
    unsafe {
        let flags = checked(libc::fcntl(descriptor.as_raw_fd(), libc::F_GETFL))?;
        checked(libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK))
            .map(drop)
    }
}

/// Standard input and output as files of their own. The numbers 0 and 1 are left with `/dev/null` and standard
/// error, so that nothing else ever reads or writes the channel.
///
/// # Errors
/// The calls'.
pub fn take_stdio() -> io::Result<(File, File)> {
    // SAFETY: plain system calls on the standard descriptors.
    unsafe {
        let input = owned(libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 3))?;
        let output = owned(libc::fcntl(1, libc::F_DUPFD_CLOEXEC, 3))?;
        if let Ok(nothing) = File::open("/dev/null") {
            checked(libc::dup2(nothing.as_raw_fd(), 0))?;
        }
        checked(libc::dup2(2, 1))?;
        Ok((File::from(input), File::from(output)))
    }
}

/// Sets a terminal raw: bytes pass as they are, at the highest of the usual speeds, which an emulated serial line may
/// keep to as a real one does (that of `VirtualBox` takes ten seconds for ten kilobytes at 9600). False if it is none.
///
/// # Errors
/// The call's.
pub fn make_raw(descriptor: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: all-zero bytes are a valid termios, and it is valid for the duration of the calls.
    unsafe {
        let mut settings: libc::termios = zeroed();
        if libc::tcgetattr(descriptor.as_raw_fd(), &raw mut settings) != 0 {
            return Ok(false);
        }
        libc::cfmakeraw(&raw mut settings);
        settings.c_cflag = settings.c_cflag & !libc::CBAUD | libc::B115200; // cfsetspeed cannot be linked statically
        checked(libc::tcsetattr(descriptor.as_raw_fd(), libc::TCSANOW, &raw const settings))?;
    }
    Ok(true)
}

/// A pseudo terminal: the agent's end and the process's end.
///
/// # Errors
/// No `/dev/ptmx`, or the calls'.
pub fn open_terminal() -> io::Result<(File, File)> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: plain system calls; each descriptor is owned from its call on.
    unsafe {
        let master = owned(libc::posix_openpt(flags))?;
        checked(libc::grantpt(master.as_raw_fd()))?;
        checked(libc::unlockpt(master.as_raw_fd()))?;
        let slave = owned(libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags))?;
        Ok((File::from(master), File::from(slave)))
    }
}

/// Sets a terminal's size.
///
/// # Errors
/// The call's.
pub fn set_size(terminal: BorrowedFd<'_>, rows: u16, columns: u16) -> io::Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` is a valid winsize for the duration of the call.
    checked(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) })
        .map(drop)
}

pub(crate) fn text(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// SIGTERM, SIGHUP and SIGINT as something to wait for.
pub struct EndSignals(libc::sigset_t);

impl EndSignals {
    /// Blocks them in this thread and those that it starts.
    ///
    /// # Errors
    /// The call's.
    pub fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: the set is initialised by sigemptyset before it is used.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for number in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
                libc::sigaddset(set.as_mut_ptr(), number);
            }
            let set = set.assume_init();
            checked(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()))?;
            Ok(Self(set))
        }
    }

    /// Waits until one of them comes.
    pub fn wait(&self) {
        let mut number = 0;
        // SAFETY: both places are valid for the call.
        while unsafe { libc::sigwait(&raw const self.0, &raw mut number) } != 0 {}
    }
}

/// Runs the command in a new session with no signal blocked, and kills it when this process is killed.
pub fn in_session_of_its_own(command: &mut Command) {
    // SAFETY: the closure makes only async-signal-safe calls.
    unsafe {
        command.pre_exec(|| {
            unblock_signals();
            checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0))?;
            checked(libc::setsid()).map(drop)
        });
    }
}

/// Leaves the parent's session if possible.
pub fn leave_session() {
    // SAFETY: no memory is involved.
    unsafe { libc::setsid() };
}

/// Makes this process the parent of every orphan below it.
///
/// # Errors
/// The call's.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: no memory is involved.
    checked(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }).map(drop)
}

/// Pins this process and what it starts to CPUs.
///
/// # Errors
/// The call's.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: all-zero bytes are the empty set, and the call only reads it.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        for cpu in cpus.iter().filter(|cpu| **cpu < libc::CPU_SETSIZE as usize) {
            libc::CPU_SET(*cpu, &mut set);
        }
        checked(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)).map(drop)
    }
}

/// Sends a signal to the process group of a session's leader.
pub fn end_session(leader: u32, number: c_int) {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(-(leader as libc::pid_t), number) };
}

/// Kills every child of this process, and those that become its children by that, until there is none.
pub fn end_children() {
    for _ in 0..1000 {
        let own = std::process::id();
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
        let pids: Vec<libc::pid_t> = children
            .unwrap_or_default()
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        for pid in &pids {
            // SAFETY: no memory is involved.
            unsafe { libc::kill(*pid, libc::SIGKILL) };
        }
        let mut status = 0;
        // SAFETY: `status` is valid for writes.
        if unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) } < 0 && pids.is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
