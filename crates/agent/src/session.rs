//! One session: takes requests in order, carries each out, answers it; forwards the terminal meanwhile.

use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Serialize;
use serde_json::Value;
use virtoll_clock::{Readings, monotonic_ns};
use virtoll_proto::reply::{self, Clocks, Empty};
use virtoll_proto::request::Traffic;
use virtoll_proto::{
    Answer, Error, ErrorKind, Event, LineTooLong, Operation, PROTOCOL, Ready, Request,
    check_version,
};

use crate::background::Background;
use crate::channel::Channel;
use crate::options::Role;
use crate::reap::reap;
use crate::sys::{self, ChildSignals};
use crate::tcp_exchange::Served;
use crate::terminal::Terminal;
use crate::timekeeper::Timekeeper;
use crate::traffic::beside::TrafficBeside;
use crate::traffic::halves::{self, OpenSink};
use crate::{
    counters, data, exec, facts, hand_over, http_load, network, path_delay, timed_job, traffic,
};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const BUILD: &str = env!("VIRTOLL_BUILD");
const TARGET: &str = env!("VIRTOLL_TARGET");

/// What `--version` prints.
pub fn version_line() -> String {
    format!("virtoll-agent {VERSION} protocol {PROTOCOL} build {BUILD}")
}

/// Why the session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Continue,
    Leave,
}

/// The agent's state between requests.
pub struct Session {
    channel: Channel,
    role: Role,
    signals: ChildSignals,
    terminal: Option<Terminal>,
    timekeeper: Timekeeper,
    sink: Option<OpenSink>,
    traffic: Option<TrafficBeside>,
    background: Background,
    served: Option<Served>,
    started: Readings,
    ready_monotonic_ns: u64,
}

impl Session {
    /// A session on an open channel; `started` is when the program began.
    ///
    /// # Errors
    /// No descriptor for SIGCHLD.
    pub fn new(channel: Channel, role: Role, started: Readings) -> io::Result<Self> {
        Ok(Self {
            channel,
            role,
            signals: ChildSignals::block()?,
            terminal: None,
            timekeeper: Timekeeper::default(),
            sink: None,
            traffic: None,
            background: Background::default(),
            served: None,
            started,
            ready_monotonic_ns: 0,
        })
    }

    /// Serves until the stream ends or `shutdown` was answered.
    ///
    /// # Errors
    /// The channel's; a broken pipe counts as its end.
    pub fn serve(mut self) -> io::Result<()> {
        match self.run() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }

    fn run(&mut self) -> io::Result<()> {
        self.ready_monotonic_ns = monotonic_ns();
        let ready = self.ready();
        self.channel.event(&Event::Ready(ready))?;
        loop {
            while let Some(line) = self.channel.next_line() {
                if self.take_line(line)? == Progress::Leave {
                    return Ok(());
                }
                self.reap_children()?;
            }
            if !self.wait()? {
                return Ok(());
            }
        }
    }

    fn ready(&self) -> Ready {
        Ready {
            protocol: PROTOCOL,
            version: VERSION.to_owned(),
            build: BUILD.to_owned(),
            role: self.role.to_string(),
            pid: std::process::id(),
            started_monotonic_ns: self.started.monotonic_ns,
            started_boottime_ns: self.started.boottime_ns,
            ready_monotonic_ns: self.ready_monotonic_ns,
        }
    }

    /// Waits for a request, an ended child or the terminal; false at the end of the stream.
    fn wait(&mut self) -> io::Result<bool> {
        let mut wanted = vec![(self.channel.input(), false), (self.signals.as_fd(), false)];
        if let Some(terminal) = &self.terminal {
            wanted.push((terminal.descriptor(), terminal.has_input()));
        }
        let ready = sys::wait(&wanted, None)?;
        if ready[1] {
            self.reap_children()?;
        }
        if let Some(terminal) = &mut self.terminal
            && ready.get(2) == Some(&true)
        {
            terminal.transfer(&mut self.channel)?;
        }
        if ready[0] { self.channel.fill() } else { Ok(true) }
    }

    fn reap_children(&mut self) -> io::Result<()> {
        for (pid, ended) in reap(&self.signals)? {
            self.background.note(pid, ended);
            if let Some(mut terminal) = self.terminal.take_if(|terminal| terminal.pid() == pid) {
                terminal.finish(&mut self.channel, ended)?;
            }
        }
        Ok(())
    }

    fn take_line(&mut self, line: Result<Vec<u8>, LineTooLong>) -> io::Result<Progress> {
        let line = match line {
            Ok(line) => line,
            Err(too_long) => {
                let error = Error::new(ErrorKind::Limit, too_long.to_string());
                self.channel.answer(&Answer::new(None, Err(error)))?;
                return Ok(Progress::Continue);
            }
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(Progress::Continue);
        }
        let request = match Request::parse(&line) {
            Ok(request) => request,
            Err(refusal) => {
                self.channel.answer(&Answer::new(refusal.id, Err(refusal.error)))?;
                return Ok(Progress::Continue);
            }
        };
        let leaving = request.operation == Operation::Shutdown {};
        let id = request.id;
        let result =
            catch_unwind(AssertUnwindSafe(|| self.carry_out(request))).unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::System, "the agent panicked; see its console"))
            });
        self.channel.answer(&Answer::new(Some(id), result))?;
        Ok(if leaving { Progress::Leave } else { Progress::Continue })
    }

    fn carry_out(&mut self, request: Request) -> Result<Value, Error> {
        match request.operation {
            Operation::Hello(hello) => {
                check_version(hello.protocol, VERSION)?;
                to_json(Ok(reply::Hello { ready: self.ready(), target: TARGET.into() }))
            }
            Operation::Clocks {} => to_json(Ok(clocks())),
            Operation::Facts {} => to_json(Ok(facts::collect())),
            Operation::Counters(wanted) => to_json(counters::collect(&wanted)),
            Operation::HandOver(wanted) => to_json(hand_over::measure(&wanted)),
            Operation::Data(wanted) => to_json(data::carry_out(&wanted)),
            Operation::Network(wanted) => to_json(network::apply(&wanted)),
            Operation::Run(run) => {
                to_json(timed_job::run(request.id, run, &mut self.channel, &self.signals))
            }
            Operation::Exec(command) => to_json(exec::run(&command, &self.signals)),
            Operation::Spawn(wanted) => to_json(self.background.spawn(&wanted)),
            Operation::Progress(wanted) => to_json(self.background.progress(&wanted)),
            Operation::End(wanted) => to_json(self.background.end(&wanted, &self.signals)),
            Operation::Shutdown {} => to_json(Ok(Empty {})),
            Operation::Terminal(wanted) => to_json(self.open_terminal(&wanted)),
            Operation::TerminalInput(input) => to_json(self.terminal()?.input(&input.data)),
            Operation::TerminalResize(size) => {
                to_json(self.terminal()?.resize(size.rows, size.columns))
            }
            Operation::TerminalClose {} => to_json(self.close_terminal()),
            Operation::TimekeeperStart(start) => {
                self.peer_only("timekeeper-start")?;
                to_json(self.timekeeper.start(&start.interface))
            }
            Operation::Marks(wanted) => {
                self.peer_only("marks")?;
                to_json(self.timekeeper.marks(&wanted))
            }
            Operation::PathDelay(wanted) => {
                self.peer_only("path-delay")?;
                to_json(path_delay::measure(&wanted))
            }
            Operation::Traffic(wanted) => {
                self.peer_only("traffic")?;
                to_json(traffic::run(&wanted))
            }
            Operation::TrafficStart(wanted) => {
                self.peer_only("traffic-start")?;
                // One that still runs belongs to a trial that came to nothing.
                self.traffic = None;
                self.traffic = Some(TrafficBeside::start(&wanted)?);
                to_json(Ok(Empty {}))
            }
            Operation::TrafficStop {} => {
                let started = self.traffic.take();
                let idle = || Error::bad_request("no traffic runs; send traffic-start first");
                to_json(started.ok_or_else(idle)?.stop())
            }
            Operation::HttpLoad(wanted) => {
                self.peer_only("http-load")?;
                to_json(http_load::run(&wanted))
            }
            // A guest may be what sends: then only the sink is outside.
            Operation::Send(wanted) => to_json(halves::send(&wanted)),
            Operation::SinkOpen(wanted) => {
                self.peer_only("sink-open")?;
                to_json(self.open_sink(wanted))
            }
            Operation::SinkFinish(totals) => to_json(self.take_sink()?.finish(&totals)),
            Operation::SinkClose {} => {
                self.take_sink()?.close();
                to_json(Ok(Empty {}))
            }
            Operation::Serve(wanted) => {
                // One that was left open belongs to a trial that came to nothing.
                self.served = None;
                let (served, answer) = Served::open(&wanted)?;
                self.served = Some(served);
                to_json(Ok(answer))
            }
            Operation::ServeFinish(wanted) => {
                to_json(self.take_served()?.finish(wanted.timeout_ns))
            }
            Operation::ServeClose {} => {
                self.served = None;
                to_json(Ok(Empty {}))
            }
        }
    }

    fn peer_only(&self, operation: &str) -> Result<(), Error> {
        if self.role == Role::Peer {
            return Ok(());
        }
        let sentence =
            format!("{operation} is an operation of the peer; this role is {}", self.role);
        Err(Error::unsupported(sentence))
    }

    fn open_terminal(&mut self, wanted: &virtoll_proto::request::Terminal) -> Result<Empty, Error> {
        if self.terminal.is_some() {
            return Err(Error::bad_request("a terminal is open; close it first"));
        }
        self.terminal = Some(Terminal::open(wanted)?);
        Ok(Empty {})
    }

    /// One that was left open belongs to a trial that came to nothing.
    fn open_sink(&mut self, wanted: Traffic) -> Result<reply::SinkOpen, Error> {
        if let Some(left) = self.sink.take() {
            left.close();
        }
        let (sink, answer) = OpenSink::open(wanted)?;
        self.sink = Some(sink);
        Ok(answer)
    }

    fn take_sink(&mut self) -> Result<OpenSink, Error> {
        self.sink.take().ok_or_else(|| Error::bad_request("no sink is open; send sink-open first"))
    }

    fn take_served(&mut self) -> Result<Served, Error> {
        self.served.take().ok_or_else(|| Error::bad_request("nothing is served; send serve first"))
    }

    fn terminal(&mut self) -> Result<&mut Terminal, Error> {
        self.terminal.as_mut().ok_or_else(|| Error::bad_request("no terminal is open"))
    }

    fn close_terminal(&mut self) -> Result<Empty, Error> {
        let mut terminal =
            self.terminal.take().ok_or_else(|| Error::bad_request("no terminal is open"))?;
        terminal
            .close(&mut self.channel, &self.signals, &mut self.background)
            .map_err(|cause| Error::system("terminal-close", &cause))?;
        Ok(Empty {})
    }
}

/// A reply as JSON.
fn to_json<T: Serialize>(reply: Result<T, Error>) -> Result<Value, Error> {
    serde_json::to_value(reply?)
        .map_err(|cause| Error::new(ErrorKind::System, format!("write the reply: {cause}")))
}

fn clocks() -> Clocks {
    let readings = Readings::take();
    Clocks {
        realtime_ns: readings.realtime_ns,
        monotonic_ns: readings.monotonic_ns,
        monotonic_raw_ns: readings.monotonic_raw_ns,
        boottime_ns: readings.boottime_ns,
    }
}
