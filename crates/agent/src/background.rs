//! `spawn`, `progress` and `end`: programs that run beside the requests and end with the agent at the latest.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::process::Stdio;

use virtoll_clock::monotonic_ns;
use virtoll_proto::request::{End, Progress, Spawn};
use virtoll_proto::{Error, reply};

use crate::exec;
use crate::group_time::{self, Sampler};
use crate::reap::reap;
use crate::sys::{self, ChildSignals, Ended};

/// How long the kernel may take to end what was killed.
const KILLED_NS: u64 = 10_000_000_000;

/// One of them; the session reaps it, so its number is enough.
struct Program {
    pid: u32,
    output: String,
    ended: Option<Ended>,
    sampler: Option<Sampler>,
}

/// Those that were not ended yet, by name.
#[derive(Default)]
pub struct Background(BTreeMap<String, Program>);

impl Background {
    /// Starts one.
    ///
    /// # Errors
    /// `bad-request` for an empty `argv` or a name that is in use, `system` if it cannot be started.
    pub fn spawn(&mut self, wanted: &Spawn) -> Result<reply::Spawn, Error> {
        let Entry::Vacant(place) = self.0.entry(wanted.name.clone()) else {
            return Err(Error::bad_request(format!("{:?} was not ended yet", wanted.name)));
        };
        let mut command = exec::command(&wanted.argv)?;
        if let Some(environment) = &wanted.env {
            command.env_clear().envs(environment);
        }
        if let Some(directory) = &wanted.directory {
            command.current_dir(directory);
        }
        let reported = File::create(&wanted.output)
            .and_then(|file| Ok((file.try_clone()?, file)))
            .map_err(|cause| Error::system(format!("create {}", wanted.output), &cause))?;
        command.stdin(Stdio::null()).stdout(reported.0).stderr(reported.1);
        sys::in_group_for_life(&mut command);
        let child = command
            .spawn()
            .map_err(|cause| Error::system(format!("spawn {}", wanted.argv[0]), &cause))?;
        let pid = child.id();
        let sampler = wanted.sample_ns.and_then(|every_ns| Sampler::start(pid, every_ns));
        place.insert(Program { pid, output: wanted.output.clone(), ended: None, sampler });
        Ok(reply::Spawn { pid })
    }

    /// What one of them, and all in its process group, has used so far.
    ///
    /// # Errors
    /// `bad-request` for an unknown name.
    pub fn progress(&self, wanted: &Progress) -> Result<reply::Progress, Error> {
        self.pid(&wanted.name).map(group_time::read)
    }

    /// A child was reaped: it may be one of them.
    pub fn note(&mut self, pid: u32, ended: Ended) {
        // The number of one that has ended may be another's by now.
        let living = self.0.values_mut().filter(|program| program.ended.is_none());
        for program in living.filter(|program| program.pid == pid) {
            program.ended = Some(ended);
        }
    }

    /// Ends one, and what it left behind in its process group.
    ///
    /// # Errors
    /// `bad-request` for an unknown name, `system` if it can be neither ended nor waited for.
    pub fn end(&mut self, wanted: &End, signals: &ChildSignals) -> Result<reply::End, Error> {
        let system = |cause: io::Error| Error::system(format!("end {}", wanted.name), &cause);
        let pid = self.pid(&wanted.name)?;
        // Before it ends: the last reading is of what ran.
        let sampler = self.0.get_mut(&wanted.name).and_then(|program| program.sampler.take());
        let samples = sampler.map(Sampler::finish);
        let before = self.wait(wanted, signals, 0).map_err(system)?;
        let mut ended = before;
        if ended.is_none() {
            sys::kill_group(pid, sys::Signal::TERM);
            ended = self.wait(wanted, signals, wanted.timeout_ns).map_err(system)?;
        }
        let killed = ended.is_none();
        sys::kill_group(pid, sys::Signal::KILL);
        if killed {
            ended = self.wait(wanted, signals, KILLED_NS).map_err(system)?;
        }
        let Some(ended) = ended else {
            return Err(system(io::Error::from(io::ErrorKind::TimedOut)));
        };
        let program = self.0.remove(&wanted.name);
        let output = program.map(|program| tail(&program.output, wanted.limit_bytes));
        Ok(reply::End {
            status: ended.status,
            signal: ended.signal,
            by_itself: before.is_some(),
            killed,
            output: output.and_then(Result::ok).unwrap_or_default(),
            samples,
        })
    }

    fn pid(&self, name: &str) -> Result<u32, Error> {
        let unknown = || Error::bad_request(format!("nothing runs under the name {name:?}"));
        self.0.get(name).map(|program| program.pid).ok_or_else(unknown)
    }

    /// Waits for its end; none if the time is over.
    fn wait(
        &mut self,
        wanted: &End,
        signals: &ChildSignals,
        timeout_ns: u64,
    ) -> io::Result<Option<Ended>> {
        let deadline_ns = monotonic_ns().saturating_add(timeout_ns);
        loop {
            for (pid, ended) in reap(signals)? {
                self.note(pid, ended);
            }
            let ended = self.0.get(&wanted.name).and_then(|program| program.ended);
            let left_ns = deadline_ns.saturating_sub(monotonic_ns());
            if ended.is_some() || left_ns == 0 {
                return Ok(ended);
            }
            sys::wait(&[(signals.as_fd(), false)], Some(left_ns))?;
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        for program in self.0.values() {
            sys::kill_group(program.pid, sys::Signal::KILL);
        }
    }
}

/// The end of a file.
fn tail(path: &str, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(limit_bytes)))?;
    let mut bytes = Vec::new();
    file.take(limit_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}
