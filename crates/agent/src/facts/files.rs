//! Facts about the guest's files: the agent's own program, and a digest over all that the root file system holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use sha2::{Digest, Sha256};
use virtoll_proto::reply::facts::Files;

/// Larger roots are a user's own image: hashing it would take longer than the guest's work.
const LARGEST_ROOT_BYTES: u64 = 64 << 20;
/// Kernel modules exist only in machines that boot their own kernel, so their facts are separate from the shared ones.
const MODULES: &str = "/lib/modules/";

/// Reads the agent's program and all files of the root.
pub fn collect() -> Files {
    let program = fs::read("/proc/self/exe").ok();
    let agent = program.as_ref().map(|bytes| hex(bytes));
    let own = fs::metadata("/proc/self/exe").ok().map(|data| (data.dev(), data.ino()));
    let files = Root::read().and_then(|root| root.digests(own.zip(agent.as_deref())));
    Files {
        agent_bytes: program.as_ref().map(Vec::len),
        agent_sha256: agent,
        files_count: files.as_ref().map(|files| files.count),
        files_sha256: files.as_ref().map(|files| files.image.clone()),
        modules_sha256: files.and_then(|files| files.modules),
    }
}

/// The regular files and symbolic links of the root file system by path, without other file systems mounted on it.
#[derive(Default)]
struct Root {
    mounted: BTreeSet<String>,
    entries: BTreeMap<String, fs::Metadata>,
    bytes: u64,
}

/// What a root's files are: how many, their digest, and that of the kernel's modules where there are any.
struct Digests {
    count: usize,
    image: String,
    modules: Option<String>,
}

impl Root {
    /// None where the root cannot be read, or holds too much.
    fn read() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let mounted = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(str::to_owned);
        let mut root = Self { mounted: mounted.collect(), ..Self::default() };
        root.enter(Path::new("/"), fs::metadata("/").ok()?.dev())?;
        Some(root)
    }

    fn enter(&mut self, folder: &Path, device: u64) -> Option<()> {
        for entry in fs::read_dir(folder).ok()? {
            let path = entry.ok()?.path();
            let data = fs::symlink_metadata(&path).ok()?;
            let name = path.to_str()?.to_owned();
            if self.mounted.contains(&name) {
                continue;
            }
            // A file of an overlay may have its layer's device: only a folder's says whether it is another system.
            if data.is_dir() {
                if data.dev() == device {
                    self.enter(&path, device)?;
                }
            } else if data.is_file() || data.is_symlink() {
                self.bytes = self.bytes.saturating_add(data.len());
                self.entries.insert(name, data);
                if self.bytes > LARGEST_ROOT_BYTES {
                    return None;
                }
            }
        }
        Some(())
    }

    /// One line a file: path, whether it may be executed, and the hash of what it holds, or where it points.
    fn digests(&self, known: Option<((u64, u64), &str)>) -> Option<Digests> {
        let (mut image, mut modules) = (Sha256::new(), Sha256::new());
        let mut counts = [0_usize; 2];
        for (path, data) in &self.entries {
            let line = if data.is_symlink() {
                format!("{path} -> {}\n", fs::read_link(path).ok()?.display())
            } else {
                let hash = match known {
                    Some((file, hash)) if file == (data.dev(), data.ino()) => hash.to_owned(),
                    _ => hex(&fs::read(path).ok()?),
                };
                format!("{path} {} {hash}\n", data.permissions().mode() & 0o111 != 0)
            };
            let module = path.starts_with(MODULES);
            counts[usize::from(module)] += 1;
            if module { &mut modules } else { &mut image }.update(line.as_bytes());
        }
        Some(Digests {
            count: counts[0],
            image: format!("{:x}", image.finalize()),
            modules: (counts[1] > 0).then(|| format!("{:x}", modules.finalize())),
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}
