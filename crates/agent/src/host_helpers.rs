//! Helper commands for hosts that the controller reaches over SSH: `relay`, `keep`, `undo` and `page-cache`. `hold` is an
//! idle init for containers.
//!
//! Each of the first three ends when its standard input ends, which is when the connection closes or the controller dies; it then
//! removes what it started. `docs/protocol.md` specifies them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Read, Write};
use std::iter::once;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use lexopt::Parser;
use lexopt::prelude::{Long, Value, ValueExt};
use serde::Deserialize;

use crate::command_line::Failure;
use crate::data;
use crate::reap::reap;
use crate::sys;

/// How long `relay` waits for its path to be there, if not stated.
const RELAY_WAIT: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const LEAVE: Duration = Duration::from_secs(1);
const LEAVE_AFTER_SIGTERM: Duration = Duration::from_secs(1);
const UNDO_SECONDS: Duration = Duration::from_secs(30);
const PORTION_BYTES: usize = 64 << 10;

/// The first process of a container whose agent comes in later (`vzctl exec3`, `vserver ... exec`).
pub const HOLD: &str = "hold";

/// Reaps the container's orphans until a signal asks it to end. Further arguments are those of an init and are ignored.
fn hold() -> io::Result<ExitCode> {
    let (end, children) = (sys::EndSignals::block()?, sys::ChildSignals::block()?);
    thread::spawn(move || {
        while sys::wait(&[(children.as_fd(), false)], None).is_ok() {
            let _ = reap(&children);
        }
    });
    end.wait();
    Ok(ExitCode::SUCCESS)
}

/// Runs one of the five commands; None if the first argument names none of them.
pub fn run(arguments: &[String]) -> Option<ExitCode> {
    let (first, rest) = arguments.split_first()?;
    let done = match first.as_str() {
        "relay" => relay_arguments(rest).and_then(|(path, wait)| {
            relay(&path, wait).map_err(|cause| Failure::Work(format!("{path}: {cause}")))
        }),
        "keep" => keep(rest),
        "undo" => undo(rest),
        "page-cache" => page_cache(rest),
        HOLD => hold().map_err(|cause| Failure::Work(cause.to_string())),
        _ => return None,
    };
    Some(done.unwrap_or_else(|failure| failure.of(first).report()))
}

fn relay_arguments(rest: &[String]) -> Result<(String, Duration), Failure> {
    let (mut path, mut wait) = (None, RELAY_WAIT);
    let mut parser = Parser::from_args(rest);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seconds") => {
                let text = parser.value()?.string()?;
                let seconds = text
                    .parse()
                    .map_err(|_| usage(format!("--seconds {text}: give a whole number")))?;
                wait = Duration::from_secs(seconds);
            }
            Value(value) if path.is_none() => path = Some(value.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let path = path.ok_or_else(|| usage("usage: relay [--seconds N] PATH"))?;
    Ok((path, wait))
}

/// Prints how many bytes of a folder's files are in the page cache; with `--evict` after they were written back and
/// forgotten.
fn page_cache(rest: &[String]) -> Result<ExitCode, Failure> {
    let (mut path, mut evict) = (None, false);
    let mut parser = Parser::from_args(rest);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("evict") => evict = true,
            Value(value) if path.is_none() => path = Some(value.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let path = path.ok_or_else(|| usage("usage: page-cache [--evict] FOLDER"))?;
    let resident = data::resident_below(Path::new(&path), evict)
        .map_err(|cause| format!("{path}: {cause}"))?;
    println!("{resident}");
    Ok(ExitCode::SUCCESS)
}

fn usage(sentence: impl Into<String>) -> Failure {
    Failure::Usage(sentence.into())
}

/// Standard input to a Unix socket or a character device, and that to standard output, until either ends.
fn relay(path: &str, wait: Duration) -> io::Result<ExitCode> {
    let (mut from, mut to) = open_either(path, wait)?;
    let (ended, end) = channel();
    let other = ended.clone();
    thread::spawn(move || {
        let result = carry(&mut io::stdin().lock(), &mut to);
        let _ = ended.send(result);
    });
    thread::spawn(move || {
        let result = carry(&mut from, &mut io::stdout().lock());
        let _ = other.send(result);
    });
    match end.recv() {
        Ok(Ok(())) | Err(_) => Ok(ExitCode::SUCCESS),
        // The far side of a pty that was closed, and a reader that is gone, are ends as well.
        Ok(Err(cause)) if matches!(cause.raw_os_error(), Some(libc::EIO | libc::EPIPE)) => {
            Ok(ExitCode::SUCCESS)
        }
        Ok(Err(cause)) => Err(cause),
    }
}

fn carry(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut portion = vec![0; PORTION_BYTES];
    loop {
        match from.read(&mut portion) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&portion[..count])?;
                to.flush()?;
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
}

type Halves = (Box<dyn Read + Send>, Box<dyn Write + Send>);

fn open_either(path: &str, wait: Duration) -> io::Result<Halves> {
    let begun = Instant::now();
    loop {
        match try_open(path) {
            Ok(halves) => return Ok(halves),
            Err(cause) if begun.elapsed() >= wait => return Err(cause),
            Err(_) => thread::sleep(LOOK_AGAIN),
        }
    }
}

fn try_open(path: &str) -> io::Result<Halves> {
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_socket() {
        let stream = UnixStream::connect(path)?;
        return Ok((Box::new(stream.try_clone()?), Box::new(stream)));
    }
    if !kind.is_char_device() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "neither a socket nor a character device",
        ));
    }
    let device: File =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(path)?;
    sys::make_raw(device.as_fd())?;
    Ok((Box::new(device.try_clone()?), Box::new(device)))
}

enum Happened {
    InputEnded,
    Signalled,
    Exited(io::Result<std::process::ExitStatus>),
}

/// Runs a program in a new session and ends that session when this process's standard input ends.
fn keep(rest: &[String]) -> Result<ExitCode, Failure> {
    let (cpus, argv) = keep_arguments(rest)?;
    if let Some(cpus) = cpus {
        sys::pin(&cpus).map_err(|cause| format!("--cpus: {cause}"))?;
    }
    let (program, arguments) =
        argv.split_first().ok_or_else(|| usage("usage: keep [--cpus LIST] -- ARGV..."))?;
    let signals = sys::EndSignals::block().map_err(|cause| format!("signals: {cause}"))?;
    sys::adopt_orphans().map_err(|cause| format!("prctl: {cause}"))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped());
    sys::in_session_of_its_own(&mut command);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(cause) => {
            eprintln!("virtoll-agent: {}: {cause}", program.display());
            return Ok(ExitCode::from(127));
        }
    };
    let pid = child.id();
    let (say, heard) = channel();
    listen(&mut child, signals, &say);
    let waiter = say;
    thread::spawn(move || {
        let status = child.wait();
        let _ = waiter.send(Happened::Exited(status));
    });
    Ok(watch(&heard, pid))
}

fn keep_arguments(rest: &[String]) -> Result<(Option<Vec<usize>>, Vec<OsString>), Failure> {
    let mut cpus = None;
    let mut parser = Parser::from_args(rest);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("cpus") => {
                let list = parser.value()?.string()?;
                let numbers = list.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>();
                cpus = Some(numbers.map_err(|_| {
                    usage(format!("--cpus {list}: give numbers, with commas between"))
                })?);
            }
            Value(program) => return Ok((cpus, once(program).chain(parser.raw_args()?).collect())),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok((cpus, Vec::new()))
}

fn listen(child: &mut Child, signals: sys::EndSignals, say: &Sender<Happened>) {
    let (input, signalled) = (say.clone(), say.clone());
    let child_input = child.stdin.take();
    thread::spawn(move || {
        if let Some(mut to) = child_input {
            // A program that reads nothing more is still kept until our own input ends.
            if carry(&mut io::stdin().lock(), &mut to).is_err() {
                drop(to);
                let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            }
        }
        let _ = input.send(Happened::InputEnded);
    });
    thread::spawn(move || {
        signals.wait();
        let _ = signalled.send(Happened::Signalled);
    });
}

/// The program's exit code. After the end of the input the program gets [`LEAVE`], then SIGTERM, then SIGKILL with all its
/// descendants.
fn watch(heard: &Receiver<Happened>, pid: u32) -> ExitCode {
    let mut stage = 0;
    loop {
        let next = match stage {
            0 => heard.recv().ok(),
            2 => heard.recv_timeout(LEAVE_AFTER_SIGTERM).ok(),
            _ => heard.recv_timeout(LEAVE).ok(),
        };
        match next {
            Some(Happened::Exited(status)) => {
                if stage > 0 {
                    sys::kill_group(pid, sys::Signal::KILL);
                }
                sys::end_children();
                return exit_code(status);
            }
            Some(Happened::InputEnded | Happened::Signalled) => stage = stage.max(1),
            None if stage == 1 => {
                sys::kill_group(pid, sys::Signal::TERM);
                stage = 2;
            }
            None if stage == 2 => {
                sys::kill_group(pid, sys::Signal::KILL);
                sys::end_children();
                stage = 3;
            }
            None => return ExitCode::FAILURE,
        }
    }
}

fn exit_code(status: io::Result<std::process::ExitStatus>) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    status.map_or(ExitCode::FAILURE, |status| {
        let code = status.code().or_else(|| status.signal().map(|number| 128 + number));
        ExitCode::from(u8::try_from(code.unwrap_or(1)).unwrap_or(1))
    })
}

#[derive(Deserialize)]
struct Line {
    id: u64,
    #[serde(default)]
    add: Option<Vec<String>>,
}

/// Stores commands, and runs those that were not dropped, newest first, when its standard input ends.
fn undo(rest: &[String]) -> Result<ExitCode, Failure> {
    let mut parser = Parser::from_args(rest);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("unlink-self") => std::env::current_exe()
                .and_then(std::fs::remove_file)
                .map_err(|cause| format!("remove its own file: {cause}"))?,
            other => return Err(other.unexpected().into()),
        }
    }
    let signals = sys::EndSignals::block().map_err(|cause| format!("signals: {cause}"))?;
    sys::leave_session();
    let (say, heard) = channel();
    let signalled = say.clone();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if say.send(Some(line)).is_err() {
                return;
            }
        }
        let _ = say.send(None);
    });
    thread::spawn(move || {
        signals.wait();
        let _ = signalled.send(None);
    });
    let mut promised: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    while let Ok(Some(line)) = heard.recv() {
        let Ok(line) = serde_json::from_str::<Line>(&line) else { continue };
        match line.add {
            Some(argv) => promised.insert(line.id, argv),
            None => promised.remove(&line.id),
        };
        // The reader may be gone already; the stored commands still run.
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{{\"id\":{},\"ok\":true}}", line.id).and_then(|()| out.flush());
    }
    for argv in promised.values().rev() {
        run_promised(argv);
    }
    Ok(ExitCode::SUCCESS)
}

fn run_promised(argv: &[String]) {
    let Some((program, arguments)) = argv.split_first() else { return };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    sys::in_session_of_its_own(&mut command);
    let Ok(mut child) = command.spawn() else { return };
    let begun = Instant::now();
    while begun.elapsed() < UNDO_SECONDS {
        match child.try_wait() {
            Ok(None) => thread::sleep(LOOK_AGAIN),
            _ => return,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_commands_options_are_read() {
        let relay = |text: &str| relay_arguments(&words(text));
        assert_eq!(relay("/dev/x"), Ok(("/dev/x".to_owned(), RELAY_WAIT)));
        let three = Duration::from_secs(3);
        assert_eq!(relay("--seconds 3 /dev/x"), Ok(("/dev/x".to_owned(), three)));
        let keep = |text: &str| keep_arguments(&words(text));
        let program: Vec<OsString> = vec!["ls".into(), "-l".into(), "--cpus".into()];
        assert_eq!(keep("-- ls -l --cpus"), Ok((None, program.clone())));
        assert_eq!(keep("--cpus 0,2 -- ls -l --cpus"), Ok((Some(vec![0, 2]), program)));
        assert_eq!(keep("--cpus 1"), Ok((Some(vec![1]), Vec::new())));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, wanted) in [("", "PATH"), ("--seconds x /a", "--seconds x"), ("/a /b", "/b")] {
            let refusal = relay_arguments(&words(text)).unwrap_err();
            assert!(matches!(&refusal, Failure::Usage(sentence) if sentence.contains(wanted)));
        }
        for (text, wanted) in [("--cpus 0-2 -- ls", "--cpus 0-2"), ("--cpu 1 -- ls", "--cpu")] {
            let refusal = keep_arguments(&words(text)).unwrap_err();
            assert!(matches!(&refusal, Failure::Usage(sentence) if sentence.contains(wanted)));
        }
        let refusal = undo(&words("--unlink")).unwrap_err();
        assert!(matches!(&refusal, Failure::Usage(sentence) if sentence.contains("--unlink")));
    }
}
