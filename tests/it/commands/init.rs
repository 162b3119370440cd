//! `init` writes a configuration that works, asks plainly, and leaves nothing behind otherwise.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Output, Stdio};

use super::terminal::Terminal;
use super::{STRANGER, may_become_another_user};
use crate::support::{ClosedPort, Workspace};

const PROGRAM: &str = env!("CARGO_BIN_EXE_shopmirror");

/// An empty folder in which `init` runs, and a folder beside it with a key file.
struct Empty {
    folder: tempfile::TempDir,
    beside: tempfile::TempDir,
}

impl Empty {
    fn new(key: &str) -> Self {
        let empty = Self {
            folder: tempfile::tempdir().unwrap(),
            beside: tempfile::tempdir().unwrap(),
        };
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
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn command(&self, wrapper: &[&str], args: &[&str]) -> Command {
        let all: Vec<&str> = wrapper
            .iter()
            .chain([&PROGRAM])
            .chain(args)
            .copied()
            .collect();
        let mut command = Command::new(all[0]);
        command
            .args(&all[1..])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
            .env("NO_COLOR", "1")
            .env("TZ", "Asia/Tokyo")
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// `init --config shopmirror.toml` with further arguments, beside the test's own server.
    async fn init(&self, args: &[&str]) -> Output {
        self.init_by(&[], args).await
    }

    async fn init_by(&self, wrapper: &[&str], args: &[&str]) -> Output {
        let all: Vec<&str> = ["--config", "shopmirror.toml", "init"]
            .into_iter()
            .chain(args.iter().copied())
            .collect();
        ended(self.command(wrapper, &all)).await
    }
}

async fn ended(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

#[tokio::test]
async fn a_configuration_made_by_init_polls_the_workspace_at_once() {
    let workspace = Workspace::start().await;
    let empty = Empty::new(&workspace.sandbox.automation_key());
    let address = workspace.base_url();
    let output = empty
        .init(&["--address", address, "--key-file", &empty.key_file()])
        .await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(empty.names(), ["api-key", "shopmirror.toml"]);
    for (name, mode) in [("api-key", 0o600), ("shopmirror.toml", 0o640)] {
        assert_eq!(
            fs::metadata(empty.path(name)).unwrap().mode() & 0o7777,
            mode,
            "{name}"
        );
    }
    assert!(
        said(&output).contains("answers: connected"),
        "{}",
        said(&output)
    );
    assert!(!said(&output).contains(&workspace.sandbox.automation_key()));
    let written = fs::read_to_string(empty.path("shopmirror.toml")).unwrap();
    assert!(
        written.contains("\ntime_zone = \"Asia/Tokyo\"\n"),
        "{written}"
    );
    for command in ["check", "once"] {
        let output = ended(empty.command(&[], &[command])).await;
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    assert!(empty.path("mirror.db").exists());
}

#[tokio::test]
async fn whatever_is_wrong_is_said_and_leaves_nothing_behind() {
    let workspace = Workspace::start().await;
    let intake = workspace.sandbox.rest_key();
    let (right, address) = (workspace.sandbox.automation_key(), workspace.base_url());
    let port = ClosedPort::new();
    let closed = port.base_url();
    for (key, address, code, words) in [
        (
            "no-such-key",
            address,
            77,
            "refused this key: copy the current automation key",
        ),
        (&intake, address, 77, "automation"),
        (&right, &closed, 75, "could not connect"),
        (
            &right,
            "http://example.com/api",
            64,
            "must begin with https://",
        ),
    ] {
        let empty = Empty::new(key);
        let output = empty
            .init(&["--address", address, "--key-file", &empty.key_file()])
            .await;
        assert_eq!(
            output.status.code(),
            Some(code),
            "{address}: {}",
            said(&output)
        );
        assert!(said(&output).contains(words), "{words}: {}", said(&output));
        assert!(!said(&output).contains(key), "{}", said(&output));
        assert_eq!(empty.names(), [""; 0], "{}", said(&output));
    }
}

#[tokio::test]
async fn no_file_is_overwritten_and_a_key_that_lies_in_its_place_is_used_there() {
    let workspace = Workspace::start().await;
    for name in ["shopmirror.toml", "api-key"] {
        let empty = Empty::new(&workspace.sandbox.automation_key());
        let args = [
            "--address",
            workspace.base_url(),
            "--key-file",
            &empty.key_file(),
        ];
        fs::write(empty.path(name), "mine").unwrap();
        let output = empty.init(&args).await;
        assert_eq!(output.status.code(), Some(64), "{}", said(&output));
        assert!(
            said(&output).contains("exists already and is kept"),
            "{}",
            said(&output)
        );
        assert_eq!(empty.names(), [name]);
        assert_eq!(fs::read_to_string(empty.path(name)).unwrap(), "mine");
    }
    assert_eq!(
        workspace.sandbox.requests().total,
        0,
        "nothing was asked of the workspace"
    );

    let empty = Empty::new("");
    fs::write(empty.path("api-key"), workspace.sandbox.automation_key()).unwrap();
    fs::set_permissions(empty.path("api-key"), fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::metadata(empty.path("api-key")).unwrap().ino();
    let output = empty
        .init(&["--address", workspace.base_url(), "--key-file", "api-key"])
        .await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(fs::metadata(empty.path("api-key")).unwrap().ino(), before);
    assert_eq!(empty.names(), ["api-key", "shopmirror.toml"]);
}

#[tokio::test]
async fn without_a_terminal_or_a_writable_folder_nothing_is_asked() {
    let empty = Empty::new("any");
    for args in [
        &[][..],
        &["--address", "https://myshop.example.com"],
        &["--key-file", "key"],
    ] {
        let output = empty.init(args).await;
        assert_eq!(output.status.code(), Some(64), "{}", said(&output));
        assert!(
            said(&output).contains("the key with --key-file FILE"),
            "{}",
            said(&output)
        );
    }
    let output = ended(empty.command(&[], &["--config", "no/such/shopmirror.toml", "init"])).await;
    assert_eq!(output.status.code(), Some(74), "{}", said(&output));
    if may_become_another_user() {
        fs::set_permissions(empty.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let output = empty.init_by(&STRANGER, &[]).await;
        assert_eq!(output.status.code(), Some(77), "{}", said(&output));
        assert!(
            said(&output).contains("run this as root"),
            "{}",
            said(&output)
        );
    }
    assert_eq!(empty.names(), [""; 0]);
}

/// Runs with an `/etc` of its own that holds the unit and a folder of the group 4242, and with a
/// `systemctl` that knows the unit.
const INSTALLED: &str = "mkdir -p $1/up $1/work $1/bin && mount -t tmpfs none $1/up && \
    mkdir $1/up/u $1/up/w && \
    mount -t overlay overlay -o lowerdir=/etc,upperdir=$1/up/u,workdir=$1/up/w /etc && \
    mkdir -p /etc/shopmirror /etc/systemd/system && rm -f /etc/shopmirror/* && \
    chgrp 4242 /etc/shopmirror && cp $2 /etc/systemd/system/shopmirror.service && \
    printf '#!/bin/sh\\ncase $1 in\\nshow) echo LoadState=loaded; \
    echo ExecStart=/usr/bin/shopmirror run --config /etc/shopmirror/shopmirror.toml;;\\nesac\\n' >$1/bin/systemctl && \
    chmod 755 $1/bin/systemctl && export PATH=$1/bin:$PATH && dir=$1 && shift 2 && \
    { \"$@\"; code=$?; ls -l /etc/shopmirror >$dir/listed; exit $code; }";

#[tokio::test]
async fn beside_a_unit_the_files_are_for_its_group_and_the_command_that_starts_it_is_shown() {
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
    let empty = Empty::new(&workspace.sandbox.automation_key());
    let dir = empty.folder.path().to_str().unwrap();
    let wrapper = ["unshare", "-m", "sh", "-c", INSTALLED, "sh", dir, unit];
    let (key, address) = (empty.key_file(), workspace.base_url());
    let args = ["init", "--address", address, "--key-file", &key];
    let output = ended(empty.command(&wrapper, &args)).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let start = "systemctl enable --now shopmirror.service shopmirror-key.path\n";
    assert!(said(&output).contains(start), "{}", said(&output));
    let listed = fs::read_to_string(empty.path("listed")).unwrap();
    assert_eq!(
        listed.matches("-rw-r----- 1 root 4242 ").count(),
        2,
        "{listed}"
    );
}

#[tokio::test]
async fn a_key_that_is_typed_is_not_shown_and_a_wrong_one_leaves_nothing_behind() {
    let workspace = Workspace::start().await;
    let key = workspace.sandbox.automation_key();
    for (typed, code) in [("CANARY-wrong-key", 77), (&*key, 0)] {
        let empty = Empty::new("");
        let init = empty.command(&[], &["--config", "shopmirror.toml", "init"]);
        let mut terminal = Terminal::start(&init);
        terminal.until("Address of the workspace").await;
        terminal.type_line(workspace.base_url());
        terminal.until("Automation key").await;
        terminal.type_line(typed);
        if code == 0 {
            // Enter takes what is usual.
            for question in ["Currency of the shop", "Mail address for alerts"] {
                terminal.until(question).await;
                terminal.type_line("");
            }
        }
        assert_eq!(terminal.end().await, Some(code), "{}", terminal.shown());
        assert!(!terminal.shown().contains(typed), "{}", terminal.shown());
        assert!(terminal.shows_typing());
        match code {
            0 => assert_eq!(
                fs::read_to_string(empty.path("api-key")).unwrap(),
                format!("{key}\n")
            ),
            _ => assert_eq!(empty.names(), [""; 0]),
        }
    }
}

#[tokio::test]
async fn init_asks_for_zone_currency_and_alert_mail_and_later_changes_one_key_alone() {
    let workspace = Workspace::start().await;
    let empty = Empty::new("");
    let mut init = empty.command(&[], &["--config", "shopmirror.toml", "init"]);
    init.env("TZ", "UTC");
    let mut terminal = Terminal::start(&init);
    for (question, answer) in [
        ("Address of the workspace", workspace.base_url()),
        ("Automation key", &workspace.sandbox.automation_key()),
        ("Time zone of the shop", "Berlin"),
        ("write a name such as", "Europe/Berlin"),
        ("Currency of the shop", "EUR"),
        ("Mail address for alerts", "boss"),
        ("write it as in", "boss@example.com"),
        ("Mail server", "smtp.example.com"),
        ("User name at the mail server", "desk"),
        ("Password at the mail server", "CANARY-password"),
    ] {
        terminal.until(question).await;
        terminal.type_line(answer);
    }
    assert_eq!(terminal.end().await, Some(0), "{}", terminal.shown());
    assert!(!terminal.shown().contains("CANARY"), "{}", terminal.shown());
    assert_eq!(empty.names(), ["api-key", "mail-login", "shopmirror.toml"]);
    let login = fs::read_to_string(empty.path("mail-login")).unwrap();
    assert_eq!(login, "desk\nCANARY-password\n");
    assert_eq!(
        fs::metadata(empty.path("mail-login")).unwrap().mode() & 0o777,
        0o600
    );
    let written = fs::read_to_string(empty.path("shopmirror.toml")).unwrap();
    for line in [
        "time_zone = \"Europe/Berlin\"\n",
        "[reports]\ncurrency = \"EUR\"\n",
        "[alerts]\nsink = \"mail\"\n",
        "to = [\"boss@example.com\"]\n",
    ] {
        assert!(written.contains(line), "{line}: {written}");
    }
    let output = ended(empty.command(&[], &["check", "--offline"])).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));

    let output = empty.init(&["--currency", "CHF"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let changed = fs::read_to_string(empty.path("shopmirror.toml")).unwrap();
    assert_eq!(changed, written.replace("\"EUR\"", "\"CHF\""));
    let output = empty.init(&["--time-zone", "Berlin"]).await;
    assert_eq!(output.status.code(), Some(64), "{}", said(&output));
}

#[tokio::test]
async fn without_a_terminal_init_guesses_no_currency() {
    let workspace = Workspace::start().await;
    let empty = Empty::new(&workspace.sandbox.automation_key());
    let key = empty.key_file();
    let args = [
        "--config",
        "shopmirror.toml",
        "init",
        "--address",
        workspace.base_url(),
        "--key-file",
        &key,
    ];
    let mut init = empty.command(&[], &args);
    init.env("LANG", "en_US.UTF-8");
    let output = ended(init).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let written = fs::read_to_string(empty.path("shopmirror.toml")).unwrap();
    assert!(!written.contains("\ncurrency ="), "{written}");
}

#[tokio::test]
async fn ctrl_c_and_ctrl_d_leave_nothing_behind_and_the_terminal_as_it_was() {
    let workspace = Workspace::start().await;
    for end in ["\u{3}", "\u{4}"] {
        for question in ["Address of the workspace", "Automation key"] {
            let empty = Empty::new("");
            let init = empty.command(&[], &["--config", "shopmirror.toml", "init"]);
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
