//! The webhook: the request, the meaning of answers, the limits, the secrets.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use shopmirror::config::{SinkKind, WebhookSettings};
use shopmirror::sink::{Sink, Verdict};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::subscriber::DefaultGuard;

use super::{
    at, build, change, configured, deliver_one, fault_says, is_fault, kind_of, reason, webhook,
};
use crate::support::{Answer, ClosedPort, Receiver};

fn signature(secret: &[u8], signed: &str) -> String {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret).unwrap();
    mac.update(signed.as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

fn to(receiver: &Receiver) -> Box<dyn Sink> {
    build(&SinkKind::Webhook(webhook(receiver.url("/"))))
}

#[tokio::test]
async fn the_request_is_what_the_specification_says_and_a_retry_is_the_same_message() {
    let receiver = Receiver::start().await;
    let (new, old) = ([7_u8; 32], [9_u8; 24]);
    let secret = |bytes: &[u8]| format!("whsec_{}", STANDARD.encode(bytes)).into();
    let url = receiver
        .url("/hooks/shop?token=abc")
        .replace("http://", "http://shop:se%20cret@");
    let mut settings = webhook(url);
    settings.secrets = vec![secret(&new), secret(&old)];
    settings.headers.insert("x-shop", "mine".parse().unwrap());
    let mut sink = build(&SinkKind::Webhook(settings));
    receiver.always(Answer::status(500));
    let stop = CancellationToken::new();
    assert!(is_fault(
        &sink.send(&[change(1)], at(1_700_000_000), &stop).await[0]
    ));
    receiver.always(Answer::status(204));
    assert_eq!(deliver_one(&mut sink, &change(1)).await, Verdict::Done);

    let [first, request] = &receiver.received()[..] else {
        panic!("two attempts are two requests")
    };
    assert_eq!(first.body, request.body);
    assert_eq!(first.header("webhook-id"), request.header("webhook-id"));
    assert_eq!(first.header("webhook-timestamp"), "1700000000");
    assert_eq!(
        (request.method.as_str(), request.uri.to_string()),
        ("POST", "/hooks/shop?token=abc".into())
    );
    assert_eq!(
        request.body,
        format!(
            r#"{{"type":"leads.created","timestamp":"2026-01-02T03:04:05.000000Z","data":{}}}"#,
            change(1).data_json()
        )
    );
    let signed = format!("evt_0001.1800000000.{}", request.body);
    for (name, value) in [
        ("content-type", "application/json".to_owned()),
        (
            "user-agent",
            concat!("shopmirror/", env!("CARGO_PKG_VERSION")).to_owned(),
        ),
        (
            "authorization",
            format!("Basic {}", STANDARD.encode("shop:se cret")),
        ),
        ("webhook-id", "evt_0001".to_owned()),
        ("webhook-timestamp", "1800000000".to_owned()),
        (
            "webhook-signature",
            format!("{} {}", signature(&new, &signed), signature(&old, &signed)),
        ),
        ("x-shop", "mine".to_owned()),
        ("referer", String::new()),
    ] {
        assert_eq!(request.header(name), value, "{name}");
    }
}

#[tokio::test]
async fn only_2xx_acknowledges_no_redirect_is_followed_and_other_codes_refuse_or_pause() {
    let (receiver, elsewhere) = (Receiver::start().await, Receiver::start().await);
    let mut sink = to(&receiver);
    for (expected, statuses) in [
        ("done", &[200, 202, 299][..]),
        ("refused", &[400, 409, 413, 415, 422]),
        ("gone", &[410]),
        ("fault", &[301, 302, 303, 304, 307, 308]),
        ("fault", &[401, 403, 404, 408, 421, 423, 425, 429, 500, 503]),
    ] {
        for status in statuses {
            let answer = Answer::status(*status);
            receiver.always(answer.header("location", elsewhere.url("/")));
            let verdict = deliver_one(&mut sink, &change(1)).await;
            assert_eq!(kind_of(&verdict), expected, "{status}: {verdict:?}");
            assert_eq!(expected == "done", reason(&verdict).is_empty());
        }
    }
    assert!(elsewhere.received().is_empty());
    // It is cut to an hour, a fraction is rounded up, and what cannot be read is no wait.
    for (asked, seconds) in [
        ("9999999", Some(3600)),
        ("1.2", Some(2)),
        ("0.05", Some(1)),
        ("soon", None),
        ("-3", None),
        ("\u{e9}", None),
    ] {
        receiver.always(Answer::status(429).header("retry-after", asked));
        let verdict = deliver_one(&mut sink, &change(1)).await;
        let Verdict::Fault { retry_after, .. } = verdict else {
            panic!("{verdict:?}")
        };
        assert_eq!(retry_after, seconds.map(Duration::from_secs), "{asked}");
    }
    for (status, advice) in [
        (403, "a firewall before the endpoint"),
        (407, "a proxy before the endpoint wants a login"),
        (408, "the request did not arrive in time"),
        (421, "does not answer for the host name"),
        (425, "early data"),
    ] {
        receiver.always(Answer::status(status));
        fault_says(&mut sink, &change(1), advice).await;
    }
}

/// Serves one request for each of these: answers it or, for `false`, closes the connection after the
/// request was read. Returns how many connections there were.
async fn served(listener: TcpListener, answered: &[bool]) -> usize {
    let mut connections = 0;
    let mut requests = answered.iter();
    let mut next = requests.next();
    while next.is_some() {
        let (mut peer, _) = listener.accept().await.unwrap();
        connections += 1;
        while let Some(is_answered) = next {
            let mut text = Vec::new();
            while !text.ends_with(b"}}") {
                if peer.read_buf(&mut text).await.unwrap() == 0 {
                    break;
                }
            }
            if text.is_empty() {
                break;
            }
            next = requests.next();
            if !is_answered {
                break;
            }
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            peer.write_all(answer).await.unwrap();
        }
    }
    connections
}

#[tokio::test]
async fn a_request_that_meets_a_closed_connection_is_sent_again_at_once_on_a_new_one() {
    for (answered, requests, verdicts) in [
        // The kept connection is closed when the second change arrives.
        (&[true, false, true][..], 3, ["done", "done"]),
        // A server that closes a new connection, too, has a fault.
        (&[true, false, false], 3, ["done", "fault"]),
        (&[false, true], 2, ["fault", "done"]),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut settings = webhook(format!("http://{}/", listener.local_addr().unwrap()));
        settings.concurrency = 1;
        let mut sink = build(&SinkKind::Webhook(settings));
        let delivering = async {
            let first = deliver_one(&mut sink, &change(1)).await;
            let second = deliver_one(&mut sink, &change(2)).await;
            [first, second]
        };
        let (connections, delivered) = tokio::join!(served(listener, answered), delivering);
        let kinds = delivered.each_ref().map(kind_of);
        assert_eq!(kinds, verdicts, "{answered:?}: {delivered:?}");
        assert_eq!(
            connections,
            requests - usize::from(answered[0]),
            "{answered:?}"
        );
    }
}

#[tokio::test]
async fn a_result_is_read_at_the_host_that_the_configuration_names_and_without_a_secret() {
    let (receiver, result) = (Receiver::start().await, Receiver::start().await);
    let to = |redirect_host: Option<&str>| {
        let url = receiver
            .url("/exec")
            .replace("http://", "http://shop:secret@");
        let mut settings = webhook(url);
        settings.redirect_host = redirect_host.map(str::to_owned);
        settings
            .headers
            .insert("x-key", "CANARY-47".parse().unwrap());
        build(&SinkKind::Webhook(settings))
    };
    receiver.always(Answer::status(302).header("location", result.url("/result?of=1")));
    for host in [None, Some("example.com")] {
        fault_says(&mut to(host), &change(1), "redirects are not followed").await;
    }
    assert!(result.received().is_empty());
    let mut sink = to(Some("127.0.0.1"));
    assert_eq!(deliver_one(&mut sink, &change(1)).await, Verdict::Done);
    let [request] = &result.received()[..] else {
        panic!("one request reads the result")
    };
    assert_eq!(
        (request.method.as_str(), request.body.as_str()),
        ("GET", "")
    );
    assert_eq!(request.uri.to_string(), "/result?of=1");
    for name in ["authorization", "x-key", "webhook-id", "webhook-signature"] {
        assert_eq!(request.header(name), "", "{name}");
    }
    for (status, expected) in [(500, "fault"), (302, "fault"), (422, "refused")] {
        result.always(Answer::status(status).header("location", result.url("/again")));
        assert_eq!(
            kind_of(&deliver_one(&mut sink, &change(1)).await),
            expected,
            "{status}"
        );
    }
    assert!(
        result
            .received()
            .iter()
            .all(|request| request.uri.path() == "/result")
    );
}

#[tokio::test]
async fn a_probe_says_what_to_do_about_the_status_and_posts_nothing() {
    let receiver = Receiver::start().await;
    let sink = to(&receiver);
    for (status, words) in [
        (200, Ok("nothing was posted")),
        (400, Ok("400 to OPTIONS")),
        (405, Ok("405 to OPTIONS")),
        (301, Err("put the final address into the url")),
        (401, Err("check the address, the headers and the secret")),
        (
            404,
            Err("check the address; if it takes POST only, try `shopmirror sinks NAME test`"),
        ),
        (410, Err("put its new address into the url")),
        (503, Err("see its log")),
    ] {
        receiver.always(Answer::status(status));
        let probed = sink.check().await.map_err(|error| error.to_string());
        let is_as_expected = match (&probed, words) {
            (Ok(text), Ok(words)) | (Err(text), Err(words)) => text.contains(words),
            _ => false,
        };
        assert!(is_as_expected, "{status}: {probed:?}");
    }
    assert!(
        receiver
            .received()
            .iter()
            .all(|request| request.method == "OPTIONS")
    );
}

#[tokio::test]
async fn a_corrected_file_of_an_address_counts_at_the_next_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let write = |url: &str| std::fs::write(dir.path().join("erp-url"), url).unwrap();
    let receiver = Receiver::start().await;
    let closed = ClosedPort::new();
    write(&format!("http://{}/CANARY-47\n", closed.address));
    let kind = configured(dir.path(), "type = \"webhook\"\nurl_file = \"erp-url\"").kind;
    let mut sink = build(&kind);
    fault_says(&mut sink, &change(1), "nothing accepts connections").await;
    for (text, words) in [
        ("CANARY-48", "must begin with https://"),
        ("https://CANARY-49", "restart"),
    ] {
        write(text);
        fault_says(&mut sink, &change(1), words).await;
    }
    write(&receiver.url("/hooks/CANARY-50\n"));
    assert_eq!(deliver_one(&mut sink, &change(1)).await, Verdict::Done);
    receiver.always(Answer::status(500).body("no /hooks/CANARY-50"));
    fault_says(&mut sink, &change(1), "response: no [secret]").await;
}

#[tokio::test]
async fn a_long_response_is_not_read_to_its_end() {
    const LENGTH: usize = 1 << 28;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = async {
        let (mut peer, _) = listener.accept().await.unwrap();
        let _ = peer.read(&mut [0; 16 * 1024]).await.unwrap();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n");
        peer.write_all(head.as_bytes()).await.unwrap();
        let mut sent = 0;
        while sent < LENGTH && peer.write_all(&[b'x'; 16 * 1024]).await.is_ok() {
            sent += 16 * 1024;
        }
        sent
    };
    let delivering =
        async { deliver_one(&mut build(&SinkKind::Webhook(webhook(url))), &change(1)).await };
    let (sent, verdict) = tokio::join!(server, delivering);
    assert_eq!(verdict, Verdict::Done);
    assert!(sent < LENGTH, "the connection was closed before the end");
}

#[tokio::test]
async fn a_change_is_never_sent_without_tls_to_another_machine() {
    for url in [
        "",
        "erp.example.com",
        "ftp://erp.example.com",
        "http://erp.example.com/CANARY",
    ] {
        let error =
            shopmirror::sink::build_one("erp", &SinkKind::Webhook(webhook(url))).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains("erp") && !text.contains("CANARY"), "{text}");
    }
    let receiver = Receiver::start().await;
    let named = receiver.url("/").replace("127.0.0.1", "localhost");
    let near = WebhookSettings {
        allow_plain: true,
        ..webhook(named)
    };
    let mut near = shopmirror::sink::build_one("near", &SinkKind::Webhook(near)).unwrap();
    assert_eq!(deliver_one(&mut near, &change(1)).await, Verdict::Done);
    let receiver = Receiver::start().await;
    let url = receiver.url("/CANARY").replace("http://", "https://");
    let Ok(mut sink) = shopmirror::sink::build_one("erp", &SinkKind::Webhook(webhook(url))) else {
        eprintln!("SKIPPED: https needs certificate authorities on this machine");
        return;
    };
    fault_says(&mut sink, &change(1), "does not speak TLS").await;
    assert!(receiver.received().is_empty());
}

/// Everything that is logged, as text.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Everything that this thread logs until the guard is dropped.
    pub(super) fn recorded() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_reason_quotes_the_response_and_neither_it_nor_the_log_has_the_address_or_a_secret() {
    let (log, _logging) = Log::recorded();
    tracing::info!("the log is being read");

    let secret = STANDARD.encode(b"CANARYCANARYCANARYCANARYCANARY");
    let build_for = |url: String| {
        let mut settings = webhook(url);
        settings.secrets = vec![format!("whsec_{secret}").into()];
        settings
            .headers
            .insert("x-key", "CANARY-47".parse().unwrap());
        // A plain word hides nothing.
        settings.headers.insert("x-shop", "such".parse().unwrap());
        build(&SinkKind::Webhook(settings))
    };
    let receiver = Receiver::start().await;
    let mut sink = build_for(receiver.url("/CANARY-47?token=CANARY-47"));
    let mut texts = vec![format!("{sink:?} {:?}", sink.check().await)];
    let body = "{\n \"error\": \"no such job\", \"url\": \"\\/CANARY-47?token=CANARY-47\", \"key\": \"CANARY-47\"}";
    for status in [302, 400, 410, 500] {
        let answer = Answer::status(status).header("location", "http://CANARY:CANARY@127.0.0.1:1/");
        receiver.always(answer.header("retry-after", "CANARY").body(body));
        let verdict = deliver_one(&mut sink, &change(1)).await;
        let reason = reason(&verdict);
        assert!(
            reason.contains("no such job") && !reason.contains('\n'),
            "{reason}"
        );
        texts.push(format!("{verdict:?}"));
    }
    receiver.always(Answer::status(422).body("x".repeat(1 << 20)));
    assert!(
        reason(&deliver_one(&mut sink, &change(1)).await)
            .chars()
            .count()
            <= 480
    );
    let closed = ClosedPort::new();
    let mut sink = build_for(format!("http://CANARY:CANARY@{}/CANARY-47", closed.address));
    texts.push(format!(
        "{:?} {:?}",
        deliver_one(&mut sink, &change(1)).await,
        sink.check().await
    ));

    texts.push(String::from_utf8(log.0.lock().unwrap().clone()).unwrap());
    assert!(texts.last().unwrap().contains("the log is being read"));
    for text in texts {
        assert!(
            !text.contains("CANARY") && !text.contains(&secret),
            "{text}"
        );
    }
}
