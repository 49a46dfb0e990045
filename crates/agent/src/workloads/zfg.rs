//! ZFG, zero file generator (Mattos et al. 2012, IV.C): a file of zeros, written several times.
//!
//! The paper writes "some dump information on disk during the time between two rounds", so that what a round left in a
//! buffer is written to the disk before the next one, whoever's buffer it is. Here each round ends with `fsync` too.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use virtoll_clock::monotonic_ns;
use virtoll_proto::Error;
use virtoll_proto::reply::figures::{self, Figures};
use virtoll_proto::request::jobs::Zfg;

use super::{Done, Outcome, Workload};

// Small for Miri, which takes minutes to look at each of a million bytes.
const BLOCK_BYTES: usize = if cfg!(miri) { 1 << 12 } else { 1 << 20 };
const FILE: &str = "zfg-zeros";
const DUMP: &str = "zfg-dump";

struct Round {
    write_ns: u64,
    sync_ns: u64,
}

struct Written {
    file: PathBuf,
    size_bytes: u64,
    rounds: Vec<Round>,
}

/// Checks the range.
///
/// # Errors
/// `bad-request` for no size or no rounds.
pub fn checked(wanted: Zfg) -> Result<Zfg, Error> {
    if wanted.size_bytes == 0 || wanted.rounds == 0 {
        return Err(Error::bad_request("zfg: size_bytes and rounds must not be 0"));
    }
    Ok(wanted)
}

fn round(wanted: &Zfg, file: &Path, zeros: &[u8]) -> io::Result<Round> {
    let begin = monotonic_ns();
    let mut writing = File::create(file)?;
    write_blocks(&mut writing, zeros, wanted.size_bytes)?;
    let written = monotonic_ns();
    if wanted.synced {
        writing.sync_all()?;
    }
    Ok(Round { write_ns: written - begin, sync_ns: monotonic_ns() - written })
}

/// What the next round must not find in a buffer: the last round's zeros. Other data are written after them.
fn dump(wanted: &Zfg, file: &Path, round: u32) -> io::Result<()> {
    let dump = wanted.path.join(DUMP);
    let mut writing = File::create(&dump)?;
    write_blocks(&mut writing, &noise(u64::from(round) + 1), wanted.dump_bytes)?;
    writing.sync_all()?;
    fs::remove_file(file)?;
    fs::remove_file(&dump)
}

fn all(wanted: &Zfg, file: &Path) -> io::Result<Vec<Round>> {
    let zeros = vec![0; BLOCK_BYTES];
    let mut rounds = Vec::new();
    for number in 0..wanted.rounds {
        if number > 0 {
            dump(wanted, file, number)?;
        }
        rounds.push(round(wanted, file, &zeros)?);
    }
    Ok(rounds)
}
impl Workload for Zfg {
    fn run(&self) -> Result<Box<dyn Done>, Error> {
        let file = self.path.join(FILE);
        let rounds = all(self, &file)
            .map_err(|cause| Error::system(format!("zfg: write {}", file.display()), &cause))?;
        Ok(Box::new(Written { file, size_bytes: self.size_bytes, rounds }))
    }
}

impl Done for Written {
    /// What was written last is read back; `0 zeros` where that fails.
    fn check(self: Box<Self>) -> Outcome {
        let zeros = count_zeros(&self.file).unwrap_or_default();
        let _ = fs::remove_file(&self.file);
        let each = |pick: fn(&Round) -> u64| self.rounds.iter().map(pick).collect::<Vec<_>>();
        let result = figures::Zfg {
            size_bytes: self.size_bytes,
            write_ns: each(|round| round.write_ns),
            sync_ns: each(|round| round.sync_ns),
        };
        let check = format!("{} rounds, {zeros} zeros", self.rounds.len());
        Outcome { result: Figures::Zfg(result), check }
    }
}

fn write_blocks(file: &mut File, block: &[u8], bytes: u64) -> io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let portion = left.min(block.len() as u64);
        file.write_all(&block[..portion as usize])?;
        left -= portion;
    }
    Ok(())
}

/// How many bytes a file has, if all of them are zero.
fn count_zeros(file: &Path) -> io::Result<u64> {
    let mut reading = File::open(file)?;
    let mut block = vec![1; BLOCK_BYTES];
    let mut found = 0;
    loop {
        let length = reading.read(&mut block)?;
        if length == 0 {
            return Ok(found);
        }
        if block[..length].iter().any(|byte| *byte != 0) {
            return Err(io::Error::other("not a zero"));
        }
        found += length as u64;
    }
}

/// A block that no disk takes for zeros or can make smaller (xorshift64).
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed | 1 << 63;
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    while block.len() < BLOCK_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        block.extend_from_slice(&state.to_le_bytes());
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("virtoll-zfg-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn zfg(path: &Path) -> Zfg {
        let size_bytes = BLOCK_BYTES as u64 + 5;
        Zfg { path: path.to_owned(), size_bytes, rounds: 3, dump_bytes: 100, synced: true }
    }

    #[test]
    fn every_round_is_timed_and_the_last_one_read_back() {
        let path = folder("rounds");
        let outcome = checked(zfg(&path)).unwrap().run().unwrap().check();
        assert_eq!(outcome.check, format!("3 rounds, {} zeros", BLOCK_BYTES + 5));
        let Figures::Zfg(reported) = outcome.result else { panic!("not of zfg") };
        assert_eq!((reported.write_ns.len(), reported.sync_ns.len()), (3, 3));
        fs::remove_dir(&path).expect("nothing is left in it");
    }

    #[test]
    fn a_file_that_is_short_or_not_zero_is_told() {
        let path = folder("check");
        let done = zfg(&path).run().unwrap();
        let file = File::options().write(true).open(path.join(FILE)).unwrap();
        file.set_len(10).unwrap();
        assert_eq!(done.check().check, "3 rounds, 10 zeros");
        let done = zfg(&path).run().unwrap();
        fs::write(path.join(FILE), b"\0\0x").unwrap();
        assert_eq!(done.check().check, "3 rounds, 0 zeros");
        fs::remove_dir(&path).unwrap();
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        assert!(checked(Zfg { rounds: 0, ..zfg(Path::new("/")) }).is_err());
        let error = zfg(Path::new("/no/such/folder")).run().err().unwrap();
        assert!(error.message.contains("/no/such/folder"));
    }

    #[test]
    fn a_dump_holds_no_zeros_to_speak_of() {
        let block = noise(1);
        assert_eq!(block.len(), BLOCK_BYTES);
        assert!(block.chunks(4096).all(|page| page.windows(8).all(|bytes| bytes != [0; 8])));
        assert_ne!(block, noise(2));
    }
}
