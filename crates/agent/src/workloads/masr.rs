//! Memory: allocate, set, read (Mattos et al. 2012).

use serde::Deserialize;
use serde_json::json;
use virtoll_clock::monotonic_ns;
use virtoll_proto::{Error, ErrorKind};

use super::sys::{Memory, available_bytes};
use super::{Done, Outcome, Workload};

/// What every word is set to.
const PATTERN: u64 = 0x5654_6d61_7372_5654;
const WORD_BYTES: u64 = 8;

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Masr {
    /// How much memory, a multiple of 8.
    size_bytes: u64,
}

struct Figures {
    size_bytes: u64,
    allocate_ns: u64,
    set_ns: u64,
    read_ns: u64,
    sum: u64,
}

impl Masr {
    /// Checks the range.
    ///
    /// # Errors
    /// `bad-request` for a size that is no multiple of 8, `limit` for more than the kernel says is available.
    pub fn checked(self) -> Result<Self, Error> {
        if self.size_bytes == 0 || !self.size_bytes.is_multiple_of(WORD_BYTES) {
            return Err(Error::bad_request("masr: size_bytes must be a multiple of 8, and not 0"));
        }
        if let Some(available) = available_bytes()
            && self.size_bytes > available
        {
            let sentence =
                format!("masr: {} bytes wanted and {available} available", self.size_bytes);
            return Err(Error::new(ErrorKind::Limit, sentence));
        }
        Ok(self)
    }
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
        Ok(Box::new(Figures {
            size_bytes: self.size_bytes,
            allocate_ns: allocated - begin,
            set_ns: set - allocated,
            read_ns: read - set,
            sum,
        }))
    }
}

impl Done for Figures {
    fn check(self: Box<Self>) -> Outcome {
        Outcome {
            result: json!({
                "allocate_ns": self.allocate_ns,
                "set_ns": self.set_ns,
                "read_ns": self.read_ns,
                "size_bytes": self.size_bytes,
            }),
            check: self.sum.to_string(),
        }
    }
}
