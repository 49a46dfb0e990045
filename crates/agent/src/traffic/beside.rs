//! `traffic-start`, `traffic-stop`: traffic that goes on while the session takes other requests, as a load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use virtoll_proto::request::Traffic;
use virtoll_proto::{Error, ErrorKind, reply};

use super::{carry_out, keyed, plan};

type Outcome = Result<reply::traffic::Traffic, Error>;

/// Traffic on threads of its own. If it is dropped, it stops.
pub struct TrafficBeside {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Outcome>>,
}

impl TrafficBeside {
    /// Starts it; the first frame is due when this returns.
    ///
    /// # Errors
    /// As [`super::run`]: what kept it from sending.
    pub fn start(request: &Traffic) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let request = keyed(request)?;
        let mut plan = plan(&request)?;
        for source in &mut plan.sources {
            source.stop = Some(Arc::clone(&stop));
        }
        let (opened, is_open) = mpsc::channel();
        let work = move || {
            carry_out(&request, &plan, || {
                // Who waits for it may be gone: then it is stopped.
                let _ = opened.send(());
            })
        };
        let thread = thread::Builder::new()
            .name("traffic".to_owned())
            .spawn(work)
            .map_err(|cause| Error::system("start a thread for traffic", &cause))?;
        let mut started = Self { stop, thread: Some(thread) };
        match is_open.recv() {
            Ok(()) => Ok(started),
            Err(_) => Err(started.stop().err().unwrap_or_else(ended)),
        }
    }

    /// Stops it; the answer as `traffic` gives it, of what was due by now.
    ///
    /// # Errors
    /// As [`super::run`].
    pub fn stop(&mut self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        let joined = self.thread.take().map(JoinHandle::join);
        joined.and_then(Result::ok).unwrap_or_else(|| Err(ended()))
    }
}

fn ended() -> Error {
    Error::new(ErrorKind::System, "the thread that sends traffic panicked; see the agent's console")
}

impl Drop for TrafficBeside {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ = self.stop();
        }
    }
}
