//! `data`: the folder that is mounted for workloads' files. Empties it, takes its files out of the page cache, and says
//! what is in it, how much of that is in memory, and on which file system.

mod sys;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use virtoll_proto::request::Data;
use virtoll_proto::{Error, reply};

/// What a folder holds: regular files, their bytes, and how many of those are in the page cache.
#[derive(Default)]
struct Held {
    files: u64,
    bytes: u64,
    resident_bytes: u64,
}

/// Carries the request out; what is resident is read last.
///
/// # Errors
/// `bad-request` for a place where nothing is mounted, `system` for what could not be removed, written back or read.
pub fn carry_out(request: &Data) -> Result<reply::Data, Error> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let Some((kind, source)) = mounted(&mounts, &request.path) else {
        return Err(Error::bad_request(format!("data: nothing is mounted on {:?}", request.path)));
    };
    let fail = |what: &str, cause: io::Error| {
        Error::system(format!("data: {what} {}", request.path), &cause)
    };
    let path = Path::new(&request.path);
    let removed =
        if request.empty { empty(path).map_err(|cause| fail("empty", cause))? } else { 0 };
    let folder = File::open(path).map_err(|cause| fail("open", cause))?;
    if request.empty || request.evict {
        sys::write_back(&folder).map_err(|cause| fail("syncfs", cause))?;
    }
    let trimmed_bytes = request.trim.then(|| sys::trim(&folder).ok()).flatten();
    let mut held = Held::default();
    look(path, request.evict, &mut held).map_err(|cause| fail("read", cause))?;
    let room = sys::room(&folder).map_err(|cause| fail("fstatfs", cause))?;
    Ok(reply::Data {
        file_system: kind,
        source,
        total_bytes: room.total_bytes,
        free_bytes: room.free_bytes,
        removed_entries: removed,
        files: held.files,
        file_bytes: held.bytes,
        resident_bytes: held.resident_bytes,
        trimmed_bytes,
    })
}

/// How many bytes of the regular files in and below a folder are in the page cache; with `evict` after everything of its
/// file system was written back, and these files forgotten.
///
/// # Errors
/// The calls'.
pub fn resident_below(folder: &Path, evict: bool) -> io::Result<u64> {
    if evict {
        sys::write_back(&File::open(folder)?)?;
    }
    let mut held = Held::default();
    look(folder, evict, &mut held)?;
    Ok(held.resident_bytes)
}

/// Kind and source of what was mounted last on a place; none for the root, which is never emptied.
fn mounted(mountinfo: &str, place: &str) -> Option<(String, String)> {
    if place == "/" {
        return None;
    }
    let line = mountinfo.lines().rev().find(|line| line.split(' ').nth(4) == Some(place))?;
    let mut words = line.split_once(" - ")?.1.split(' ');
    Some((words.next()?.to_owned(), words.next()?.to_owned()))
}

fn empty(folder: &Path) -> io::Result<u64> {
    let mut removed = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
        removed += 1;
    }
    Ok(removed)
}

fn look(folder: &Path, evict: bool, held: &mut Held) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            look(&entry.path(), evict, held)?;
        } else if kind.is_file() {
            let file =
                OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(entry.path())?;
            let bytes = file.metadata()?.len();
            if evict {
                sys::evict(&file)?;
            }
            held.files += 1;
            held.bytes += bytes;
            held.resident_bytes += sys::resident_bytes(&file, bytes)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_text::any_text;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any_text(&["36", "35", "98:0", "/mnt", "/data", "rw", "-", "ext4", "/dev/vda", " - "])) {
            let _ = mounted(&text, "/data");
        }
    }

    const MOUNTS: &str = "21 1 253:0 / / rw - ext4 /dev/vda rw\n\
        30 21 253:16 / /data rw,relatime shared:1 - ext4 /dev/vdb rw\n\
        31 21 0:40 / /data/deep rw - tmpfs tmpfs rw\n";

    #[test]
    fn only_what_is_mounted_and_not_the_root_is_a_data_folder() {
        assert_eq!(mounted(MOUNTS, "/data"), Some(("ext4".to_owned(), "/dev/vdb".to_owned())));
        assert_eq!(mounted(MOUNTS, "/"), None);
        assert_eq!(mounted(MOUNTS, "/dat"), None);
        assert_eq!(mounted("", "/data"), None);
        let error = carry_out(&Data { path: "/".into(), empty: true, evict: false, trim: false });
        assert!(error.unwrap_err().message.contains("nothing is mounted on \"/\""));
    }

    #[test]
    #[cfg_attr(miri, ignore = "mincore(2)")]
    fn a_folder_is_emptied_of_files_folders_and_links() {
        let folder = std::env::temp_dir().join(format!("virtoll-data-{}", std::process::id()));
        fs::create_dir_all(folder.join("deep/er")).unwrap();
        fs::write(folder.join("deep/er/file"), b"12345").unwrap();
        fs::write(folder.join("file"), b"1").unwrap();
        std::os::unix::fs::symlink("/proc", folder.join("link")).unwrap();
        assert_eq!(resident_below(&folder, false).unwrap(), 6, "what was just written");
        let mut held = Held::default();
        look(&folder, true, &mut held).unwrap();
        assert_eq!((held.files, held.bytes), (2, 6));
        assert_eq!(empty(&folder).unwrap(), 3);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        assert!(Path::new("/proc/self").exists());
        fs::remove_dir(&folder).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "mincore(2)")]
    fn what_was_just_written_is_resident() {
        let path = std::env::temp_dir().join(format!("virtoll-resident-{}", std::process::id()));
        fs::write(&path, vec![7; 100_000]).unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(sys::resident_bytes(&file, 100_000).unwrap(), 100_000);
        assert_eq!(sys::resident_bytes(&file, 0).unwrap(), 0);
        fs::remove_file(&path).unwrap();
    }
}
