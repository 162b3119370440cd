//! Every sink that has a server asks for its address in turn, and none holds up the others while a
//! disk does not respond.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use futures_util::future::{FutureExt, join_all};

use super::*;
use crate::config::{Base, Config};
use crate::sink::Sink;

/// One of the tests takes every turn.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A sink of each type with a server, at this port; `more` for those that take `ca_file`.
fn sinks(dir: &Path, port: u16, encrypted: bool) -> Vec<(String, Sink)> {
    use std::os::unix::fs::PermissionsExt;

    std::fs::write(dir.join("key"), "id\nsecret\n").unwrap();
    std::fs::set_permissions(dir.join("key"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let (ca, tls) = if encrypted { ("ca_file = \"ca.pem\"\n", "s") } else { ("", "") };
    let mut text = format!(
        "[workspace]\nbase_url = \"http://127.0.0.1:9/api\"\n\
         [sinks.database]\ntype = \"postgres\"\nurl = \"postgresql://shop@localhost:{port}/shop\"\n\
         workspace = \"north\"\ntimeout = \"1s\"\n{ca}\
         [sinks.bus]\ntype = \"nats\"\nurl = \"nats://localhost:{port}\"\nworkspace = \"north\"\n\
         timeout = \"1s\"\n{ca}\
         [sinks.broker]\ntype = \"mqtt\"\nurl = \"mqtt{tls}://localhost:{port}\"\nworkspace = \"north\"\n\
         timeout = \"1s\"\n{ca}"
    );
    if !encrypted {
        text.push_str(&format!(
            "[sinks.desk]\ntype = \"email\"\nserver = \"localhost:{port}\"\ntls = \"none\"\n\
             from = \"a@example.com\"\nto = [\"b@example.com\"]\nsubject = \"x\"\ntimeout = \"1s\"\n\
             [sinks.archive]\ntype = \"s3\"\nendpoint = \"http://localhost:{port}\"\nbucket = \"shop\"\n\
             access_key_file = \"key\"\nworkspace = \"north\"\ntimeout = \"1s\"\n\
             [sinks.hook]\ntype = \"webhook\"\nurl = \"http://localhost:{port}/\"\ntimeout = \"1s\"\n"
        ));
    }
    let base = Base { env_key: Some("key".into()), dir: dir.to_owned(), ..Base::default() };
    let config = Config::parse(&text, "config.toml", &base).unwrap_or_else(|p| panic!("{p}"));
    let build = |(name, settings): (&String, &crate::config::SinkSettings)| {
        (name.clone(), Sink::build(name, &settings.kind).unwrap())
    };
    config.sinks.iter().map(build).collect()
}

#[tokio::test]
async fn no_sink_looks_a_name_up_out_of_turn() {
    let _alone = ALONE.lock().await;
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let all = TURNS.acquire_many(u32::try_from(MOST).unwrap()).await.unwrap();
    for (name, sink) in sinks(dir.path(), port, false) {
        let said = sink.probe().await;
        assert!(said.is_err(), "{name}: {said:?}");
        assert!(listener.accept().is_err(), "{name} connected without a turn");
    }
    drop(all);
    let waiting = sinks(dir.path(), port, false);
    let probes = waiting.iter().map(|(_, sink)| sink.probe());
    join_all(probes).await;
    assert!(listener.accept().is_ok(), "with a turn, a sink connects");
}

#[tokio::test]
async fn an_ip_address_waits_for_no_turn() {
    let _alone = ALONE.lock().await;
    let _all = TURNS.acquire_many(u32::try_from(MOST).unwrap()).await.unwrap();
    for host in ["192.0.2.7", "2001:db8::7"] {
        // Polled once: with a turn to wait for, it would not be ready.
        let found = addresses(host, 80).now_or_never();
        let found = found.unwrap_or_else(|| panic!("{host} waits for a turn")).unwrap();
        assert_eq!(found, [SocketAddr::new(host.parse().unwrap(), 80)]);
    }
}

#[tokio::test]
async fn a_pipe_as_file_of_authorities_is_refused_and_not_waited_for() {
    let _alone = ALONE.lock().await;
    let dir = tempfile::tempdir().unwrap();
    // Opening a pipe waits for its other end, and reading it until something is written.
    let pipe = dir.path().join("ca.pem");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for (name, sink) in sinks(dir.path(), port, true) {
        let said = sink.probe().await.unwrap_err();
        assert!(said.contains("it is not a regular file"), "{name}: {said}");
    }
}
