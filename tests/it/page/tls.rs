//! The page over TLS, while its certificate is renewed.

use std::fs;
use std::sync::Arc;

use rustix::process::Signal;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use shopmirror::net::tls::file_verifier;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::support::servers::certificate;
use crate::support::{Place, Workspace, wait_until};

const SETTINGS: &str = "[status]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"page-tokens\"\n\
    cert_file = \"page.pem\"\nkey_file = \"page.key\"\n";
const FORM: &str = "token=0123456789abcdef";

/// Has the page use this certificate of the fixtures and its key.
fn install(place: &Place, certificate_name: &str, key: &str) {
    for (file, name) in [("page.pem", certificate_name), ("page.key", key)] {
        let text = fs::read_to_string(certificate(name)).unwrap();
        place.write(file, &text);
    }
}

async fn address(place: &Place) -> String {
    let status = place
        .status_when("the page is open", |s| s["page"].is_string())
        .await;
    let url = status["page"].as_str().unwrap();
    let address = url.strip_prefix("https://").unwrap();
    address.trim_end_matches('/').to_owned()
}

/// Sends the form over TLS, and trusts this file alone; the error of the client if it does not
/// trust the page.
async fn post(address: &str, trusted: &str) -> Result<String, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(file_verifier(&certificate(trusted)).unwrap())
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = match connector.connect(name, stream).await {
        Ok(stream) => stream,
        Err(error) => return Err(error.to_string()),
    };
    let request = format!(
        "POST / HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{FORM}",
        FORM.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await.unwrap();
    Ok(String::from_utf8(reply).unwrap())
}

#[tokio::test]
async fn a_renewed_certificate_is_served_and_a_wrong_pair_is_not() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.write("page-tokens", "0123456789abcdef\n");
    install(&place, "server.pem", "server.key");
    place.configure(SETTINGS);
    let daemon = place.started().await;
    let address = address(&place).await;
    let reply = post(&address, "ca.pem").await.unwrap();
    assert!(
        reply.starts_with("HTTP/1.1 303 ") && reply.contains("; Secure"),
        "{reply}"
    );
    assert!(post(&address, "own.pem").await.is_err());

    let mut plain = TcpStream::connect(&address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut advice = String::new();
    plain.read_to_string(&mut advice).await.unwrap();
    assert!(advice.contains("write https:// in front"), "{advice}");

    // The key of another certificate: the last pair stays.
    install(&place, "own.pem", "server.key");
    let refused = "the new certificate cannot be used";
    wait_until("the pair is refused", || place.log().contains(refused)).await;
    assert!(
        place.log().contains("name the key that it was made for"),
        "{}",
        place.log()
    );
    post(&address, "ca.pem").await.unwrap();

    install(&place, "own.pem", "own.key");
    let taken = "served with the new certificate";
    wait_until("the new pair is served", || place.log().contains(taken)).await;
    post(&address, "own.pem").await.unwrap();
    daemon.stop().await;
}

#[tokio::test]
async fn a_reload_keeps_the_last_pair_while_the_files_do_not_fit_and_reads_them_at_once() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.write("page-tokens", "0123456789abcdef\n");
    install(&place, "server.pem", "server.key");
    place.configure(SETTINGS);
    let daemon = place.started().await;
    address(&place).await;

    install(&place, "own.pem", "server.key");
    place.configure(&format!("{SETTINGS}hosts = [\"shop.example.com\"]\n"));
    assert_eq!(place.run(["reload"]).await.code, Some(0));
    let log = || place.log();
    let opened = "the status page is open";
    wait_until("the page is open again", || {
        log().matches(opened).count() == 2
    })
    .await;
    assert!(
        log().contains("the new certificate cannot be used"),
        "{}",
        log()
    );
    let address = address(&place).await;
    post(&address, "ca.pem").await.unwrap();

    install(&place, "own.pem", "own.key");
    daemon.signal(Signal::HUP);
    let taken = "served with the new certificate";
    wait_until("the new pair is served", || log().contains(taken)).await;
    post(&address, "own.pem").await.unwrap();
    daemon.stop().await;
}

#[tokio::test]
async fn a_page_whose_certificate_cannot_be_used_is_tried_again() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.write("page-tokens", "0123456789abcdef\n");
    install(&place, "server.pem", "own.key");
    place.configure(SETTINGS);
    let daemon = place.daemon();
    let is_refused = |status: &Value| status["page_refused"].is_string();
    let status = place.status_when("the page is refused", is_refused).await;
    let why = status["page_refused"].as_str().unwrap();
    assert!(why.contains("cannot be used together"), "{why}");
    install(&place, "server.pem", "server.key");
    post(&address(&place).await, "ca.pem").await.unwrap();
    daemon.stop().await;
}
