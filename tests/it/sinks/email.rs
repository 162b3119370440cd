//! Mails, against a real SMTP server in a process of its own.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use shopmirror::config::{EmailSettings, MailTls, SinkKind};
use shopmirror::shape::{DIGEST_NAMES, Escape, NAMES, Template};
use shopmirror::sink::{Sink, Verdict};
use shopmirror_core::record::{Change, Kind};

use super::{
    all_done, build, change, changes, deliver, deliver_one, fault_says, is_fault, kind_of, reason,
};
use crate::support::servers::certificate;
pub(crate) use crate::support::servers::mail::MailServer;

/// A sink that sends to this server without TLS.
fn settings(server: &MailServer) -> EmailSettings {
    let text = |source: &str| Template::compile(source, Escape::Text, &NAMES).unwrap();
    EmailSettings {
        server: "127.0.0.1".into(),
        port: server.port(),
        tls: MailTls::Off,
        ca_file: None,
        login: None,
        from: "Shop <shop@example.com>".into(),
        to: vec!["desk@example.com".into(), "Boss <boss@example.com>".into()],
        subject: text("Lead {{ record.name }}"),
        text: text("{{ event_id }} {{ record.name }}"),
        html: None,
        digest: None,
        timeout: Duration::from_secs(120),
    }
}

fn mailing(settings: EmailSettings) -> Box<dyn Sink> {
    build(&SinkKind::Email(settings))
}

fn header<'m>(mail: &'m Value, name: &str) -> Vec<&'m str> {
    let headers = mail["headers"].as_array().unwrap().iter();
    headers
        .filter(|header| header[0] == name)
        .map(|header| header[1].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_mail_goes_to_the_configured_recipients_and_its_text_is_no_header() {
    let Some(server) = MailServer::start() else {
        return;
    };
    let html = Template::compile("<p>{{ record.name }}</p>", Escape::Html, &NAMES).unwrap();
    let mut sink = mailing(EmailSettings {
        html: Some(html),
        ..settings(&server)
    });
    let hostile = "Zoë\r\nBcc: thief@example.com\r\n\r\n.\r\nQUIT\r\n<b>\u{1b}[31m\u{202e}\0";
    let given = Change {
        body: json!({ "name": hostile }).to_string(),
        ..change(1)
    };
    assert_eq!(deliver_one(&mut sink, &given).await, Verdict::Done);
    let mails = server.mails();
    assert_eq!(mails.len(), 1);
    let mail = &mails[0];
    assert_eq!(mail["from"], "shop@example.com");
    assert_eq!(mail["to"], json!(["desk@example.com", "boss@example.com"]));
    let mut names: Vec<&str> = mail["headers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|h| h[0].as_str().unwrap())
        .collect();
    names.sort_unstable();
    let wanted = "Auto-Submitted Content-Type Date From MIME-Version Message-ID Subject To";
    assert_eq!(names.join(" "), wanted);
    let subject = header(mail, "Subject")[0];
    assert!(
        subject.starts_with("Lead Zoë Bcc: thief@example.com . QUIT <b>"),
        "{subject:?}"
    );
    assert!(
        !subject.contains(['\r', '\n', '\u{1b}', '\u{202e}']),
        "{subject:?}"
    );
    assert_eq!(header(mail, "Message-ID"), ["<evt_0001@example.com>"]);
    let body = mail["text"].as_str().unwrap().replace("\r\n", "\n");
    assert!(body.contains("\n.\n") && body.contains("QUIT"), "{body:?}");
    assert!(
        mail["html"].as_str().unwrap().contains("&lt;b&gt;"),
        "{mail}"
    );
}

#[tokio::test]
async fn a_domain_is_sent_in_ascii_control_characters_are_encoded_and_alerts_have_their_own_form() {
    let Some(server) = MailServer::start() else {
        return;
    };
    let mut sink = mailing(EmailSettings {
        from: "Müller <desk@müller.example>".into(),
        to: vec!["Boß <chef@bücher.example>".into()],
        ..settings(&server)
    });
    let given = Change {
        body: json!({ "name": "a\0b\u{1b}[31m" }).to_string(),
        ..change(1)
    };
    assert_eq!(deliver_one(&mut sink, &given).await, Verdict::Done);
    let alert = Change {
        kind: Kind::Alert,
        body: json!({ "title": "key refused", "text": "put a key", "since": "2026-01-01" })
            .to_string(),
        ..change(2)
    };
    assert_eq!(deliver_one(&mut sink, &alert).await, Verdict::Done);
    let mails = server.mails();
    let [mail, alert] = &mails[..] else {
        panic!("{mails:?}")
    };
    assert_eq!(mail["from"], "desk@xn--mller-kva.example");
    assert_eq!(mail["to"], json!(["chef@xn--bcher-kva.example"]));
    assert_eq!(header(mail, "Content-Transfer-Encoding"), ["base64"]);
    assert!(
        mail["text"].as_str().unwrap().contains("a\0b\u{1b}[31m"),
        "{mail}"
    );
    assert_eq!(header(alert, "Subject"), ["key refused"]);
    assert!(
        alert["text"].as_str().unwrap().contains("put a key"),
        "{alert}"
    );

    for (to, words) in [
        ("büro@example.com", "letters outside of ASCII before the @"),
        ("Boss", "is not a mail address"),
    ] {
        let kind = SinkKind::Email(EmailSettings {
            to: vec![to.into()],
            ..settings(&server)
        });
        let refused = shopmirror::sink::build_one("desk", &kind)
            .unwrap_err()
            .to_string();
        assert!(refused.contains(words), "{refused}");
    }
}

#[tokio::test]
async fn each_refusal_has_its_owner() {
    let Some(server) = MailServer::start() else {
        return;
    };
    let mut sink = mailing(settings(&server));
    for (mood, refused, words) in [
        (
            "recipient550",
            false,
            "refused the recipient desk@example.com (550): correct to",
        ),
        ("data554", true, "refused the mail (554)"),
        (
            "recipient450",
            false,
            "postponed the recipient desk@example.com (450)",
        ),
        ("data451", false, "postponed the mail (451)"),
        ("sender550", false, "refused the sender (550): correct from"),
        ("drop", false, "mail server"),
    ] {
        server.be(mood);
        let verdict = deliver_one(&mut sink, &change(1)).await;
        let expected = if refused { "refused" } else { "fault" };
        assert_eq!(kind_of(&verdict), expected, "{mood}: {verdict:?}");
        assert!(reason(&verdict).contains(words), "{mood}: {verdict:?}");
        assert!(!reason(&verdict).contains('\u{1b}'), "{verdict:?}");
    }
    assert_eq!(server.mails(), [Value::Null; 0]);
    server.be("well");
    assert_eq!(deliver_one(&mut sink, &change(1)).await, Verdict::Done);
    assert_eq!(
        header(&server.mails()[0], "Message-ID"),
        ["<evt_0001@example.com>"]
    );
}

#[tokio::test]
async fn a_mail_reaches_the_recipients_that_the_server_accepts() {
    let Some(server) = MailServer::start() else {
        return;
    };
    let mut sink = mailing(settings(&server));
    server.be("boss550");
    assert_eq!(deliver_one(&mut sink, &change(1)).await, Verdict::Done);
    assert_eq!(server.mails()[0]["to"], json!(["desk@example.com"]));
    let refused = "refused the recipient boss@example.com (550): correct to";
    assert!(
        sink.check()
            .await
            .unwrap_err()
            .to_string()
            .contains(refused)
    );
    server.be("well");
    assert!(sink.check().await.unwrap().contains("every recipient"));
    server.be("sender550");
    assert!(
        sink.check()
            .await
            .unwrap_err()
            .to_string()
            .contains("refused the sender (550)")
    );
    assert_eq!(server.mails().len(), 1, "a probe sends nothing");
}

#[tokio::test]
async fn a_mail_that_is_refused_holds_up_no_other() {
    let Some(server) = MailServer::start() else {
        return;
    };
    let mut sink = mailing(settings(&server));
    let mut given = changes(1..=4);
    given[2].body = r#"{"name":"REFUSE-ME"}"#.into();
    let verdicts = deliver(&mut sink, &given).await;
    let kinds: Vec<_> = verdicts.iter().map(kind_of).collect();
    assert_eq!(kinds, ["done", "done", "refused", "done"], "{verdicts:?}");
    let mails = server.mails();
    let ids: Vec<_> = mails
        .iter()
        .map(|mail| header(mail, "Message-ID")[0])
        .collect();
    let wanted = [
        "<evt_0001@example.com>",
        "<evt_0002@example.com>",
        "<evt_0004@example.com>",
    ];
    assert_eq!(ids, wanted);
}

#[tokio::test]
async fn tls_needs_the_right_authority_and_the_right_login() {
    let [ca, other, cert, key] =
        ["ca.pem", "other.pem", "server.pem", "server.key"].map(certificate);
    let login = |password: &str| Some(("shop".to_owned(), password.into()));
    for tls in [MailTls::StartTls, MailTls::Tls] {
        let options = json!({
            "cert": cert, "key": key, "tls": tls == MailTls::Tls, "user": "shop", "password": "right",
        });
        let Some(server) = MailServer::with(&options) else {
            return;
        };
        let with = |ca_file: &Path, password: &str| {
            let ca_file = Some(ca_file.to_owned());
            mailing(EmailSettings {
                tls,
                ca_file,
                login: login(password),
                ..settings(&server)
            })
        };
        let mut sink = with(&ca, "right");
        assert_eq!(
            deliver_one(&mut sink, &change(1)).await,
            Verdict::Done,
            "{tls:?}"
        );
        assert!(sink.check().await.unwrap().contains("accepts the login"));
        let words = "refused the login (535): correct login_file";
        fault_says(&mut with(&ca, "CANARY"), &change(2), words).await;
        fault_says(&mut with(&other, "right"), &change(3), "certificate").await;
        let mails = server.mails();
        assert_eq!(mails.len(), 1, "{mails:?}");
        assert_eq!(
            (&mails[0]["encrypted"], &mails[0]["login"]),
            (&true.into(), &true.into())
        );
    }
    let Some(plain) = MailServer::start() else {
        return;
    };
    let (tls, ca_file) = (MailTls::StartTls, Some(ca));
    let settings = EmailSettings {
        tls,
        ca_file,
        login: login("CANARY"),
        ..settings(&plain)
    };
    fault_says(&mut mailing(settings), &change(1), "no STARTTLS").await;
    assert_eq!(plain.mails(), [Value::Null; 0]);
}

/// A sink that sends one mail about several changes.
fn digest(server: &MailServer) -> Box<dyn Sink> {
    let template = |source: &str| Template::compile(source, Escape::Text, &DIGEST_NAMES).unwrap();
    let source =
        "{% for change in changes %}{{ change.event_id }} {{ change.record.name }}\n{% endfor %}";
    mailing(EmailSettings {
        subject: template("{{ count }} changes"),
        text: template(source),
        digest: Some(Duration::from_secs(3600)),
        ..settings(server)
    })
}

#[tokio::test]
async fn changes_that_are_too_much_for_one_mail_go_in_several() {
    let Some(server) = MailServer::start() else {
        return;
    };
    let mut given = changes(1..=200);
    for change in &mut given {
        change.body = json!({ "name": "x".repeat(2000) }).to_string();
    }
    let verdicts = deliver(&mut digest(&server), &given).await;
    assert!(all_done(&verdicts), "{:?}", verdicts[0]);
    let mails = server.mails();
    let subjects: Vec<_> = mails
        .iter()
        .map(|mail| header(mail, "Subject")[0])
        .collect();
    assert_eq!(subjects, ["100 changes", "100 changes"]);
}

#[tokio::test]
async fn a_digest_is_one_mail_and_leaves_out_what_cannot_be_shown() {
    let Some(server) = MailServer::start() else {
        return;
    };
    let mut sink = digest(&server);
    assert!(all_done(&deliver(&mut sink, &changes(1..=3)).await));
    let mut given = changes(4..=6);
    given[1].body = "{\"id\":5}".into();
    let kinds = |verdicts: Vec<Verdict>| verdicts.iter().map(kind_of).collect::<Vec<_>>();
    assert_eq!(
        kinds(deliver(&mut sink, &given).await),
        ["done", "refused", "done"]
    );
    let mails = server.mails();
    assert_eq!(header(&mails[0], "Subject"), ["3 changes"]);
    let shown = mails[1]["text"].as_str().unwrap();
    assert!(
        shown.contains("evt_0004") && shown.contains("evt_0006"),
        "{shown}"
    );
    assert!(!shown.contains("evt_0005"), "{shown}");
    server.be("data451");
    assert!(deliver(&mut sink, &given[2..]).await.iter().all(is_fault));
    assert_eq!(sink.linger(), Duration::from_secs(3600));
}
