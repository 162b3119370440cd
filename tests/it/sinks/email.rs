//! Mails, against a real SMTP server in a process of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use shopmirror::config::{EmailSettings, MailTls, SinkKind};
use shopmirror::record::Change;
use shopmirror::shape::{DIGEST_NAMES, Escape, NAMES, Template};
use shopmirror::sink::{Sink, Verdict};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{all_done, at, build, change, changes, deliver, deliver_one, is_fault, reason};
use crate::support::{python, servers};

const SCRIPT: &str = include_str!("email/server.py");

/// A mail server that ends with the value.
pub(crate) struct MailServer {
    dir: TempDir,
    child: Child,
    port: u16,
}

impl MailServer {
    /// `None` as for [`python`].
    pub(crate) fn start() -> Option<Self> {
        Self::with(&json!({}))
    }

    pub(super) fn with(options: &Value) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mood"), "well").unwrap();
        let mut options = options.clone();
        options["port"] = servers::kept_port().into();
        let (child, port) = run(dir.path(), &options)?;
        Some(Self { dir, child, port })
    }

    pub(super) fn be(&self, mood: &str) {
        fs::write(self.dir.path().join("mood"), mood).unwrap();
    }

    fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends without a goodbye, and starts again at the same port.
    pub(super) fn begin_again(&mut self) {
        self.stop();
        self.restart();
    }

    /// Starts again at the same port.
    fn restart(&mut self) {
        (self.child, _) = run(self.dir.path(), &json!({ "port": self.port })).unwrap();
    }

    /// Every mail that was accepted so far.
    pub(crate) fn mails(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.dir.path().join("mails")).unwrap_or_default();
        // A line being written has no end yet.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn settings(&self) -> EmailSettings {
        settings(self.port)
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(dir: &Path, options: &Value) -> Option<(Child, u16)> {
    let mut asked = options.clone();
    for name in ["mood", "mails"] {
        asked[name] = dir.join(name).to_str().unwrap().into();
    }
    let mut child = Command::new(python()?)
        .args(["-c", SCRIPT, &asked.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = lines.next().unwrap().unwrap().parse().unwrap();
    Some((child, port))
}

fn text(source: &str) -> Template {
    Template::compile(source, Escape::Text, &NAMES).unwrap()
}

pub(super) fn settings(port: u16) -> EmailSettings {
    EmailSettings {
        server: "localhost".into(),
        port,
        tls: MailTls::Off,
        ca_file: None,
        login: None,
        from: "Shop <shop@example.com>".into(),
        to: vec!["desk@example.com".into(), "Boss <boss@example.com>".into()],
        subject: text("Lead {{ record.name }}"),
        text: text("{{ event_id }} {{ record.name }}"),
        html: None,
        digest: None,
        timeout: Duration::from_secs(30),
    }
}

fn mailing(settings: EmailSettings) -> Sink {
    build(&SinkKind::Email(settings))
}

fn header<'m>(mail: &'m Value, name: &str) -> Vec<&'m str> {
    let headers = mail["headers"].as_array().unwrap().iter();
    headers.filter(|header| header[0] == name).map(|header| header[1].as_str().unwrap()).collect()
}

fn named(seq: i64, name: &str) -> Change {
    Change { body: json!({ "id": seq, "name": name }).to_string(), ..change(seq) }
}

#[tokio::test]
async fn a_mail_goes_to_the_configured_recipients_and_its_text_is_no_header() {
    let Some(server) = MailServer::start() else { return };
    let html = Template::compile("<p>{{ record.name }}</p>", Escape::Html, &NAMES).unwrap();
    let mut sink = mailing(EmailSettings { html: Some(html), ..server.settings() });
    let hostile = "Zoë\r\nBcc: thief@example.com\r\n\r\n.\r\nQUIT\r\n<b>\u{1b}[31m\u{202e}\0";
    assert_eq!(deliver_one(&mut sink, &named(1, hostile)).await, Verdict::Done);
    let mails = server.mails();
    assert_eq!(mails.len(), 1);
    let mail = &mails[0];
    assert_eq!(mail["from"], "shop@example.com");
    assert_eq!(mail["to"], json!(["desk@example.com", "boss@example.com"]));
    let mut names: Vec<&str> =
        mail["headers"].as_array().unwrap().iter().map(|h| h[0].as_str().unwrap()).collect();
    names.sort_unstable();
    let wanted = [
        "Auto-Submitted",
        "Content-Type",
        "Date",
        "From",
        "MIME-Version",
        "Message-ID",
        "Subject",
        "To",
    ];
    assert_eq!(names, wanted);
    let subject = header(mail, "Subject")[0];
    assert!(subject.starts_with("Lead Zoë Bcc: thief@example.com . QUIT <b>"), "{subject:?}");
    assert!(!subject.contains(['\r', '\n', '\u{1b}', '\u{202e}']), "{subject:?}");
    assert_eq!(header(mail, "Message-ID"), ["<evt_0001@example.com>"]);
    let body = mail["text"].as_str().unwrap().replace("\r\n", "\n");
    assert!(body.contains("\n.\n") && body.contains("QUIT"), "{body:?}");
    assert!(mail["html"].as_str().unwrap().contains("&lt;b&gt;"), "{mail}");
}

#[tokio::test]
async fn each_refusal_has_its_owner() {
    let Some(server) = MailServer::start() else { return };
    let mut sink = mailing(server.settings());
    for (mood, refused, words) in [
        ("recipient550", true, "refused a recipient (550)"),
        ("data554", true, "refused the mail (554)"),
        ("recipient450", false, "postponed a recipient (450)"),
        ("data451", false, "postponed the mail (451)"),
        ("sender550", false, "refused the sender (550): correct from"),
        ("drop", false, "mail server"),
    ] {
        server.be(mood);
        let verdict = deliver_one(&mut sink, &change(1)).await;
        let found = matches!(verdict, Verdict::Refused { for_good: false, .. });
        assert_eq!((found, is_fault(&verdict)), (refused, !refused), "{mood}: {verdict:?}");
        assert!(reason(&verdict).contains(words), "{mood}: {verdict:?}");
        assert!(!reason(&verdict).contains('\u{1b}'), "{verdict:?}");
    }
    assert_eq!(server.mails(), [Value::Null; 0]);
    server.be("well");
    assert_eq!(deliver_one(&mut sink, &change(1)).await, Verdict::Done);
    assert_eq!(header(&server.mails()[0], "Message-ID"), ["<evt_0001@example.com>"]);
}

#[tokio::test]
async fn a_server_that_is_down_is_a_fault_until_it_is_back() {
    let Some(mut server) = MailServer::start() else { return };
    let mut sink = mailing(server.settings());
    assert_eq!(deliver_one(&mut sink, &change(1)).await, Verdict::Done);
    server.stop();
    let verdict = deliver_one(&mut sink, &change(2)).await;
    assert!(is_fault(&verdict) && reason(&verdict).contains("could not connect"), "{verdict:?}");
    assert!(sink.probe().await.unwrap_err().contains("could not connect"));
    server.restart();
    assert_eq!(deliver_one(&mut sink, &change(2)).await, Verdict::Done);
    assert_eq!(server.mails().len(), 2);
    assert!(sink.probe().await.unwrap().contains("no mail was sent"));
    assert_eq!(server.mails().len(), 2);
}

/// A certificate authority and a certificate of it for `localhost`, as PEM files.
pub(super) fn certificates(dir: &Path) -> [PathBuf; 3] {
    let made = Command::new("sh")
        .arg("-ec")
        .arg(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test-ca -keyout ca.key -out ca.pem
             openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -keyout key.pem -out request.pem
             printf 'subjectAltName=DNS:localhost\\nbasicConstraints=CA:FALSE\\n' >extensions
             openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out cert.pem",
        )
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    ["ca.pem", "cert.pem", "key.pem"].map(|name| dir.join(name))
}

#[tokio::test]
async fn tls_needs_the_right_authority_and_the_right_login() {
    let dir = tempfile::tempdir().unwrap();
    let [ca, cert, key] = certificates(dir.path());
    for tls in [MailTls::StartTls, MailTls::Tls] {
        let options = json!({
            "cert": cert, "key": key, "tls": tls == MailTls::Tls, "user": "shop", "password": "right",
        });
        let Some(server) = MailServer::with(&options) else { return };
        let with = |ca_file: Option<PathBuf>, password: &str| {
            let login = Some(("shop".to_owned(), password.into()));
            mailing(EmailSettings { tls, ca_file, login, ..server.settings() })
        };
        let mut sink = with(Some(ca.clone()), "right");
        assert_eq!(deliver_one(&mut sink, &change(1)).await, Verdict::Done, "{tls:?}");
        let mails = server.mails();
        assert_eq!((&mails[0]["encrypted"], &mails[0]["login"]), (&true.into(), &true.into()));
        assert!(sink.probe().await.unwrap().contains("accepts the login"));

        let mut sink = with(Some(ca.clone()), "CANARY");
        let verdict = deliver_one(&mut sink, &change(2)).await;
        assert!(is_fault(&verdict), "{verdict:?}");
        let said = sink.probe().await.unwrap_err();
        for text in [reason(&verdict), &said] {
            assert!(text.contains("refused the login (535): correct login_file"), "{text}");
            assert!(!text.contains("CANARY"), "{text}");
        }
        // Its own certificate is no authority.
        let verdict = deliver_one(&mut with(Some(cert.clone()), "right"), &change(3)).await;
        assert!(is_fault(&verdict) && reason(&verdict).contains("certificate"), "{verdict:?}");
        assert_eq!(server.mails().len(), 1);
    }
    let Some(plain) = MailServer::start() else { return };
    let login = Some(("shop".to_owned(), "CANARY".into()));
    let tls = MailTls::StartTls;
    let mut sink = mailing(EmailSettings { tls, ca_file: Some(ca), login, ..plain.settings() });
    let verdict = deliver_one(&mut sink, &change(1)).await;
    assert!(is_fault(&verdict) && reason(&verdict).contains("no STARTTLS"), "{verdict:?}");
    assert_eq!(plain.mails(), [Value::Null; 0]);
}

pub(super) fn digest(server: &MailServer, source: &str) -> EmailSettings {
    let template = |source: &str| Template::compile(source, Escape::Text, &DIGEST_NAMES).unwrap();
    EmailSettings {
        subject: template("{{ count }} changes"),
        text: template(source),
        digest: Some(Duration::from_secs(3600)),
        ..server.settings()
    }
}

#[tokio::test]
async fn a_digest_is_one_mail_and_leaves_out_what_cannot_be_shown() {
    let Some(server) = MailServer::start() else { return };
    let source =
        "{% for change in changes %}{{ change.event_id }} {{ change.record.name }}\n{% endfor %}";
    let mut sink = mailing(digest(&server, source));
    assert!(all_done(&deliver(&mut sink, &changes(1..=3)).await));
    let mut given = changes(4..=6);
    given[1].body = "{\"id\":5}".into();
    let verdicts = deliver(&mut sink, &given).await;
    assert_eq!((&verdicts[0], &verdicts[2]), (&Verdict::Done, &Verdict::Done));
    assert!(matches!(verdicts[1], Verdict::Refused { for_good: false, .. }), "{verdicts:?}");
    let mails = server.mails();
    assert_eq!(header(&mails[0], "Subject"), ["3 changes"]);
    assert!(mails[1]["text"].as_str().unwrap().contains("evt_0004"), "{mails:?}");
    assert!(!mails[1]["text"].as_str().unwrap().contains("evt_0005"), "{mails:?}");
    server.be("data451");
    assert!(deliver(&mut sink, &given[2..]).await.iter().all(is_fault));
    let Sink::Batched(sink) = sink else { panic!("a digest is a batch") };
    assert_eq!(sink.linger(), Duration::from_secs(3600));
}

#[tokio::test]
async fn a_stop_leaves_a_slow_server_and_a_slow_server_is_left() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut settings = settings(port);
    settings.server = "127.0.0.1".into();
    let mut sink = mailing(settings.clone());
    let stop = CancellationToken::new();
    let given = [change(1)];
    let (verdicts, ()) = tokio::join!(sink.deliver(&given, at(0), &stop), async {
        let _connection = listener.accept().await.unwrap();
        stop.cancel();
    });
    assert_eq!(verdicts, [Verdict::CutShort]);
    settings.timeout = Duration::from_secs(1);
    let verdict = deliver_one(&mut mailing(settings), &change(1)).await;
    assert!(is_fault(&verdict) && reason(&verdict).contains("raise timeout"), "{verdict:?}");
}
