//! The webhook: the request, the meaning of answers, the limits, the secrets.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use shopmirror::config::SinkKind;
use shopmirror::sink::{Sink, Verdict};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    at, build, change, changes, deliver, deliver_one, is_fault, reason, stopped_at_a_fault, webhook,
};
use crate::support::{Answer, ClosedPort, Receiver, wait_until};

fn signature(secret: &[u8], signed: &str) -> String {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret).unwrap();
    mac.update(signed.as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[tokio::test]
async fn the_request_is_what_the_specification_says() {
    let receiver = Receiver::start().await;
    let (new, old) = ([7_u8; 32], [9_u8; 24]);
    let secret = |bytes: &[u8]| format!("whsec_{}", STANDARD.encode(bytes)).into();
    let mut settings = webhook(receiver.url("/hooks/shop?token=abc"));
    settings.secrets = vec![secret(&new), secret(&old)];
    settings.headers.insert("X-Shop".into(), "mine".into());
    let mut sink = build(&SinkKind::Webhook(settings));
    assert_eq!(deliver_one(&mut sink, &change(1)).await, Verdict::Done);

    let request = &receiver.received()[0];
    assert_eq!(request.method, "POST");
    assert_eq!(request.uri, "/hooks/shop?token=abc");
    assert_eq!(
        request.body,
        format!(
            r#"{{"type":"leads.created","timestamp":"2026-01-02T03:04:05.000000Z","data":{}}}"#,
            change(1).data_json()
        )
    );
    assert_eq!(request.header("content-type"), "application/json");
    assert_eq!(request.header("user-agent"), concat!("shopmirror/", env!("CARGO_PKG_VERSION")));
    assert_eq!(request.header("webhook-id"), "evt_0001");
    assert_eq!(request.header("webhook-timestamp"), "1800000000");
    assert_eq!(request.header("x-shop"), "mine");
    assert_eq!(request.header("referer"), "");
    let signed = format!("evt_0001.1800000000.{}", request.body);
    assert_eq!(
        request.header("webhook-signature"),
        format!("{} {}", signature(&new, &signed), signature(&old, &signed))
    );
}

#[tokio::test]
async fn a_user_and_password_in_the_address_are_sent_as_basic_authentication() {
    let receiver = Receiver::start().await;
    let url = receiver.url("/").replace("http://", "http://shop:se%20cret@");
    let mut sink = build(&SinkKind::Webhook(webhook(url)));
    assert_eq!(deliver_one(&mut sink, &change(1)).await, Verdict::Done);
    let expected = format!("Basic {}", STANDARD.encode("shop:se cret"));
    assert_eq!(receiver.received()[0].header("authorization"), expected);
}

#[tokio::test]
async fn a_retry_has_the_same_id_and_body_and_a_new_timestamp() {
    let receiver = Receiver::start().await;
    receiver.script([Answer::status(500)]);
    let mut sink = build(&SinkKind::Webhook(webhook(receiver.url("/"))));
    let stop = CancellationToken::new();
    assert!(is_fault(&sink.deliver(&[change(1)], at(100), &stop).await[0]));
    assert_eq!(sink.deliver(&[change(1)], at(200), &stop).await, [Verdict::Done]);
    let received = receiver.received();
    assert_eq!(received[0].body, received[1].body);
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    assert_eq!(received[0].header("webhook-timestamp"), "100");
    assert_eq!(received[1].header("webhook-timestamp"), "200");
    assert_eq!(received[0].header("webhook-signature"), "");
}

#[tokio::test]
async fn only_2xx_acknowledges_and_other_codes_refuse_the_change_or_pause_the_sink() {
    let receiver = Receiver::start().await;
    let mut sink = build(&SinkKind::Webhook(webhook(receiver.url("/"))));
    for (status, expected) in [
        (200, "done"),
        (202, "done"),
        (299, "done"),
        (301, "fault"),
        (304, "fault"),
        (400, "refused"),
        (401, "fault"),
        (403, "fault"),
        (404, "fault"),
        (408, "fault"),
        (409, "refused"),
        (410, "gone"),
        (413, "refused"),
        (415, "refused"),
        (422, "refused"),
        (423, "fault"),
        (425, "fault"),
        (429, "fault"),
        (500, "fault"),
        (503, "fault"),
    ] {
        receiver.always(Answer::status(status));
        let verdict = deliver_one(&mut sink, &change(1)).await;
        let found = match verdict {
            Verdict::Done => "done",
            Verdict::Refused { for_good: false, .. } => "refused",
            Verdict::Refused { for_good: true, .. } => "refused for good",
            Verdict::Fault { .. } => "fault",
            Verdict::Gone { .. } => "gone",
            Verdict::NotTried | Verdict::CutShort => "unknown",
        };
        assert_eq!(found, expected, "{status}: {verdict:?}");
        assert_eq!(expected == "done", reason(&verdict).is_empty());
    }
    for status in [400, 500] {
        receiver.always(Answer::status(status).header("webhook-delivery", "abort-message"));
        let verdict = deliver_one(&mut sink, &change(1)).await;
        assert!(matches!(verdict, Verdict::Refused { for_good: true, .. }), "{verdict:?}");
    }
}

#[tokio::test]
async fn retry_after_is_used_and_limited_to_one_hour() {
    let receiver = Receiver::start().await;
    let mut sink = build(&SinkKind::Webhook(webhook(receiver.url("/"))));
    // The clock of the receiver is an hour behind.
    let date_of = |second: i64| httpdate::fmt_http_date(at(second - 3_600).into());
    let (sent, date) = (date_of(1_800_000_000), date_of(1_800_000_090));
    for (text, seconds) in
        [("7", Some(7)), (&*date, Some(90)), ("9999999", Some(3600)), ("soon", None)]
    {
        let answer = Answer::status(429).header("retry-after", text).header("date", &sent);
        receiver.always(answer);
        match deliver_one(&mut sink, &change(1)).await {
            Verdict::Fault { retry_after, .. } => {
                assert_eq!(retry_after, seconds.map(Duration::from_secs), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Receiver::start().await;
    let receiver = Receiver::start().await;
    for status in [301, 302, 303, 307, 308] {
        receiver.always(Answer::status(status).header("location", elsewhere.url("/")));
        let mut sink = build(&SinkKind::Webhook(webhook(receiver.url("/"))));
        assert!(is_fault(&deliver_one(&mut sink, &change(1)).await));
    }
    assert!(elsewhere.received().is_empty());
}

#[tokio::test]
async fn no_more_requests_are_open_than_configured_and_none_is_done_before_its_response() {
    let receiver = Receiver::start_held().await;
    let mut settings = webhook(receiver.url("/"));
    settings.concurrency = 3;
    let mut sink = build(&SinkKind::Webhook(settings));
    assert_eq!(sink.batch(), 3);
    let delivery = tokio::spawn(async move { deliver(&mut sink, &changes(1..=9)).await });
    wait_until("three requests are in flight", || receiver.received().len() == 3).await;
    assert!(!delivery.is_finished());
    receiver.script([]);
    receiver.release();
    assert_eq!(delivery.await.unwrap(), vec![Verdict::Done; 9]);
    assert_eq!(receiver.received().len(), 9);
}

#[tokio::test]
async fn verdicts_have_the_order_of_the_changes() {
    let receiver = Receiver::start().await;
    receiver.script([Answer::status(204), Answer::status(422), Answer::status(204)]);
    let mut sink = build(&SinkKind::Webhook(webhook(receiver.url("/"))));
    let verdicts = deliver(&mut sink, &changes(1..=3)).await;
    assert!(matches!(
        &verdicts[..],
        [Verdict::Done, Verdict::Refused { for_good: false, .. }, Verdict::Done]
    ));
}

#[tokio::test]
async fn a_reason_quotes_the_response_without_secrets() {
    let receiver = Receiver::start().await;
    let mut settings = webhook(receiver.url("/in/CANARYSEGMENT"));
    settings.headers.insert("x-key".into(), "CANARYKEY".into());
    let mut sink = build(&SinkKind::Webhook(settings));
    let body = "{\n \"error\": \"no such job\",\n \"url\": \"\\/in\\/CANARYSEGMENT\", \"key\": \"CANARYKEY\"}";
    for (status, whose) in [(422, "refused this change"), (503, "the endpoint failed")] {
        receiver.always(Answer::status(status).body(body));
        let verdict = deliver_one(&mut sink, &change(1)).await;
        let reason = reason(&verdict);
        assert!(reason.contains(whose) && reason.contains("no such job"), "{reason}");
        assert!(!reason.contains("CANARY") && !reason.contains('\n'), "{reason}");
    }
    receiver.always(Answer::status(422).body("x".repeat(1 << 20)));
    let length = reason(&deliver_one(&mut sink, &change(1)).await).chars().count();
    assert!((300..420).contains(&length), "{length}");
}

#[tokio::test]
async fn after_a_fault_nothing_further_is_sent() {
    let receiver = Receiver::start().await;
    receiver.script([Answer::status(204), Answer::status(503)]);
    let mut sink = build(&SinkKind::Webhook(webhook(receiver.url("/"))));
    let verdicts = deliver(&mut sink, &changes(1..=9)).await;
    assert_eq!(verdicts[0], Verdict::Done);
    assert!(stopped_at_a_fault(&verdicts[1..]), "{verdicts:?}");
    assert_eq!(receiver.received().len(), 2);
}

#[tokio::test]
async fn an_endpoint_that_does_not_respond_is_a_fault() {
    let receiver = Receiver::start_held().await;
    let mut settings = webhook(receiver.url("/"));
    settings.timeout = Duration::from_secs(1);
    let verdict = deliver_one(&mut build(&SinkKind::Webhook(settings)), &change(1)).await;
    assert!(is_fault(&verdict) && reason(&verdict).contains("no response"), "{verdict:?}");
}

#[tokio::test]
async fn a_change_for_https_is_never_sent_without_tls() {
    let receiver = Receiver::start().await;
    let url = receiver.url("/CANARY").replace("http://", "https://");
    let kind = SinkKind::Webhook(webhook(url));
    let Ok(mut sink) = Sink::build("test", &kind) else {
        eprintln!("SKIPPED: https needs certificate authorities on this machine");
        return;
    };
    let verdict = deliver_one(&mut sink, &change(1)).await;
    assert!(is_fault(&verdict) && reason(&verdict).contains("does not speak TLS"), "{verdict:?}");
    assert!(receiver.received().is_empty());
}

#[tokio::test]
async fn a_stop_ends_the_wait_for_a_response() {
    let receiver = Receiver::start_held().await;
    let mut sink = build(&SinkKind::Webhook(webhook(receiver.url("/"))));
    let stop = CancellationToken::new();
    let (verdicts, ()) =
        tokio::join!(async { sink.deliver(&changes(1..=2), at(0), &stop).await }, async {
            wait_until("a request is in flight", || !receiver.received().is_empty()).await;
            stop.cancel();
        });
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::CutShort), "{verdicts:?}");
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
    let given = changes(1..=1);
    let delivering = async {
        let mut sink = build(&SinkKind::Webhook(webhook(url)));
        deliver(&mut sink, &given).await
    };
    let (sent, verdicts) = tokio::join!(server, delivering);
    assert_eq!(verdicts, [Verdict::Done]);
    assert!(sent < LENGTH, "the connection was closed before the end");
}

#[test]
fn an_address_or_header_that_can_never_work_is_refused() {
    for url in ["", "erp.example.com", "ftp://erp.example.com", "http://erp.example.com/CANARY"] {
        let error = Sink::build("erp", &SinkKind::Webhook(webhook(url))).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains("erp") && !text.contains("CANARY"), "{text}");
    }
    for (name, value) in [("webhook-id", "x"), ("bad name", "x"), ("x-key", "CANARY\nx")] {
        let mut settings = webhook("http://127.0.0.1:9/");
        settings.headers.insert(name.into(), value.into());
        let error = Sink::build("erp", &SinkKind::Webhook(settings)).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains(name) && !text.contains("CANARY"), "{text}");
    }
}

/// Everything that is logged, as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

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
async fn no_log_or_reason_contains_the_address_or_a_secret() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    tracing::info!("the log is being read");

    let mut texts = Vec::new();
    let secret = STANDARD.encode(b"CANARYCANARYCANARYCANARYCANARY");
    let mut settings = webhook("");
    settings.timeout = Duration::from_millis(300);
    settings.secrets = vec![format!("whsec_{secret}").into()];
    settings.headers.insert("x-key".into(), "CANARY".into());
    let build_for = |url: String| {
        let mut settings = settings.clone();
        settings.url = url.into();
        build(&SinkKind::Webhook(settings))
    };

    let receiver = Receiver::start().await;
    let mut sink = build_for(receiver.url("/CANARY?token=CANARY"));
    for status in [204, 302, 400, 401, 410, 422, 429, 500] {
        let location = format!("http://CANARY:CANARY@127.0.0.1:1/CANARY{status}");
        let answer = Answer::status(status)
            .header("location", location)
            .header("retry-after", "CANARY")
            .header("x-request-id", "CANARY");
        // 204 has no body.
        receiver.always(if status == 204 { answer } else { answer.body("CANARY") });
        texts.push(format!("{:?}", deliver_one(&mut sink, &change(1)).await));
    }
    texts.push(format!("{sink:?} {:?}", sink.probe().await));

    let closed = ClosedPort::new();
    let silent = Receiver::start_held().await;
    let garbage = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = garbage.local_addr().unwrap();
    let speaker = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt;
        while let Ok((mut stream, _)) = garbage.accept().await {
            let _ = stream.write_all(b"CANARY CANARY\r\n\r\n").await;
        }
    });
    for url in [
        format!("http://CANARY:CANARY@{}/CANARY", closed.address),
        silent.url("/CANARY?token=CANARY"),
        format!("http://{address}/CANARY"),
    ] {
        let mut sink = build_for(url);
        let verdict = deliver_one(&mut sink, &change(1)).await;
        assert!(is_fault(&verdict), "{verdict:?}");
        texts.push(format!("{verdict:?} {:?}", sink.probe().await));
    }
    speaker.abort();

    texts.push(String::from_utf8(log.0.lock().unwrap().clone()).unwrap());
    assert!(texts.last().unwrap().contains("the log is being read"));
    for text in texts {
        assert!(!text.contains("CANARY"), "{text}");
        assert!(!text.contains(&secret), "{text}");
    }
}
