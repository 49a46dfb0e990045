//! The end of an exchange that opens its connections. Each further one has a thread of its own, which waits for the
//! start.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use virtoll_proto::request::{Exchange, Side};

use super::serve::prepare;
use super::together::{Group, Outcome};
use super::{Carried, ask_of};

/// Open connections.
pub struct Opened {
    exchange: Exchange,
    own: Arc<TcpStream>,
    others: Vec<Waiting>,
    group: Arc<Group>,
}

/// A thread with its connection; it ends when it has done its part, or when it will not be told to begin any more.
struct Waiting {
    begin: Option<Sender<()>>,
    outcome: Receiver<Option<Carried>>,
    thread: Option<JoinHandle<()>>,
}

impl Opened {
    /// Opens all connections to the server.
    ///
    /// # Errors
    /// The call's.
    pub fn connect(exchange: &Exchange, at: SocketAddr, timeout_ns: u64) -> io::Result<Self> {
        let group = Arc::new(Group::default());
        let connect = || {
            let stream = TcpStream::connect_timeout(&at, Duration::from_nanos(timeout_ns.max(1)))?;
            prepare(&stream, timeout_ns)?;
            let stream = Arc::new(stream);
            group.add(&stream);
            io::Result::Ok(stream)
        };
        let own = connect()?;
        let others = (1..exchange.connections())
            .map(|number| Waiting::with(connect()?, exchange.clone(), number, &group))
            .collect::<io::Result<_>>()?;
        Ok(Self { exchange: exchange.clone(), own, others, group })
    }

    /// Does this end's part by all of them, which begin together; once.
    ///
    /// # Errors
    /// A connection's: it was closed, or nothing came for as long as its timeout says.
    pub fn carry_out(&self) -> io::Result<Outcome> {
        self.others.iter().for_each(Waiting::begin);
        let mut carried = vec![self.group.settle(ask_of(&self.exchange, 0, &self.own))];
        carried.extend(self.others.iter().map(|one| one.outcome.recv().ok().flatten()));
        self.group.outcome(&self.exchange, Side::Opener, carried)
    }
}

impl Waiting {
    fn with(
        stream: Arc<TcpStream>,
        exchange: Exchange,
        number: u32,
        group: &Arc<Group>,
    ) -> io::Result<Self> {
        let (begin, told) = channel();
        let (tell, outcome) = channel();
        let group = Arc::clone(group);
        let thread = thread::Builder::new().name("tcp".to_owned()).spawn(move || {
            if told.recv().is_ok() {
                // Nobody listens any more where the trial came to nothing.
                let _ = tell.send(group.settle(ask_of(&exchange, number, &stream)));
            }
        })?;
        Ok(Self { begin: Some(begin), outcome, thread: Some(thread) })
    }

    #[inline]
    fn begin(&self) {
        // A thread that is gone says nothing, and the exchange fails.
        let _ = self.begin.as_ref().map(|begin| begin.send(()));
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.begin = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
