//! What the other side says about the sink's own credentials is hidden wherever it is quoted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use shopmirror::config::{Base, Config, SinkKind};
use shopmirror::sink::Sink;

use super::stand_in::Step::Hear;
use super::stand_in::{Step, say, server};
use super::{build, change, deliver_one, reason};

const SECRET: &str = "CANARY/secret:1";
/// The same as it stands in an address.
const ENCODED: &str = "CANARY%2Fsecret%3A1";

fn sink(settings: &str) -> Sink {
    let text =
        format!("[workspace]\nbase_url = \"http://127.0.0.1:9/api\"\n[sinks.test]\n{settings}\n");
    let base = Base { env_key: Some("key".into()), ..Base::default() };
    let config = Config::parse(&text, "config.toml", &base).unwrap_or_else(|p| panic!("{p}"));
    Sink::build("test", &config.sinks["test"].kind).unwrap()
}

fn secret_file(dir: &Path, text: &str) -> String {
    let path = dir.join("secret");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

/// Both a delivery and a probe quote what the other side said, without the secret.
async fn hides(mut sink: Sink, words: &str) {
    let verdict = deliver_one(&mut sink, &change(1)).await;
    let probed = sink.probe().await.unwrap_or_else(|error| error);
    assert!(reason(&verdict).contains(words), "{verdict:?}");
    for text in [reason(&verdict), &probed] {
        for part in ["CANARY", "Q0FOQVJZ", "AHNob3AAQ"] {
            assert!(!text.contains(part), "{text}");
        }
    }
}

fn http(status: &str, body: &str) -> [Step; 2] {
    let length = body.len();
    [Hear, say(format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}"))]
}

#[cfg(feature = "email")]
#[tokio::test]
async fn by_a_mail_server() {
    for said in [
        format!("bad credentials for {SECRET}"),
        // The command as it was sent.
        "bad command AUTH PLAIN AHNob3AAQ0FOQVJZL3NlY3JldDox".to_owned(),
        format!("bad {} {SECRET}", "x".repeat(148)),
    ] {
        let port = server([
            say("220 x\r\n"),
            Hear,
            say("250-x\r\n250 AUTH PLAIN\r\n"),
            Hear,
            say(format!("535 {said}\r\n")),
        ]);
        // A login without TLS, which no configuration may ask for.
        let mut settings = super::email::settings(port);
        settings.login = Some(("shop".to_owned(), SECRET.into()));
        hides(build(&SinkKind::Email(settings)), "it said: bad").await;
    }
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn by_a_postgresql_server() {
    for code in ["28P01", "22000"] {
        let fields = format!("SFATAL\0C{code}\0Mno user with {SECRET}, {ENCODED}\0\0");
        let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
        let port = server([Hear, say([b"E", &length[..], fields.as_bytes()].concat())]);
        let words = if code == "28P01" { "no user with" } else { "" };
        let settings = format!(
            "type = \"postgres\"\nurl = \"postgresql://shop:{ENCODED}@127.0.0.1:{port}/a\"\n\
             workspace = \"a\""
        );
        hides(sink(&settings), words).await;
    }
}

#[cfg(feature = "nats")]
#[tokio::test]
async fn by_a_nats_server() {
    let info = "INFO {\"server_id\":\"a\",\"server_name\":\"a\",\"version\":\"2.9.0\",\"go\":\"x\",\
                \"host\":\"x\",\"port\":1,\"headers\":true,\"max_payload\":1048576,\"proto\":1,\
                \"jetstream\":true}\r\n";
    for login in [format!("shop:{ENCODED}"), ENCODED.to_owned()] {
        let port = server([say(info), Hear, say(format!("-ERR 'no entry with {SECRET}'\r\n"))]);
        let settings = format!(
            "type = \"nats\"\nurl = \"nats://{login}@127.0.0.1:{port}\"\nworkspace = \"a\""
        );
        hides(sink(&settings), "connecting to NATS").await;
    }
}

#[cfg(feature = "mqtt")]
#[tokio::test]
async fn by_a_broker() {
    // A refusal (bad user name or password) with a reason string.
    let text = format!("no entry with {SECRET}");
    let length = u8::try_from(text.len()).unwrap();
    let start = [0x20, length + 6, 0, 0x86, length + 3, 0x1f, 0, length];
    let port = server([Hear, say([&start[..], text.as_bytes()].concat())]);
    let settings = format!(
        "type = \"mqtt\"\nurl = \"mqtt://shop:{ENCODED}@127.0.0.1:{port}\"\nworkspace = \"a\""
    );
    hides(sink(&settings), "connecting to the MQTT broker").await;
}

#[cfg(feature = "s3")]
#[tokio::test]
async fn by_a_storage_service() {
    let dir = tempfile::tempdir().unwrap();
    let key = secret_file(dir.path(), &format!("AKIAKEY\n{SECRET}\n"));
    let port = server(http("403 x", &format!("<Error><Message>{SECRET}</Message></Error>")));
    let settings = format!(
        "type = \"s3\"\nendpoint = \"http://127.0.0.1:{port}\"\nbucket = \"shop\"\n\
         access_key_file = \"{key}\"\nworkspace = \"a\""
    );
    hides(sink(&settings), "refused the access key").await;
}

#[tokio::test]
async fn by_another_workspace() {
    let dir = tempfile::tempdir().unwrap();
    let key = secret_file(dir.path(), SECRET);
    let error = format!("{{\"error\":{{\"code\":\"bad\",\"message\":\"no key {SECRET}\"}}}}");
    for status in ["401 x", "422 x"] {
        let port = server(http(status, &error));
        let settings = format!(
            "type = \"intake\"\nbase_url = \"http://127.0.0.1:{port}/api\"\n\
             api_key_file = \"{key}\"\ncreate = \"lead\"\nrequests_per_minute = 600\n\
             fields = {{ name = \"a\", email = \"a@b.example\" }}"
        );
        hides(sink(&settings), "it said: bad no key").await;
    }
}

#[tokio::test]
async fn by_a_webhook() {
    let port = server(http("503 x", &format!("no token {SECRET}, {ENCODED}")));
    let url = format!("http://127.0.0.1:{port}/?token={ENCODED}");
    hides(sink(&format!("type = \"webhook\"\nurl = \"{url}\"")), "it said: no token").await;
}

#[tokio::test]
async fn by_a_program() {
    for batch in [1, 10] {
        for argument in [SECRET.to_owned(), format!("--token={SECRET}")] {
            let script = "echo no entry with $1 >&2; exit 75";
            let settings = format!(
                "type = \"command\"\nbatch = {batch}\n\
                 command = [\"/bin/sh\", \"-c\", \"{script}\", \"x\", \"{argument}\"]"
            );
            hides(sink(&settings), "no entry with").await;
        }
    }
}
