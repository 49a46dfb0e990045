//! Memory: allocate, set, read (Mattos et al. 2012).

use virtoll_clock::monotonic_ns;
use virtoll_proto::reply::figures::{self, Figures};
use virtoll_proto::request::jobs::Masr;
use virtoll_proto::{Error, ErrorKind};

use super::sys::{Memory, available_bytes};
use super::{Done, Outcome, Workload};

/// What every word is set to.
const PATTERN: u64 = 0x5654_6d61_7372_5654;
const WORD_BYTES: u64 = 8;

/// Checks the range.
///
/// # Errors
/// `bad-request` for a size that is no multiple of 8, `limit` for more than the kernel says is available.
pub fn checked(wanted: Masr) -> Result<Masr, Error> {
    if wanted.size_bytes == 0 || !wanted.size_bytes.is_multiple_of(WORD_BYTES) {
        return Err(Error::bad_request("masr: size_bytes must be a multiple of 8, and not 0"));
    }
    if let Some(available) = available_bytes()
        && wanted.size_bytes > available
    {
        let sentence =
            format!("masr: {} bytes wanted and {available} available", wanted.size_bytes);
        return Err(Error::new(ErrorKind::Limit, sentence));
    }
    Ok(wanted)
}

impl Workload for Masr {
    fn run(&self) -> Result<Box<dyn Done>, Error> {
        let begin = monotonic_ns();
        let mut memory = Memory::allocate(self.size_bytes as usize)
            .map_err(|cause| Error::system("masr: mmap", &cause))?;
        let allocated = monotonic_ns();
        memory.words().fill(std::hint::black_box(PATTERN));
        let words = std::hint::black_box(memory.words());
        let set = monotonic_ns();
        let sum = words.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word));
        let sum = std::hint::black_box(sum);
        let read = monotonic_ns();
        let figures = figures::Masr {
            allocate_ns: allocated - begin,
            set_ns: set - allocated,
            read_ns: read - set,
            size_bytes: self.size_bytes,
        };
        Ok(Box::new(Summed { figures, sum }))
    }
}

struct Summed {
    figures: figures::Masr,
    sum: u64,
}

impl Done for Summed {
    fn value(&self) -> Option<String> {
        Some(self.sum.to_string())
    }

    fn check(self: Box<Self>) -> Outcome {
        Outcome { result: Figures::Masr(self.figures), check: self.sum.to_string() }
    }
}
