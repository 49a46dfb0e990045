//! `virtoll-agent`: the one binary of the data plane, in three roles.
//!
//! As PID 1 of a virtual machine it sets the machine up, finds its channel and serves; as an ordinary process it serves
//! on stdio or on a given path. `docs/protocol.md` says what it serves.

#[cfg(test)]
mod any_text;
mod background;
mod channel;
mod clock_rate;
mod command_line;
mod counters;
mod data;
mod disks;
mod enter;
mod exec;
mod facts;
mod group_time;
mod hand_over;
mod host_helpers;
mod http_load;
mod idle;
mod init;
mod isolated_namespace;
mod marks;
mod network;
mod options;
mod path_delay;
mod processors;
mod reap;
mod session;
mod sys;
mod tcp_exchange;
mod terminal;
mod timed_job;
mod timekeeper;
mod traffic;
mod wire;
mod workloads;

use std::fmt;
use std::io;
use std::process::ExitCode;

use channel::Channel;
use command_line::Failure;
use options::{Command, Options};
use session::Session;
use virtoll_clock::Readings;

fn main() -> ExitCode {
    let started = Readings::take();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let held = arguments.first().is_some_and(|word| word == host_helpers::HOLD);
    let plain = !arguments.iter().any(|argument| argument.starts_with("--"));
    if std::process::id() == 1 && plain && !held {
        // A machine's first process: it never returns, since the kernel would panic.
        init::run_machine(&arguments, started);
    }
    if arguments.first().is_some_and(|word| word == enter::ENTER) {
        return enter::run(&arguments[1..]);
    }
    let done = match arguments.first().map(String::as_str) {
        Some("wire") => Some(wire::run(&arguments[1..])),
        Some(clock_rate::CLOCK_RATE) => Some(clock_rate::run(&arguments[1..])),
        _ => None,
    };
    if let Some(done) = done {
        return done.map_or_else(Failure::report, |()| ExitCode::SUCCESS);
    }
    if let Some(code) = host_helpers::run(&arguments) {
        return code;
    }
    let options = match options::parse(&arguments) {
        Ok(Command::Version) => {
            println!("{}", session::version_line());
            return ExitCode::SUCCESS;
        }
        Ok(Command::Serve(options)) => options,
        Err(cause) => return Failure::from(cause).report(),
    };
    if let Err(error) = prepare(&options) {
        return Failure::Work(error.to_string()).report();
    }
    match serve(&options, started) {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            eprintln!("virtoll-agent: {} channel: {cause}", options.channel);
            ExitCode::FAILURE
        }
    }
}

/// What must be done before the channel is opened, as long as there is one thread.
fn prepare(options: &Options) -> Result<(), PrepareError> {
    if options.unlink_self {
        std::env::current_exe().and_then(std::fs::remove_file).map_err(PrepareError::OwnFile)?;
    }
    options
        .pairs
        .map_or(Ok(()), |pairs| isolated_namespace::make_pairs(pairs).map_err(PrepareError::Pairs))
}

/// Why the agent cannot serve.
#[derive(Debug)]
enum PrepareError {
    /// Its own file cannot be removed.
    OwnFile(io::Error),
    /// The veth pairs cannot be made.
    Pairs(io::Error),
}

impl fmt::Display for PrepareError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnFile(cause) => write!(to, "remove its own file: {cause}"),
            Self::Pairs(cause) => write!(to, "make veth pairs in a network namespace: {cause}"),
        }
    }
}

/// Serves until the stream ends or `shutdown` comes.
fn serve(options: &Options, started: Readings) -> io::Result<()> {
    let channel = Channel::open(&options.channel, options.paced)?;
    Session::new(channel, options.role, started)?.serve()
}
