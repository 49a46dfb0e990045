//! System calls of the agent: children, descriptors, terminals.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use libc::c_int;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
pub use rustix::process::Signal;
use rustix::process::{
    Pid, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper, setsid,
    waitpid,
};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::stdio::{dup2_stdin, dup2_stdout};
use rustix::termios::{Winsize, tcsetwinsize};
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};

pub(crate) fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

pub(crate) fn owned(result: c_int) -> io::Result<OwnedFd> {
    // SAFETY: a descriptor that a call has just returned belongs to nobody else.
    checked(result).map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Makes this kernel's clocks run so many millionths faster: a tick of 10 ms counts as so many hundredths of a
/// microsecond more, and what is less than a microsecond a tick is a frequency.
///
/// # Errors
/// The call's.
pub fn set_clock_rate(parts_per_million: i64) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid timex.
    let mut wanted: libc::timex = unsafe { zeroed() };
    wanted.modes = libc::ADJ_TICK | libc::ADJ_FREQUENCY;
    wanted.tick = 10_000 + parts_per_million / 100;
    wanted.freq = (parts_per_million % 100) << 16;
    // SAFETY: `wanted` is valid for the call.
    checked(unsafe { libc::adjtimex(&raw mut wanted) }).map(drop)
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
    let (_, status) = waitpid(pid_of(pid), WaitOptions::empty())?.ok_or(Errno::CHILD)?;
    Ok(Ended { status: status.exit_status(), signal: status.terminating_signal() })
}

fn pid_of(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// How a process ended, from its status.
pub fn ended(status: ExitStatus) -> Ended {
    Ended { status: status.code(), signal: status.signal() }
}

/// Signals a process group; one that is gone is no error.
pub fn kill_group(leader: u32, signal: Signal) {
    if let Some(leader) = pid_of(leader) {
        let _gone = kill_process_group(leader, signal);
    }
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
    // A kernel that refuses leaves the waits as they are.
    let _refused = set_current_timer_slack(NonZeroU64::new(1));
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
    let mut entries: Vec<PollFd<'_>> = wanted
        .iter()
        .map(|(descriptor, writing)| {
            let events = if *writing { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            PollFd::from_borrowed_fd(*descriptor, events)
        })
        .collect();
    let timeout = timeout_ns.map(|timeout_ns| Timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as i64,
        tv_nsec: (timeout_ns % 1_000_000_000) as i64,
    });
    match poll(&mut entries, timeout.as_ref()) {
        Err(Errno::INTR) => Ok(vec![false; wanted.len()]),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(entries.iter().map(|entry| !entry.revents().is_empty()).collect()),
    }
}

/// Whether the other end of a descriptor is not there.
///
/// # Errors
/// The call's.
pub fn hung_up(descriptor: BorrowedFd<'_>) -> io::Result<bool> {
    let mut entry = [PollFd::from_borrowed_fd(descriptor, PollFlags::empty())];
    poll(&mut entry, Some(&Timespec::default()))?;
    Ok(entry[0].revents().contains(PollFlags::HUP))
}

/// Makes reads and writes return instead of waiting.
///
/// # Errors
/// The call's.
pub fn set_nonblocking(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let flags = fcntl_getfl(descriptor)?;
    Ok(fcntl_setfl(descriptor, flags | OFlags::NONBLOCK)?)
}

/// Standard input and output as files of their own. The numbers 0 and 1 are left with `/dev/null` and standard
/// error, so that nothing else ever reads or writes the channel.
///
/// # Errors
/// The calls'.
pub fn take_stdio() -> io::Result<(File, File)> {
    let input = fcntl_dupfd_cloexec(io::stdin(), 3)?;
    let output = fcntl_dupfd_cloexec(io::stdout(), 3)?;
    if let Ok(nothing) = File::open("/dev/null") {
        dup2_stdin(nothing)?;
    }
    dup2_stdout(io::stderr())?;
    Ok((File::from(input), File::from(output)))
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
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let slave = ioctl_tiocgptpeer(&master, flags)?;
    Ok((File::from(master), File::from(slave)))
}

/// Sets a terminal's size.
///
/// # Errors
/// The call's.
pub fn set_size(terminal: BorrowedFd<'_>, rows: u16, columns: u16) -> io::Result<()> {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(terminal, size)?)
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
    let _leader = setsid();
}

/// Makes this process the parent of every orphan below it.
///
/// # Errors
/// The call's.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Pins this process and what it starts to CPUs.
///
/// # Errors
/// The call's.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU) {
        set.set(*cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Kills every child of this process, and those that become its children by that, until there is none.
pub fn end_children() {
    for _ in 0..1000 {
        let own = std::process::id();
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
        let pids: Vec<Pid> = children
            .unwrap_or_default()
            .split_whitespace()
            .filter_map(|word| Pid::from_raw(word.parse().ok()?))
            .collect();
        for pid in &pids {
            let _gone = kill_process(*pid, Signal::KILL);
        }
        if rustix::process::wait(WaitOptions::NOHANG).is_err() && pids.is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
