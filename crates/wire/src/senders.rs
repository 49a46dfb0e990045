//! The threads that send: one for each generator, which may serve several sources.

use std::io;
use std::thread::{Scope, ScopedJoinHandle};

use virtoll_clock::{CpuTime, Scheduled, thread_cpu, thread_cpu_ns};

use crate::backend::{Generate, Refused, Start};
use crate::priority::prefer_this_thread;
use crate::source::{SourceCounts, SourcePlan};
use crate::sys;

/// A generator, and which of the plans it serves, in its order.
pub struct Sender {
    /// What sends.
    pub generator: Box<dyn Generate>,
    /// Places of its sources among the plans.
    pub sources: Vec<usize>,
}

/// CPU time of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadCost {
    /// As the kernel divides it.
    pub cpu: CpuTime,
    /// The whole, exactly.
    pub cpu_ns: u64,
    /// How long it was ready to run and had no CPU; none if the kernel does not say.
    pub waited_ns: Option<u64>,
}

/// The calling thread's CPU time when its work began.
#[derive(Clone, Copy, Debug)]
pub struct ThreadBegan {
    cpu: CpuTime,
    cpu_ns: u64,
    scheduled: Option<Scheduled>,
}

impl ThreadBegan {
    /// Now.
    pub fn now() -> Self {
        Self { cpu: thread_cpu(), cpu_ns: thread_cpu_ns(), scheduled: Scheduled::of_this_thread() }
    }

    /// What the calling thread used since.
    #[must_use]
    pub fn cost(self) -> ThreadCost {
        ThreadCost {
            cpu: thread_cpu().since(self.cpu),
            cpu_ns: thread_cpu_ns().saturating_sub(self.cpu_ns),
            waited_ns: waited_ns(self.scheduled, Scheduled::of_this_thread()),
        }
    }
}

/// Between two readings; none if one is missing, or if the kernel keeps no times (then all of them are zero).
fn waited_ns(before: Option<Scheduled>, after: Option<Scheduled>) -> Option<u64> {
    let (before, after) = before.zip(after)?;
    (after.ran_ns > 0).then(|| after.waited_ns.saturating_sub(before.waited_ns))
}

/// What one source sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Its counts.
    pub counts: SourceCounts,
    /// The number of the thread that sent it, perhaps with others.
    pub thread: usize,
    /// What that thread cost.
    pub cost: ThreadCost,
}

/// Runs `work` on the calling thread, pinned and with priority; its result and CPU time.
///
/// # Errors
/// The work's, or that of pinning.
pub fn on_core<T>(
    cpu: Option<u32>,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<(T, ThreadCost)> {
    let pinned = cpu.map_or(Ok(()), sys::pin_thread);
    prefer_this_thread();
    let began = ThreadBegan::now();
    let result = work();
    let cost = began.cost();
    pinned.and(result).map(|value| (value, cost))
}

/// What a sending thread ends with.
pub type Outcome = io::Result<(Vec<SourceCounts>, ThreadCost)>;
/// A sending thread.
pub type Thread<'scope> = ScopedJoinHandle<'scope, Outcome>;

/// Starts a thread for each generator; they send once all are ready.
pub fn spawn<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    senders: &'env mut [Sender],
    plans: &'env [SourcePlan],
    start: &'env Start,
) -> Vec<Thread<'scope>> {
    let spawn = |sender: &'env mut Sender| {
        let cpu = plans[sender.sources[0]].cpu;
        scope.spawn(move || on_core(cpu, || sender.generator.generate(start)))
    };
    senders.iter_mut().map(spawn).collect()
}

/// Completes the counts of threads that have ended, in the order of the plans.
///
/// # Errors
/// What failed while sending, and on which interface.
pub fn gather(
    results: Vec<std::thread::Result<Outcome>>,
    senders: &mut [Sender],
    plans: &[SourcePlan],
) -> Result<Vec<Sent>, Refused> {
    let mut all: Vec<Option<Sent>> = vec![None; plans.len()];
    for (thread, (result, sender)) in results.into_iter().zip(senders).enumerate() {
        let on = || plans[sender.sources[0]].interface.clone();
        let refused = |cause| Refused { on: on(), cause };
        let panicked = |_| Err(io::Error::other("a traffic thread panicked"));
        let (mut counts, cost) = result.unwrap_or_else(panicked).map_err(refused)?;
        sender.generator.settle(&mut counts).map_err(refused)?;
        for (place, counts) in sender.sources.iter().zip(counts) {
            all[*place] = Some(Sent { counts, thread, cost });
        }
    }
    Ok(all.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::{Scheduled, waited_ns};

    fn at(ran_ns: u64, waited_ns: u64) -> Scheduled {
        Scheduled { ran_ns, waited_ns }
    }

    #[test]
    fn a_threads_wait_is_what_came_between_two_readings() {
        assert_eq!(waited_ns(Some(at(5, 100)), Some(at(9, 130))), Some(30));
        assert_eq!(waited_ns(Some(at(0, 0)), Some(at(9, 0))), Some(0));
    }

    #[test]
    fn a_wait_is_unknown_without_both_readings_or_without_times() {
        assert_eq!(waited_ns(None, Some(at(9, 130))), None);
        assert_eq!(waited_ns(Some(at(5, 100)), None), None);
        assert_eq!(waited_ns(Some(at(0, 0)), Some(at(0, 0))), None);
    }
}
