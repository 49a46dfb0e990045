//! The options of `enter`.

use std::ffi::OsString;
use std::iter::once;
use std::path::PathBuf;

use lexopt::Parser;
use lexopt::prelude::{Long, Value};

use super::sys::Namespaces;
use crate::command_line::{Failure, number, value};

/// A change of the table of mounts.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The first path is shown at the second.
    Bind(PathBuf, PathBuf),
    /// What is mounted at the path is taken away, with all below it.
    Unmount(PathBuf),
    /// An empty file system is mounted over the folder.
    Hide(PathBuf),
    /// The file system in the file is mounted at the folder, for reading only.
    Disk(PathBuf, PathBuf),
}

/// What is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// `cgroup.procs` files of the groups to be joined.
    pub cgroups: Vec<PathBuf>,
    /// The CPUs that the program is pinned to; none: any.
    pub cpus: Vec<usize>,
    /// A network namespace to be entered.
    pub network: Option<PathBuf>,
    /// Namespaces of the program's own.
    pub namespaces: Namespaces,
    /// Mounts in the order in which they were given.
    pub steps: Vec<Step>,
    /// The folder that becomes the root.
    pub root: Option<PathBuf>,
    /// Folders and their places below that root.
    pub shares: Vec<(PathBuf, PathBuf)>,
    /// Whether what of /proc and /sys is the whole kernel's is hidden or shown for reading only.
    pub protect: bool,
    /// The capabilities that the program may have at most, as the kernel's mask; none: all that there are.
    pub capabilities: Option<u64>,
    /// Whether this process stays and reaps the daemons that the program leaves.
    pub reap: bool,
    /// The descriptor that is reported when the program is executed.
    pub report: Option<i32>,
    /// The program and its arguments.
    pub program: Vec<OsString>,
}

/// Reads the words after the command's name.
///
/// # Errors
/// A sentence that names the option, or what is missing.
pub fn parse(words: &[String]) -> Result<Arguments, Failure> {
    let mut asked = Arguments::default();
    let mut parser = Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("cgroup") => asked.cgroups.push(path(&mut parser)?),
            Long("cpus") => asked.cpus = value(&mut parser, "--cpus", cpus)?,
            Long("net") => asked.network = Some(path(&mut parser)?),
            Long("unshare") => {
                asked.namespaces = value(&mut parser, "--unshare", Namespaces::from_names)?;
            }
            Long("bind") => {
                asked.steps.push(Step::Bind(path(&mut parser)?, path(&mut parser)?));
            }
            Long("unmount") => asked.steps.push(Step::Unmount(path(&mut parser)?)),
            Long("hide") => asked.steps.push(Step::Hide(path(&mut parser)?)),
            Long("disk") => {
                asked.steps.push(Step::Disk(path(&mut parser)?, path(&mut parser)?));
            }
            Long("root") => asked.root = Some(path(&mut parser)?),
            Long("share") => asked.shares.push((path(&mut parser)?, path(&mut parser)?)),
            Long("protect") => asked.protect = true,
            Long("capabilities") => {
                asked.capabilities = Some(value(&mut parser, "--capabilities", mask)?);
            }
            Long("reap") => asked.reap = true,
            Long("report") => asked.report = Some(value(&mut parser, "--report", number)?),
            Value(program) => {
                asked.program = once(program).chain(parser.raw_args()?).collect();
                break;
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if asked.program.is_empty() {
        return Err(Failure::Usage("usage: enter [OPTION]... -- PROGRAM [ARGUMENT]...".to_owned()));
    }
    if asked.root.is_none() && !asked.shares.is_empty() {
        return Err(Failure::Usage("--share needs --root".to_owned()));
    }
    Ok(asked)
}

fn path(parser: &mut Parser) -> Result<PathBuf, lexopt::Error> {
    Ok(PathBuf::from(parser.value()?))
}

fn mask(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

fn cpus(text: &str) -> Option<Vec<usize>> {
    text.split(',').map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_text::any_text;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any_text(&["--cgroup", "--cpus", "--net", "--unshare", "mount,pid", "--bind", "/a:/b", "--root", "--", "--report", "3", "--capabilities", "0-3", "program"])) {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            let _ = parse(&words);
        }
    }

    fn parsed(text: &str) -> Result<Arguments, Failure> {
        parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn all_options_are_read() {
        let asked = parsed(
            "--cgroup /a --cgroup /b --cpus 0,2 --net /n --unshare mount,pid --bind /x /y --unmount /z --bind /v /w \
             --hide /h --disk /d /m --root /r --share /f=1 /data --reap --report 7 -- ls --root -l",
        )
        .unwrap();
        assert_eq!(asked.cgroups, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(asked.cpus, [0, 2]);
        assert_eq!(asked.network, Some("/n".into()));
        assert_eq!(Some(asked.namespaces), Namespaces::from_names("mount,pid"));
        let steps = [
            Step::Bind("/x".into(), "/y".into()),
            Step::Unmount("/z".into()),
            Step::Bind("/v".into(), "/w".into()),
            Step::Hide("/h".into()),
            Step::Disk("/d".into(), "/m".into()),
        ];
        assert_eq!(asked.steps, steps);
        assert_eq!(asked.root, Some("/r".into()));
        assert_eq!(asked.shares, [("/f=1".into(), "/data".into())]);
        assert!(asked.reap);
        assert_eq!(asked.report, Some(7));
        assert_eq!(asked.program, ["ls", "--root", "-l"].map(OsString::from));
        let plain = Arguments { program: vec!["true".into()], ..Arguments::default() };
        assert_eq!(parsed("-- true"), Ok(plain));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, wanted) in [
            ("", "PROGRAM"),
            ("--cpus 0-2 -- ls", "0-2"),
            ("--unshare mount,disk -- ls", "mount,disk"),
            ("--report out -- ls", "out"),
            ("--bind /a", "--bind"),
            ("--roof /a -- ls", "--roof"),
            ("--share /a /b -- ls", "--root"),
        ] {
            let refusal = parsed(text).unwrap_err();
            assert!(
                matches!(&refusal, Failure::Usage(sentence) if sentence.contains(wanted)),
                "{refusal:?}"
            );
        }
    }
}
