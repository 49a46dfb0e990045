//! `enter`, by the real binary, in user namespaces that this test makes: no root is needed.
#![allow(clippy::missing_panics_doc)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use common::{BINARY, wait};
use virtoll_clock::Readings;

/// A folder of this test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("virtoll-enter-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn with_file(&self, name: &str, content: &str) -> String {
        fs::create_dir_all(self.0.join(name).parent().unwrap()).unwrap();
        fs::write(self.0.join(name), content).unwrap();
        self.path(name)
    }

    /// A root whose programs are the host's, once its /usr is shared.
    fn root(&self, name: &str) -> String {
        let root = self.0.join(name);
        for place in ["data", "dev", "proc", "run", "sys", "tmp", "usr"] {
            fs::create_dir_all(root.join(place)).unwrap();
        }
        for place in ["bin", "lib", "lib64"] {
            symlink(format!("usr/{place}"), root.join(place)).unwrap();
        }
        root.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `enter` with these words, in a user namespace where it is root.
fn enter(words: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", BINARY, "enter"]).args(words);
    command
}

/// A shell script in a user and mount namespace that `enter` is then called from as `$0`.
fn script(text: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "--propagation", "private"])
        .args(["sh", "-e", "-c", text, BINARY])
        .args(arguments);
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {complaint}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn complaint(mut command: Command, code: i32) -> String {
    let output = command.output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{complaint}");
    complaint
}

fn started(mut command: Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

fn line(output: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line.trim().to_owned()
}

#[test]
fn a_protected_program_has_few_rights_and_reads_the_kernels_settings_only() {
    let folder = Folder::new("protected");
    let root = folder.root("root");
    let text = "grep -E '^(CapBnd|CapEff|NoNewPrivs)' /proc/self/status; \
        for place in /proc/sys/kernel /proc/sys/vm /proc/sys/net /sys; do \
        echo $place $(grep \" $place \" /proc/self/mounts | tail -n 1 | cut -d ' ' -f 4 | cut -c 1-2); done; \
        cat /proc/sys/kernel/ostype; cat /proc/keys";
    let words = ["--unshare", "mount,pid", "--root", &root, "--share", "/usr", "/usr"];
    let mut command = enter(&words);
    command.args(["--protect", "--capabilities", "3000", "--", "/bin/sh", "-c", text]);
    let lines = said(&command.output().unwrap()).replace('\t', " ");
    let expected = "CapEff: 0000000000003000\nCapBnd: 0000000000003000\nNoNewPrivs: 1\n\
        /proc/sys/kernel ro\n/proc/sys/vm ro\n/proc/sys/net\n/sys ro\nLinux\n";
    assert_eq!(lines, expected);
}

#[test]
fn another_root_has_the_kernels_file_systems_and_is_not_written_to() {
    let folder = Folder::new("root");
    let root = folder.root("root");
    folder.with_file("a=b/file", "the host's\n");
    let shared = folder.path("a=b");
    let text = "cat /data/file; echo written > /data/new; \
        ls -d /proc/1 /sys/kernel /dev/null /dev/pts /dev/ptmx; \
        echo x > /tmp/new && echo y > /dev/null && cat /tmp/new; \
        (echo z > /new) 2> /dev/null || echo read-only; pwd";
    let words = ["--unshare", "mount,pid", "--root", &root, "--share", "/usr", "/usr"];
    let mut command = enter(&words);
    command.args(["--share", &shared, "/data", "--", "/bin/sh", "-c", text]);
    let lines = said(&command.output().unwrap());
    let expected =
        "the host's\n/dev/null\n/dev/ptmx\n/dev/pts\n/proc/1\n/sys/kernel\nx\nread-only\n/\n";
    assert_eq!(lines, expected);
    assert_eq!(fs::read_to_string(folder.0.join("a=b/new")).unwrap(), "written\n");
    assert!(fs::read_dir(folder.0.join("root/data")).unwrap().next().is_none());
    assert!(fs::read_dir(folder.0.join("root/dev")).unwrap().next().is_none());
}

#[test]
fn hierarchies_with_limits_are_shown_read_only() {
    let folder = Folder::new("cgroups");
    let root = folder.root("root");
    let own = Path::new("/sys/fs/cgroup");
    let wanted: Vec<&str> = if own.join("cgroup.controllers").is_file() {
        vec![""]
    } else {
        ["memory", "cpu", "unified"].into_iter().filter(|name| own.join(name).is_dir()).collect()
    };
    // A network namespace of its own lets an ordinary user have a fresh /sys.
    let words = ["--unshare", "mount,pid,net", "--root", &root, "--share", "/usr", "/usr"];
    let mut command = enter(&words);
    command.args(["--", "/bin/cat", "/proc/self/mountinfo"]);
    let mounts = said(&command.output().unwrap());
    let options_of = |target: &str| {
        let lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        lines.filter(|words| words[4] == target).map(|words| words[5].to_owned()).next_back()
    };
    assert!(options_of("/").is_some_and(|options| options.starts_with("ro")), "{mounts}");
    for name in wanted {
        let target = Path::new("/sys/fs/cgroup").join(name).display().to_string();
        let target = target.trim_end_matches('/');
        if let Some(options) = options_of(target) {
            // Where the kernel refuses a fresh /sys, this is the host's own.
            let fresh = mounts
                .lines()
                .any(|line| line.contains(" /sys ") && line.contains("- sysfs sysfs"));
            assert!(options.starts_with("ro") || !fresh, "{target}: {options}\n{mounts}");
        } else {
            panic!("{target} is missing\n{mounts}");
        }
    }
}

#[test]
fn an_ordinary_users_namespace_keeps_the_flags_of_the_file_system_below() {
    let folder = Folder::new("locked");
    folder.root("made");
    let text = "mount -t tmpfs -o nosuid,nodev,noatime tmpfs \"$1\"; cp -a \"$1-made/.\" \"$1/\"; \
        exec unshare --user --map-root-user \"$0\" enter --unshare mount,pid --root \"$1\" --share /usr /usr \
        -- /bin/sh -c 'while read -r line; do echo \"$line\"; done < /proc/self/mountinfo'";
    let place = folder.path("place");
    fs::create_dir(&place).unwrap();
    fs::rename(folder.path("made"), folder.path("place-made")).unwrap();
    let mounts = said(&script(text, &[&place]));
    let root = mounts.lines().rev().find(|line| line.split(' ').nth(4) == Some("/")).unwrap();
    let options: Vec<&str> = root.split(' ').nth(5).unwrap().split(',').collect();
    assert_eq!(options, ["ro", "nosuid", "nodev", "noatime"], "{mounts}");
}

#[test]
fn a_step_that_fails_is_told_with_its_target_and_the_reason() {
    let folder = Folder::new("failures");
    fs::create_dir(folder.path("empty")).unwrap();
    let (root, gone) = (folder.path("empty"), folder.path("gone"));
    let own = |words: &[&str]| {
        let mut command = enter(&["--unshare", "mount"]);
        command.args(words).args(["--", "true"]);
        complaint(command, 1)
    };
    let missing = "No such file or directory";
    assert_eq!(
        own(&["--root", &root]),
        format!("virtoll-agent: enter: mount on {root}/proc: {missing} (os error 2)\n")
    );
    assert!(
        own(&["--cgroup", &gone])
            .contains(&format!("cgroup file {gone} does not take the guest: {missing}"))
    );
    assert!(own(&["--hide", &gone]).contains(&format!("{gone} could not be hidden: {missing}")));
    assert!(
        own(&["--bind", &gone, &root])
            .contains(&format!("{gone} could not be shown at {root}: {missing}"))
    );
    assert!(
        own(&["--unmount", &root])
            .contains(&format!("{root} could not be unmounted: Invalid argument"))
    );
    assert!(own(&["--net", &gone]).contains(&format!("--net {gone}: {missing}")));
    assert!(own(&["--report", "77"]).contains("--report: Bad file descriptor"));
    assert!(
        complaint(enter(&["--", "no-such-program"]), 127).contains("no-such-program: No such file")
    );
    assert!(complaint(enter(&["--roof", "/"]), 2).contains("--roof"));
}

#[test]
fn a_group_is_joined_before_the_program_is_executed() {
    let folder = Folder::new("group");
    let (one, two) = (folder.with_file("one", ""), folder.with_file("two", ""));
    let output =
        enter(&["--cgroup", &one, "--cgroup", &two, "--", "cat", &one, &two]).output().unwrap();
    assert_eq!(said(&output), "00");
}

#[test]
fn a_program_is_pinned_and_found_by_path() {
    let output =
        enter(&["--cpus", "0", "--", "grep", "Cpus_allowed_list", "/proc/self/status"]).output();
    assert_eq!(said(&output.unwrap()).split_whitespace().last(), Some("0"));
}

#[test]
fn mounts_are_changed_in_the_given_order_and_for_the_program_alone() {
    let folder = Folder::new("mounts");
    for (name, content) in [("one/file", "one\n"), ("two/file", "two\n"), ("three/file", "three\n")]
    {
        folder.with_file(name, content);
    }
    let text = "mount --bind \"$1/two\" \"$1/three\"; \
        \"$0\" enter --unshare mount --unmount \"$1/three\" --bind \"$1/three\" \"$1/one\" --hide \"$1/two\" \
        -- sh -c 'cat \"$1/one/file\"; ls \"$1/two\"' sh \"$1\"; cat \"$1/one/file\" \"$1/two/file\" \"$1/three/file\"";
    let lines = said(&script(text, &[&folder.path("")]));
    assert_eq!(lines, "three\none\ntwo\ntwo\n");
}

#[test]
fn a_network_namespace_is_entered() {
    let text = "readlink /proc/self/ns/net; unshare --net \"$0\" enter --net /proc/$$/ns/net -- readlink /proc/self/ns/net; \
        \"$0\" enter --unshare net,uts,ipc,cgroup -- readlink /proc/self/ns/net";
    // The shell's own namespace must belong to the user namespace, for a process of it to come back.
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "sh", "-e", "-c", text, BINARY]);
    let lines = said(&command.output().unwrap());
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0], lines[1]);
    assert_ne!(lines[0], lines[2]);
}

#[test]
fn the_first_process_of_a_namespace_ends_with_the_one_that_waits_for_it() {
    let words = ["--unshare", "mount,pid", "--", "sh", "-c", "echo $$; exec sleep 1000"];
    let (mut parent, mut output) = started(enter(&words));
    assert_eq!(line(&mut output), "1");
    parent.kill().unwrap();
    assert_eq!(parent.wait().unwrap().signal(), Some(9));
    // The sleeper has the other end: it is gone, or this never returns.
    assert_eq!(output.read(&mut [0]).unwrap(), 0);
}

#[test]
fn it_ends_as_its_child_did() {
    for options in [["--reap"].as_slice(), &["--unshare", "pid"]] {
        let ending = |text: &str| {
            let mut command = enter(options);
            command.args(["--", "sh", "-c", text]).status().unwrap()
        };
        assert_eq!(ending("exit 0").code(), Some(0));
        assert_eq!(ending("exit 7").code(), Some(7));
    }
    let killed = enter(&["--reap", "--", "sh", "-c", "kill -TERM $$"]).status().unwrap();
    assert_eq!(killed.signal(), Some(15));
    assert!(
        complaint(enter(&["--reap", "--", "no-such-program"]), 127).contains("no-such-program")
    );
}

#[test]
fn daemons_that_the_program_leaves_are_reaped() {
    // In a session of its own, as a daemon is.
    let text = "setsid sh -c 'sleep 1000 > /dev/null & echo $!'; read line";
    let (mut parent, mut output) = started(enter(&["--reap", "--", "sh", "-c", text]));
    let daemon = line(&mut output);
    let stat = PathBuf::from(format!("/proc/{daemon}/stat"));
    let child_of = || {
        let text = fs::read_to_string(&stat).unwrap();
        text.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1).map(str::to_owned))
    };
    wait(|| child_of() == Some(parent.id().to_string()));
    assert!(Command::new("kill").args(["-KILL", &daemon]).status().unwrap().success());
    wait(|| !stat.exists());
    assert!(parent.try_wait().unwrap().is_none(), "the program is still there");
    drop(parent.stdin.take());
    assert_eq!(parent.wait().unwrap().code(), Some(1), "read found the end of its input");
}

#[test]
fn the_moment_of_execution_is_reported_and_the_descriptor_closed() {
    let folder = Folder::new("report");
    let file = folder.path("file");
    for options in ["", "--reap"] {
        let text = format!(
            "exec 7> \"$1\"; \"$0\" enter {options} --report 7 -- sh -c 'test ! -e /proc/self/fd/7 && cat \"$1\"' sh \"$1\""
        );
        let before = Readings::take().monotonic_ns;
        let lines = said(&script(&text, &[&file]));
        let after = Readings::take().monotonic_ns;
        let reported: u64 = lines.trim().parse().unwrap();
        assert!((before..=after).contains(&reported), "{before} {reported} {after}");
    }
}
