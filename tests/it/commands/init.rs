//! `init` writes a configuration that works, asks plainly, and leaves nothing behind otherwise.

pub(crate) mod terminal;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use std::io::Write;

use crate::support::{ClosedPort, Workspace};
use terminal::Terminal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_shopmirror");

/// Another user of this machine, in no group. Only root can switch to it.
const STRANGER: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// An empty folder in which `init` runs, and a folder beside it with a key file.
struct Empty {
    folder: tempfile::TempDir,
    beside: tempfile::TempDir,
}

impl Empty {
    fn new(key: &str) -> Self {
        let empty =
            Self { folder: tempfile::tempdir().unwrap(), beside: tempfile::tempdir().unwrap() };
        fs::write(empty.key_file(), key).unwrap();
        fs::set_permissions(empty.key_file(), fs::Permissions::from_mode(0o600)).unwrap();
        empty
    }

    fn key_file(&self) -> String {
        self.beside.path().join("key").display().to_string()
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn command(&self, wrapper: &[&str], args: &[&str]) -> Command {
        let all: Vec<&str> = wrapper.iter().chain([&PROGRAM]).chain(args).copied().collect();
        let mut command = Command::new(all[0]);
        command.args(&all[1..]).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("NO_COLOR", "1").current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// `init --config config.toml` with further arguments, beside the test's own server.
    async fn init(&self, args: &[&str]) -> Output {
        self.init_by(&[], args).await
    }

    async fn init_by(&self, wrapper: &[&str], args: &[&str]) -> Output {
        let all: Vec<&str> =
            ["--config", "config.toml", "init"].into_iter().chain(args.iter().copied()).collect();
        let mut command = self.command(wrapper, &all);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    /// As [`Self::init`], with `text` on standard input.
    async fn init_with_input(&self, text: &str, args: &[&str]) -> Output {
        let all: Vec<&str> =
            ["--config", "config.toml", "init"].into_iter().chain(args.iter().copied()).collect();
        let mut command = self.command(&[], &all);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let text = text.to_owned();
        tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        })
        .await
        .unwrap()
    }
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[tokio::test]
async fn a_configuration_made_by_init_polls_the_workspace_at_once() {
    let workspace = Workspace::start().await;
    let empty = Empty::new(&workspace.sandbox.automation_key());
    let address = workspace.base_url();
    let output = empty.init(&["--address", address, "--key-file", &empty.key_file()]).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(empty.names(), ["api-key", "config.toml"]);
    assert_eq!((mode(&empty.path("api-key")), mode(&empty.path("config.toml"))), (0o600, 0o640));
    for words in ["answers: connected", "wrote", "at most 45 times in 60 seconds", " once\n"] {
        assert!(said(&output).contains(words), "{words}: {}", said(&output));
    }
    assert!(!said(&output).contains(&workspace.sandbox.automation_key()));
    for command in ["check", "once"] {
        let mut command = empty.command(&[], &[command]);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    assert!(empty.path("mirror.db").exists());
}

#[tokio::test]
async fn the_key_may_come_on_standard_input() {
    let workspace = Workspace::start().await;
    let key = workspace.sandbox.automation_key();
    let empty = Empty::new("");
    let args = ["--address", workspace.base_url(), "--key-file", "-"];
    let output = empty.init_with_input(&format!("{key}\n"), &args).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(fs::read_to_string(empty.path("api-key")).unwrap(), format!("{key}\n"));
    for input in ["", "two words", &"k".repeat(9000)] {
        let empty = Empty::new("");
        let output = empty.init_with_input(input, &args).await;
        assert_ne!(output.status.code(), Some(0), "{}", said(&output));
        assert_eq!(empty.names(), [""; 0], "{}", said(&output));
    }
}

#[tokio::test]
async fn whatever_is_wrong_is_said_and_leaves_nothing_behind() {
    let workspace = Workspace::start().await;
    let intake = workspace.sandbox.rest_key();
    let (right, address) = (workspace.sandbox.automation_key(), workspace.base_url());
    let port = ClosedPort::new();
    let closed = port.base_url();
    for (key, address, code, words) in [
        ("no-such-key", address, 77, "refused this key: copy the current automation key"),
        (&intake, address, 77, "automation"),
        (&right, &closed, 75, "could not connect"),
        (&right, "http://example.com/api", 64, "must begin with https://"),
        (&right, "https://example.com/shop", 64, "must end in /api"),
        ("two words", address, 78, "on one line"),
    ] {
        let empty = Empty::new(key);
        let output = empty.init(&["--address", address, "--key-file", &empty.key_file()]).await;
        assert_eq!(output.status.code(), Some(code), "{address}: {}", said(&output));
        assert!(said(&output).contains(words), "{words}: {}", said(&output));
        assert!(!said(&output).contains(key), "{}", said(&output));
        assert_eq!(empty.names(), [""; 0], "{}", said(&output));
    }
}

#[tokio::test]
async fn no_file_is_overwritten() {
    let workspace = Workspace::start().await;
    let asked = workspace.sandbox.requests().total;
    for name in ["config.toml", "api-key"] {
        let empty = Empty::new(&workspace.sandbox.automation_key());
        let args = ["--address", workspace.base_url(), "--key-file", &empty.key_file()];
        // A link to nothing is a name that is taken, too.
        std::os::unix::fs::symlink(empty.path("elsewhere"), empty.path(name)).unwrap();
        let output = empty.init(&args).await;
        assert_eq!(output.status.code(), Some(64), "{}", said(&output));
        fs::remove_file(empty.path(name)).unwrap();
        fs::write(empty.path(name), "mine").unwrap();
        let output = empty.init(&args).await;
        assert_eq!(output.status.code(), Some(64), "{}", said(&output));
        assert!(said(&output).contains("exists already and is kept"), "{}", said(&output));
        assert_eq!(empty.names(), [name]);
        assert_eq!(fs::read_to_string(empty.path(name)).unwrap(), "mine");
    }
    assert_eq!(workspace.sandbox.requests().total, asked, "nothing was asked of the workspace");
}

#[tokio::test]
async fn a_key_that_lies_in_its_place_is_used_there() {
    let workspace = Workspace::start().await;
    let empty = Empty::new("");
    fs::write(empty.path("api-key"), workspace.sandbox.automation_key()).unwrap();
    fs::set_permissions(empty.path("api-key"), fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::metadata(empty.path("api-key")).unwrap().ino();
    let args = ["--address", workspace.base_url(), "--key-file", "api-key"];
    let output = empty.init(&args).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(fs::metadata(empty.path("api-key")).unwrap().ino(), before);
    assert_eq!(empty.names(), ["api-key", "config.toml"]);
}

#[tokio::test]
async fn without_a_terminal_init_names_the_flags() {
    let empty = Empty::new("");
    for args in [&[][..], &["--address", "https://myshop.example.com"], &["--key-file", "-"]] {
        let output = empty.init(args).await;
        assert_eq!(output.status.code(), Some(64), "{}", said(&output));
        assert!(said(&output).contains("--key-file - on standard input"), "{}", said(&output));
        assert_eq!(empty.names(), [""; 0]);
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_refused_before_any_question() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can become another user");
        return;
    }
    let empty = Empty::new("any");
    fs::set_permissions(empty.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let output = empty.init_by(&STRANGER, &[]).await;
    assert_eq!(output.status.code(), Some(77), "{}", said(&output));
    assert!(said(&output).contains("run this as root"), "{}", said(&output));
    let output = empty.init_by(&["env", "-C", "/proc"], &[]).await;
    assert_ne!(output.status.code(), Some(0), "{}", said(&output));
    let mut command = empty.command(&[], &["--config", "no/such/config.toml", "init"]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!(output.status.code(), Some(64), "{}", said(&output));
    assert!(said(&output).contains("create it first"), "{}", said(&output));
    assert_eq!(empty.names(), [""; 0]);
}

#[tokio::test]
async fn root_writes_for_the_group_of_the_folder() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can give a file to another group");
        return;
    }
    let workspace = Workspace::start().await;
    let empty = Empty::new(&workspace.sandbox.automation_key());
    std::os::unix::fs::chown(empty.folder.path(), None, Some(4242)).unwrap();
    let args = ["--address", workspace.base_url(), "--key-file", &empty.key_file()];
    let output = empty.init(&args).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    for name in ["api-key", "config.toml"] {
        let file = fs::metadata(empty.path(name)).unwrap();
        assert_eq!((file.uid(), file.gid(), file.mode() & 0o7777), (0, 4242, 0o640), "{name}");
    }
    assert!(said(&output).contains("mode 0640, group 4242"), "{}", said(&output));
}

/// Runs with an `/etc` of its own that holds the unit and a folder of the group 4242, and with a
/// `systemctl` that writes down its arguments.
const INSTALLED: &str = "mkdir -p $1/up $1/work $1/bin && mount -t tmpfs none $1/up && \
    mkdir $1/up/u $1/up/w && \
    mount -t overlay overlay -o lowerdir=/etc,upperdir=$1/up/u,workdir=$1/up/w /etc && \
    mkdir -p /etc/shopmirror /etc/systemd/system && rm -f /etc/shopmirror/* && \
    chgrp 4242 /etc/shopmirror && cp $2 /etc/systemd/system/shopmirror.service && \
    printf '#!/bin/sh\\necho \"$@\" >>%s/calls; exit '$3 $1 >$1/bin/systemctl && \
    chmod 755 $1/bin/systemctl && export PATH=$1/bin:$PATH && dir=$1 && shift 3 && \
    { \"$@\"; code=$?; ls -l /etc/shopmirror >$dir/listed; exit $code; }";

#[tokio::test]
async fn systemd_starts_the_service_and_its_key_unit() {
    let mountable = Command::new("unshare")
        .args(["-m", "mount", "-t", "tmpfs", "none", "/mnt"])
        .status()
        .is_ok_and(|status| status.success());
    if !mountable {
        eprintln!("SKIPPED: this user may not mount");
        return;
    }
    let workspace = Workspace::start().await;
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/shopmirror.service");
    for (outcome, code) in [("0", 0), ("1", 69)] {
        let empty = Empty::new(&workspace.sandbox.automation_key());
        let dir = empty.folder.path().to_str().unwrap();
        let wrapper = ["unshare", "-m", "sh", "-c", INSTALLED, "sh", dir, unit, outcome];
        let key = empty.key_file();
        let address = workspace.base_url();
        let args = ["init", "--systemd", "--address", address, "--key-file", &key];
        let mut command = empty.command(&wrapper, &args);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        let calls = fs::read_to_string(empty.path("calls")).unwrap();
        assert_eq!(calls, "enable --now shopmirror.service shopmirror-key.path\n");
        let listed = fs::read_to_string(empty.path("listed")).unwrap();
        let ours: Vec<&str> =
            listed.lines().filter(|line| line.starts_with("-rw-r----- 1 root 4242 ")).collect();
        assert_eq!(ours.len(), 2, "{listed}");
        let words = if code == 0 { "The service runs" } else { "the service did not start" };
        assert!(said(&output).contains(words), "{}", said(&output));
    }
    let empty = Empty::new("any");
    let output = empty.init(&["--systemd"]).await;
    assert_eq!(output.status.code(), Some(64), "{}", said(&output));
    assert!(said(&output).contains("/etc/shopmirror"), "{}", said(&output));
}

#[tokio::test]
async fn the_questions_are_asked_again_until_they_are_right_and_the_key_is_not_shown() {
    let workspace = Workspace::start().await;
    let key = workspace.sandbox.automation_key();
    let empty = Empty::new("");
    let mut terminal = Terminal::start(&empty.command(&[], &["--config", "config.toml", "init"]));
    terminal.until("Address of the workspace").await;
    terminal.type_line("http://example.com/api");
    terminal.until("must begin with https://").await;
    terminal.until("Address of the workspace").await;
    terminal.type_line(workspace.base_url());
    terminal.until("Automation key").await;
    terminal.type_line("CANARY-wrong-key");
    terminal.until("Automation key").await;
    terminal.type_line(&key);
    terminal.until("wrote").await;
    assert_eq!(terminal.end().await, Some(0), "{}", terminal.shown());
    assert!(!terminal.shown().contains("CANARY") && !terminal.shown().contains(&key));
    assert!(terminal.shows_typing());
    assert_eq!(fs::read_to_string(empty.path("api-key")).unwrap(), format!("{key}\n"));
}

#[tokio::test]
async fn ctrl_c_and_ctrl_d_leave_nothing_behind_and_the_terminal_as_it_was() {
    let workspace = Workspace::start().await;
    for end in ["\u{3}", "\u{4}"] {
        for question in ["Address of the workspace", "Automation key"] {
            let empty = Empty::new("");
            let init = empty.command(&[], &["--config", "config.toml", "init"]);
            let mut terminal = Terminal::start(&init);
            terminal.until("Address of the workspace").await;
            if question == "Automation key" {
                terminal.type_line(workspace.base_url());
                terminal.until(question).await;
                assert!(!terminal.shows_typing());
            }
            terminal.press(end);
            terminal.until("cancelled; nothing was written").await;
            assert_eq!(terminal.end().await, Some(75), "{}", terminal.shown());
            assert!(terminal.shows_typing(), "{end:?} at {question}");
            assert_eq!(empty.names(), [""; 0]);
        }
    }
}
