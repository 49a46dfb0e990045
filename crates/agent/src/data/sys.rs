//! System calls about a file's pages and a file system's room.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::sys::checked;

/// A file is looked at in windows of this size, so that a large one needs little address space.
const WINDOW_BYTES: u64 = 1 << 28;

/// Size of a file system, and what is free in it for anybody.
pub struct Room {
    pub total_bytes: u64,
    pub free_bytes: u64,
}

/// Writes everything of the file system that holds `folder` back.
///
/// # Errors
/// The call's.
pub fn write_back(folder: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(folder)?)
}

/// Takes a file's clean pages out of the page cache.
///
/// # Errors
/// The call's.
pub fn evict(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?)
}

/// How many of a file's first `bytes` are in the page cache.
///
/// # Errors
/// The calls'.
pub fn resident_bytes(file: &File, bytes: u64) -> io::Result<u64> {
    // SAFETY: no memory is involved.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let mut found = 0;
    for start in (0..bytes).step_by(WINDOW_BYTES as usize) {
        let length = WINDOW_BYTES.min(bytes - start);
        let pages = pages_of(file, start, length, page)?;
        let whole: u64 = pages.iter().map(|flags| u64::from(flags & 1) * page).sum();
        let beyond = pages.len() as u64 * page - length;
        let last = pages.last().map_or(0, |flags| u64::from(flags & 1));
        found += whole - last * beyond;
    }
    Ok(found)
}

/// One byte a page; its lowest bit is set where the page is in memory.
fn pages_of(file: &File, start: u64, length: u64, page: u64) -> io::Result<Vec<u8>> {
    let mut pages = vec![0_u8; length.div_ceil(page) as usize];
    let size = length as usize;
    // SAFETY: a fresh mapping that overlaps nothing and is never read; `pages` has a byte for each of its pages.
    unsafe {
        let place = libc::mmap(
            std::ptr::null_mut(),
            size,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            start as libc::off_t,
        );
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let result = checked(libc::mincore(place, size, pages.as_mut_ptr()));
        libc::munmap(place, size);
        result?;
    }
    Ok(pages)
}

/// Size and free room of the file system that holds `folder`.
///
/// # Errors
/// The call's.
pub fn room(folder: &File) -> io::Result<Room> {
    let found = rustix::fs::fstatfs(folder)?;
    let block = found.f_bsize as u64;
    Ok(Room { total_bytes: found.f_blocks * block, free_bytes: found.f_bavail * block })
}

/// Tells the disk which blocks of the file system that holds `folder` are free; how many bytes that were.
///
/// # Errors
/// The call's, where file system or disk cannot.
pub fn trim(folder: &File) -> io::Result<u64> {
    // FITRIM of linux/fs.h: _IOWR('X', 121, struct fstrim_range).
    const FITRIM: libc::Ioctl = 0xc018_5879;
    let mut range: [u64; 3] = [0, u64::MAX, 0];
    // SAFETY: the range is valid for reads and writes of three words.
    checked(unsafe { libc::ioctl(folder.as_raw_fd(), FITRIM, range.as_mut_ptr()) })?;
    Ok(range[1])
}
