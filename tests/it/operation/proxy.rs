//! A proxy on the way: it is only asked to connect, sees neither key nor record, and its own answers
//! are named as those of somebody between.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::{ServerConnection, StreamOwned};

use crate::support::servers::{certificate, tls_server};
use crate::support::{Place, Receiver, Workspace, wait_until};

/// A proxy that keeps the heads of its requests. Its threads end with the test program.
struct Proxy {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// One that answers each request with this status line, or connects if it is 200.
    fn start(status: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&heads);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || serve(stream, status, &kept));
            }
        });
        Self { address, heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn serve(mut client: TcpStream, status: &str, heads: &Mutex<Vec<String>>) -> Option<()> {
    let head = read_head(&mut client)?;
    heads.lock().unwrap().push(head.clone());
    let body = "<title>Ann</title>";
    let length = if status == "200 OK" { 0 } else { body.len() };
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n");
    if status != "200 OK" {
        client.write_all((answer + body).as_bytes()).ok()?;
        return None;
    }
    let target = head.split(' ').nth(1)?.to_owned();
    let mut server = TcpStream::connect(target).ok()?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    let (mut from_server, mut to_client) = (server.try_clone().ok()?, client.try_clone().ok()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(std::net::Shutdown::Both);
    });
    let _ = std::io::copy(&mut client, &mut server);
    Some(())
}

fn read_head(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

/// A server that speaks TLS, and passes each request without a body on to a port of this machine.
fn tls_front(port: u16) -> SocketAddr {
    let config = tls_server("server");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut client = StreamOwned::new(connection, stream);
            std::thread::spawn(move || {
                let head = read_head(&mut client)?;
                let closing = head.replacen("\r\n", "\r\nconnection: close\r\n", 1);
                let mut server = TcpStream::connect(("127.0.0.1", port)).ok()?;
                server.write_all(closing.as_bytes()).ok()?;
                let mut answer = Vec::new();
                server.read_to_end(&mut answer).ok()?;
                client.write_all(&answer).ok()?;
                client.conn.send_close_notify();
                client.flush().ok()
            });
        }
    });
    address
}

/// A folder for a workspace behind TLS and this proxy; `keys` follow in `[workspace]`.
fn place(front: SocketAddr, key: &str, keys: &str) -> Place {
    let place = Place::new(&format!("https://{front}/api"), key);
    let ca = certificate("ca.pem");
    place.configure_all(&format!("ca_file = \"{}\"\n{keys}\n", ca.display()));
    place
}

#[tokio::test]
async fn a_proxy_is_asked_to_connect_and_sees_nothing_else() {
    let workspace = Workspace::start().await;
    let front = tls_front(workspace.port());
    let key = workspace.sandbox.automation_key();
    let proxy = Proxy::start("200 OK");
    let address = proxy.address;

    let keys = format!("proxy = \"http://{address}\"");
    let place_without = place(front, &key, &keys);
    let ended = place_without.run(["once"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(place_without.number("SELECT count(*) FROM jobs") > 0);

    let place_with = place(front, &key, "proxy_file = \"proxy\"");
    place_with.write("proxy", &format!("http://shop:CANARY%20pass@{address}\n"));
    let ended = place_with.run(["once"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");

    let heads = proxy.heads();
    assert!(heads.len() >= 2, "{heads:?}");
    for head in &heads {
        assert!(head.starts_with(&format!("CONNECT {front} ")), "{head}");
        assert!(!head.contains(&key), "{head}");
    }
    // shop:CANARY pass
    let login = "Proxy-Authorization: Basic c2hvcDpDQU5BUlkgcGFzcw==";
    assert!(heads.last().unwrap().contains(login), "{heads:?}");
    assert!(!heads[0].contains("Authorization"), "{heads:?}");
}

#[tokio::test]
async fn an_answer_of_the_proxy_itself_is_of_somebody_between_and_names_it() {
    let workspace = Workspace::start().await;
    let front = tls_front(workspace.port());
    for (status, words) in [
        (
            "407 Proxy Authentication Required",
            "it wants another login (407)",
        ),
        ("403 Forbidden", "it opens no connection to this address"),
        ("502 Bad Gateway", "it opens no connection to this address"),
    ] {
        let proxy = Proxy::start(status);
        let address = proxy.address;
        let place = place(front, "any-key", "proxy_file = \"proxy\"");
        place.write("proxy", &format!("http://shop:CANARY@{address}"));
        let ended = place.run(["check"]).await;
        assert_eq!(ended.code, Some(75), "{ended:?}");
        let line = format!("the proxy {address} answers in place of the workspace: {words}");
        assert!(ended.out.contains(&line), "{ended:?}");
        assert!(!ended.out.contains("CANARY"), "{ended:?}");

        let daemon = place.daemon();
        let is_held = |status: &serde_json::Value| {
            let pollers = status["pollers"].as_array().unwrap();
            pollers.iter().all(|p| p["state"] == "somebody_between")
        };
        place.status_when("every route waits", is_held).await;
        daemon.stop().await;
    }
}

#[tokio::test]
async fn a_webhook_goes_through_the_proxy_of_its_sink() {
    let receiver = Receiver::start().await;
    let proxy = Proxy::start("403 Forbidden");
    let place = Place::new("http://127.0.0.1:9/api", "key");
    let url = receiver.url("/hook").replace("http://", "https://");
    let keys = format!("proxy = \"http://{}\"", proxy.address);
    place.configure_all(&Place::webhook_sink("erp", &url, &keys));
    let ended = place.run(["check", "--sink", "erp"]).await;
    let words = format!(
        "through the proxy {}: could not connect: it opens",
        proxy.address
    );
    assert!(ended.out.contains(&words), "{ended:?}");
    wait_until("the proxy was asked", || {
        proxy
            .heads()
            .iter()
            .all(|head| head.starts_with("CONNECT "))
            && !proxy.heads().is_empty()
    })
    .await;
}

#[tokio::test]
async fn what_would_show_a_secret_to_a_proxy_is_refused_and_a_proxy_of_the_environment_named() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    for (keys, words) in [
        (
            "proxy = \"http://127.0.0.1:3128\"",
            "`proxy` is for an address with https://",
        ),
        (
            "proxy = \"127.0.0.1:3128\"",
            "`proxy` must begin with http://",
        ),
        (
            "proxy = \"socks5://127.0.0.1\"",
            "`proxy` must begin with http://",
        ),
        (
            "proxy = \"http://shop:CANARY@127.0.0.1:3128\"",
            "`proxy` holds a user or a password: write the address into a file",
        ),
    ] {
        place.configure_all(keys);
        let ended = place.run(["check", "--offline"]).await;
        assert_eq!(ended.code, Some(78), "{ended:?}");
        assert!(ended.out.contains(words), "{ended:?}");
        assert!(!ended.out.contains("CANARY"), "{ended:?}");
    }
    let sink = Place::webhook_sink(
        "erp",
        "http://127.0.0.1:9/hook",
        "proxy = \"http://127.0.0.1:3128\"",
    );
    place.configure_all(&sink);
    let ended = place.run(["check", "--offline"]).await;
    assert!(
        ended
            .out
            .contains("`proxy` is for an address with https://"),
        "{ended:?}"
    );

    place.configure_all("");
    let variable = ["env", "HTTPS_PROXY=http://127.0.0.1:9"];
    let ended = place.run_by(&variable, &["check"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.out.contains("HTTPS_PROXY is set and ignored"),
        "{ended:?}"
    );
    let ended = place.run(["check"]).await;
    assert!(!ended.out.contains("PROXY"), "{ended:?}");
}
