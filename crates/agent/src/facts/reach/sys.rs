//! System calls that ask for a right and change nothing.
//!
//! Each is given what the kernel refuses after it has looked at the caller's rights; that later refusal means *allowed*.
#![allow(unsafe_code)]

use std::io;
use std::mem::zeroed;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;

use libc::{c_int, c_long, c_uint, c_void};

use crate::sys::{checked, owned, text};

const KEYCTL_GET_KEYRING_ID: c_long = 0;
const KEY_SPEC_THREAD_KEYRING: c_long = -1;
const BPF_PROG_GET_NEXT_ID: c_long = 11;
const SYSLOG_READ_ALL: c_int = 3;
/// `PERF_TYPE_SOFTWARE` with `PERF_COUNT_SW_CPU_CLOCK`: every kernel with events has it.
const SOFTWARE: u32 = 1;
/// `disabled` of `struct perf_event_attr`.
const DISABLED: u64 = 1;

/// `struct perf_event_attr`, of its first version, which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample: u64,
    read: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    address: u64,
}

const _: () = assert!(size_of::<EventAttributes>() == 64);

/// The answer of a call that a caller with the right is refused with one of `after`.
fn refused_later(result: c_long, after: &[c_int]) -> io::Result<()> {
    if result >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error().is_some_and(|number| after.contains(&number)) {
        Ok(())
    } else {
        Err(error)
    }
}

/// Mounting, without a kind of file system: EINVAL for who may mount.
pub fn mount_nothing() -> io::Result<()> {
    // SAFETY: the target is a text; the others may be null.
    let result = unsafe { libc::mount(null(), c"/".as_ptr(), null(), 0, null()) };
    refused_later(result.into(), &[libc::EINVAL])
}

/// Making a node of a device, which the caller removes.
pub fn make_node(path: &Path, of_characters: bool, device: (u32, u32)) -> io::Result<()> {
    let path = text(path.as_os_str().as_bytes())?;
    let kind = if of_characters { libc::S_IFCHR } else { libc::S_IFBLK };
    // SAFETY: the path is a text.
    checked(unsafe { libc::mknod(path.as_ptr(), kind | 0o600, libc::makedev(device.0, device.1)) })
        .map(drop)
}

/// The keyrings of the kernel: ENOKEY for who may ask, because this thread has none of its own.
pub fn name_keyring() -> io::Result<()> {
    // SAFETY: plain numbers; nothing is created.
    let result = unsafe {
        libc::syscall(libc::SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_THREAD_KEYRING, 0)
    };
    refused_later(result, &[libc::ENOKEY])
}

/// The number of the first BPF program that anybody has loaded: ENOENT where there is none.
pub fn list_bpf_programs() -> io::Result<()> {
    let mut attributes = [0_u64; 16];
    // SAFETY: the attributes are as large as is said, and valid for writes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_GET_NEXT_ID,
            attributes.as_mut_ptr(),
            size_of_val(&attributes),
        )
    };
    refused_later(result, &[libc::ENOENT])
}

/// An event of all that runs on a CPU, the kernel included; it is never switched on.
pub fn count_of_whole_cpu() -> io::Result<()> {
    let attributes = EventAttributes {
        kind: SOFTWARE,
        size: size_of::<EventAttributes>() as u32,
        flags: DISABLED,
        ..EventAttributes::default()
    };
    let (everyone, first_cpu, alone): (c_int, c_int, c_int) = (-1, 0, -1);
    // SAFETY: the attributes are valid for reads of the size that they say.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            everyone,
            first_cpu,
            alone,
            8,
        )
    };
    owned(result as c_int).map(drop)
}

/// Entering a namespace, which is the one that this thread is in.
pub fn enter_own_namespace() -> io::Result<()> {
    let own = std::fs::File::open("/proc/self/ns/uts")?;
    // SAFETY: plain library call; the namespaces of this thread stay the same.
    checked(unsafe { libc::setns(own.as_raw_fd(), libc::CLONE_NEWUTS) }).map(drop)
}

/// A user namespace, made by a child that ends at once: in it every capability is to be had, over what is new in it.
pub fn make_user_namespace() -> io::Result<()> {
    // The child has no signal to send at its end, so that nothing but the wait below hears of it.
    // SAFETY: as fork, but for the signal; the child makes one more call and ends.
    let child = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    if child == 0 {
        // SAFETY: plain library calls.
        unsafe {
            let number =
                if libc::unshare(libc::CLONE_NEWUSER) == 0 { 0 } else { *libc::__errno_location() };
            libc::_exit(number & 0xff);
        }
    }
    let child = checked(child as c_int)?;
    let mut status = 0;
    loop {
        // SAFETY: `status` is valid for writes.
        match checked(unsafe { libc::waitpid(child, &raw mut status, libc::__WCLONE) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    match libc::WEXITSTATUS(status) {
        0 if libc::WIFEXITED(status) => Ok(()),
        0 => Err(io::Error::from_raw_os_error(libc::EINTR)),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

/// Loading a module, which is empty: ENOEXEC for who may load one.
pub fn load_module() -> io::Result<()> {
    let (image, size, parameters): (*const c_void, usize, _) = (null(), 0, c"".as_ptr());
    // SAFETY: no byte of the image is read.
    let result = unsafe { libc::syscall(libc::SYS_init_module, image, size, parameters) };
    refused_later(result, &[libc::ENOEXEC])
}

/// A packet socket that receives nothing.
pub fn open_packet_socket() -> io::Result<()> {
    // SAFETY: plain library call.
    owned(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })
        .map(drop)
}

/// The rate of the machine's clock, set to what no clock has: EINVAL for who may set it.
pub fn set_clock() -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid timex.
    let mut wanted: libc::timex = unsafe { zeroed() };
    wanted.modes = libc::ADJ_TICK;
    // SAFETY: `wanted` is valid for the call; a tick of nothing is never taken.
    let result = unsafe { libc::adjtimex(&raw mut wanted) };
    refused_later(result.into(), &[libc::EINVAL])
}

/// Nothing of the kernel's log.
pub fn read_kernel_log() -> io::Result<()> {
    let mut nothing = [0_u8; 1];
    // SAFETY: no byte is written, as the length says.
    checked(unsafe { libc::klogctl(SYSLOG_READ_ALL, nothing.as_mut_ptr().cast(), 0) }).map(drop)
}

/// A file's handle as the kernel takes it: of inode 0, which no file system has.
#[repr(C)]
struct Handle {
    bytes: c_uint,
    kind: c_int,
    inode: u32,
    generation: u32,
}

/// Opening a file by its handle, past all folders: ESTALE for who may, because no file has this one.
pub fn open_by_handle() -> io::Result<()> {
    // Everywhere a file system whose files have handles.
    let folder = std::fs::File::open("/dev")?;
    let handle = Handle { bytes: 8, kind: 1, inode: 0, generation: 0 };
    // SAFETY: the handle's head says how much follows it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            folder.as_raw_fd(),
            &raw const handle,
            libc::O_RDONLY | libc::O_CLOEXEC,
        )
    };
    if result >= 0 {
        return owned(result as c_int).map(drop);
    }
    refused_later(result, &[libc::ESTALE])
}

/// The name of an error's number; the number where it is an unusual one.
pub fn error_name(number: c_int) -> String {
    let name = match number {
        libc::EPERM => "EPERM",
        libc::EACCES => "EACCES",
        libc::EROFS => "EROFS",
        libc::ENOENT => "ENOENT",
        libc::ENOSYS => "ENOSYS",
        libc::ENODEV => "ENODEV",
        libc::ENXIO => "ENXIO",
        libc::ESRCH => "ESRCH",
        libc::EINVAL => "EINVAL",
        libc::ENOSPC => "ENOSPC",
        libc::EUSERS => "EUSERS",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EAFNOSUPPORT => "EAFNOSUPPORT",
        libc::EBADF => "EBADF",
        libc::ENOTDIR => "ENOTDIR",
        libc::EIO => "EIO",
        libc::EFAULT => "EFAULT",
        libc::ESTALE => "ESTALE",
        other => return format!("E{other}"),
    };
    name.to_owned()
}
