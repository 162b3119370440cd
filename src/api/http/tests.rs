mod server;

use std::future::pending;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use reqwest::header::HeaderMap;
use secrecy::SecretString;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Barrier;

use self::server::{Script, Server, flood, read_head, say};
use super::super::client::Client;
use super::super::error::ApiError;
use super::*;
use crate::clock::Clock;
use crate::config::{Auth, KeySource, PollSettings};
use crate::record::{PollerId, Route};

const KEY: &str = "svc_CanaryKey0123456789";

/// `[{"id":1}]`, compressed.
const COMPRESSED: [u8; 30] = [
    0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 2, 3, 0x8b, 0xae, 0x56, 0xca, 0x4c, 0x51, 0xb2, 0x32, 0xac,
    0x8d, 0x05, 0, 0x64, 0xa8, 0xe5, 0x68, 0x0a, 0, 0, 0,
];

/// Long enough that only a fault of the test reaches it.
const LONG: Duration = Duration::from_secs(60);

fn workspace(base_url: &str) -> WorkspaceSettings {
    WorkspaceSettings {
        base_url: base_url.parse().unwrap(),
        key: KeySource::Environment(KEY.into()),
        auth: Auth::XApiKey,
        businesses: Vec::new(),
        proxy: None,
        ca_file: None,
        time_zone: jiff::tz::TimeZone::UTC,
    }
}

async fn ask(server: &Server, timeout: Duration) -> Result<ApiResponse, TransportError> {
    let url = server.url.clone();
    let transport = HttpTransport::new(&workspace(url.as_str())).unwrap();
    transport.send(ApiRequest { url, headers: HeaderMap::new(), timeout }).await
}

async fn poll(workspace: &WorkspaceSettings) -> Result<crate::record::Page, ApiError> {
    let transport = Arc::new(HttpTransport::new(workspace).unwrap());
    let poll = PollSettings { limit: 100, timeout: LONG, thrift: false };
    let key = SecretString::from(KEY);
    let client = Client::new(workspace, &poll, transport, key, Clock::system());
    client.poll(&PollerId { route: Route::Leads, business: None }).await.0
}

const CHUNK: usize = 64 * 1024;

fn chunk_of_spaces() -> Vec<u8> {
    format!("{CHUNK:x}\r\n{}\r\n", " ".repeat(CHUNK)).into_bytes()
}

/// What the kernel may have taken off the server's hands beyond what the client read.
const SOCKET_BUFFERS: usize = 24 * 1024 * 1024;

#[tokio::test]
async fn a_page_is_read_plain_and_compressed() {
    let plain = Server::start(|stream, _| {
        say(stream, b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n[{\"id\":1}]".to_vec())
    })
    .await;
    assert_eq!(poll(&workspace(plain.url.as_str())).await.unwrap().body(), "[{\"id\":1}]");
    let heads = plain.heads();
    assert_eq!(heads.len(), 1);
    let head = heads[0].to_lowercase();
    assert!(head.starts_with("get /api/automation/triggers/leads?limit=100 http/1.1\r\n"));
    assert!(head.contains("x-api-key: svc_canarykey0123456789\r\n"), "{head}");
    assert!(head.contains("accept: application/json\r\n"), "{head}");
    assert!(head.contains("accept-encoding: gzip\r\n"), "{head}");
    assert!(!head.contains("referer"), "{head}");

    let compressed = Server::start(|stream, _| {
        let mut answer = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n".to_vec();
        answer.extend_from_slice(&COMPRESSED);
        say(stream, answer)
    })
    .await;
    assert_eq!(poll(&workspace(compressed.url.as_str())).await.unwrap().body(), "[{\"id\":1}]");
}

#[tokio::test]
async fn a_redirect_takes_no_header_to_the_other_address() {
    let other = Server::start(|stream, _| say(stream, b"HTTP/1.1 200 OK\r\n\r\n[]".to_vec())).await;
    let target = other.url.clone();
    let server = Server::start(move |stream, _| {
        say(stream, format!("HTTP/1.1 302 Found\r\nlocation: {target}\r\n\r\n").into_bytes())
    })
    .await;
    let error = poll(&workspace(server.url.as_str())).await.unwrap_err();
    assert_eq!(error, ApiError::Redirect { host: Some("127.0.0.1".into()) });
    assert_eq!(other.heads(), Vec::<String>::new());
}

#[tokio::test]
async fn an_endless_body_is_given_up_at_the_cap() {
    let server = Server::start(|stream, sent| {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        flood(stream, head.into(), chunk_of_spaces(), sent)
    })
    .await;
    assert_eq!(ask(&server, LONG).await.unwrap_err(), TransportError::TooLarge);
    let sent = server.sent.load(Ordering::SeqCst);
    assert!((MAX_BODY..MAX_BODY + SOCKET_BUFFERS).contains(&sent), "{sent}");
}

#[tokio::test]
async fn a_body_announced_above_the_cap_is_not_read_at_all() {
    let server = Server::start(|mut stream, _| {
        tokio::spawn(async move {
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n";
            stream.write_all(head).await.unwrap();
            pending::<()>().await;
        })
    })
    .await;
    assert_eq!(ask(&server, LONG).await.unwrap_err(), TransportError::TooLarge);
}

/// A gzip stream of zeros: how it begins, and a piece that continues it without end.
///
/// Each 13 bits say "258 bytes as the one before", so that 13 KiB become two MiB.
fn compressed_zeros() -> (Vec<u8>, Vec<u8>) {
    let block_with_fixed_codes = [true, true, false];
    let literal_zero = [false, false, true, true, false, false, false, false];
    let again_258_times = [true, true, false, false, false, true, false, true];
    let from_one_byte_back = [false; 5];
    let mut bits = [&block_with_fixed_codes[..], &literal_zero].concat();
    for _ in 0..16 {
        bits.extend(again_258_times.iter().chain(&from_one_byte_back));
    }
    let bytes: Vec<u8> = bits
        .chunks(8)
        .map(|byte| byte.iter().rev().fold(0, |sum, bit| sum << 1 | u8::from(*bit)))
        .collect();
    let start = [&COMPRESSED[..10], &bytes[..2]].concat();
    // Eight times 13 bits are 13 whole bytes.
    (start, bytes[2..15].repeat(1024))
}

#[tokio::test]
async fn a_gzip_bomb_is_given_up_at_the_cap() {
    // Half a megabyte, far below the cap, that becomes 80; the end of the stream never comes.
    let server = Server::start(|mut stream, _| {
        tokio::spawn(async move {
            let (start, piece) = compressed_zeros();
            let head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n";
            let bomb = [&head[..], &start, &piece.repeat(40)].concat();
            // The client may close before all of it is out.
            let _ = stream.write_all(&bomb).await;
            pending::<()>().await;
        })
    })
    .await;
    assert_eq!(ask(&server, LONG).await.unwrap_err(), TransportError::TooLarge);
}

#[tokio::test]
async fn an_endless_error_body_costs_its_cap_and_keeps_its_status() {
    let server = Server::start(|stream, sent| {
        let head = "HTTP/1.1 503 Busy\r\nretry-after: 9\r\ntransfer-encoding: chunked\r\n\r\n";
        flood(stream, head.into(), chunk_of_spaces(), sent)
    })
    .await;
    let answer = ask(&server, LONG).await.unwrap();
    assert_eq!((answer.status, answer.body.len()), (503, MAX_ERROR_BODY));
    assert_eq!(answer.headers["retry-after"], "9");
    let sent = server.sent.load(Ordering::SeqCst);
    assert!(sent < SOCKET_BUFFERS, "{sent}");
}

#[tokio::test]
async fn an_error_whose_body_is_cut_keeps_its_status() {
    let server = Server::start(|stream, _| {
        say(stream, b"HTTP/1.1 401 No\r\ncontent-length: 90\r\n\r\n{\"error\"".to_vec())
    })
    .await;
    let answer = ask(&server, LONG).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (401, &b"{\"error\""[..]));
}

#[tokio::test]
async fn a_body_that_never_ends_in_time_is_a_timeout() {
    let silent = Server::start(|mut stream, _| {
        tokio::spawn(async move {
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n[";
            stream.write_all(head).await.unwrap();
            pending::<()>().await;
        })
    })
    .await;
    let dripping = Server::start(|mut stream, _| {
        tokio::spawn(async move {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let mut drops = tokio::time::interval(Duration::from_millis(10));
            while stream.write_all(b" ").await.is_ok() {
                drops.tick().await;
            }
        })
    })
    .await;
    let mute = Server::start(|stream, _| {
        tokio::spawn(async move {
            let _open = stream;
            pending::<()>().await;
        })
    })
    .await;
    for server in [silent, dripping, mute] {
        let error = ask(&server, Duration::from_millis(300)).await.unwrap_err();
        assert_eq!(error, TransportError::Timeout);
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_page() {
    let scripts: [Script; 4] = [
        |stream, _| say(stream, b"HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n[]".to_vec()),
        |stream, _| {
            say(
                stream,
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n[]\r\n".to_vec(),
            )
        },
        |stream, _| {
            let head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n";
            say(stream, [&head[..], &COMPRESSED[..25]].concat())
        },
        |stream, _| {
            let head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n[{\"id\":1}]";
            say(stream, head.to_vec())
        },
    ];
    for (number, script) in scripts.into_iter().enumerate() {
        let server = Server::start(script).await;
        let error = ask(&server, LONG).await.unwrap_err();
        assert!(matches!(error, TransportError::Cut(_)), "{number}: {error:?}");
        assert!(!error.to_string().contains("127.0.0.1"), "{error}");
    }
}

#[tokio::test]
async fn a_connection_that_ends_without_an_answer_is_not_tried_again() {
    let server = Server::start(|stream, _| say(stream, Vec::new())).await;
    let error = ask(&server, LONG).await.unwrap_err();
    assert!(matches!(error, TransportError::Other(_)), "{error:?}");
    assert_eq!(server.heads().len(), 1);
}

#[tokio::test]
async fn a_kept_connection_that_ends_under_a_request_is_not_tried_again() {
    let server = Server::start(|mut stream, count| {
        tokio::spawn(async move {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]").await.unwrap();
            if !read_head(&mut stream).await.is_empty() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        })
    })
    .await;
    let transport = HttpTransport::new(&workspace(server.url.as_str())).unwrap();
    let request =
        || ApiRequest { url: server.url.clone(), headers: HeaderMap::new(), timeout: LONG };
    assert_eq!(transport.send(request()).await.unwrap().body, b"[]"[..]);
    let error = transport.send(request()).await.unwrap_err();
    assert!(matches!(error, TransportError::Other(_)), "{error:?}");
    assert_eq!((server.heads().len(), server.sent.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn polls_that_are_due_together_open_one_connection_each_for_the_whole_day() {
    const POLLERS: usize = 6;
    // No reply is sent before all requests of a round have arrived.
    let round = Arc::new(Barrier::new(POLLERS));
    let server = Server::start(move |mut stream, _| {
        let round = Arc::clone(&round);
        tokio::spawn(async move {
            loop {
                round.wait().await;
                let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]";
                if stream.write_all(reply).await.is_err() || read_head(&mut stream).await.is_empty()
                {
                    break;
                }
            }
        })
    })
    .await;
    let transport = HttpTransport::new(&workspace(server.url.as_str())).unwrap();
    let request =
        || ApiRequest { url: server.url.clone(), headers: HeaderMap::new(), timeout: LONG };
    for _ in 0..200 {
        let sent = std::array::from_fn::<_, POLLERS, _>(|_| transport.send(request()));
        for answer in side_by_side(sent).await {
            assert_eq!(answer.unwrap().body, b"[]"[..]);
        }
    }
    assert_eq!(server.heads().len(), POLLERS, "connections opened in 200 rounds");
}

/// Runs the requests of one round side by side.
async fn side_by_side(
    [a, b, c, d, e, f]: [ResponseFuture<'_>; 6],
) -> [Result<ApiResponse, TransportError>; 6] {
    let (a, b, c, d, e, f) = tokio::join!(a, b, c, d, e, f);
    [a, b, c, d, e, f]
}

#[tokio::test]
async fn a_refused_connection_is_reported_without_the_address() {
    // It never listens, and keeps its port from everybody else.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let base_url = format!("http://{}/api", socket.local_addr().unwrap());
    let error = poll(&workspace(&base_url)).await.unwrap_err();
    assert!(matches!(error, ApiError::Transport(TransportError::Connect(_))), "{error:?}");
    let text = format!("{error} {error:?}");
    assert!(text.contains("nothing accepts connections at its port"), "{text}");
    for secret in ["127.0.0.1", "/api", "limit", "Canary"] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
}

#[tokio::test]
async fn a_server_without_tls_behind_https_is_named_as_the_problem() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let https = format!("https://{}/api", listener.local_addr().unwrap());
    let plain = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await
    });
    let error = poll(&workspace(&https)).await.unwrap_err().to_string();
    assert!(error.contains("does not speak TLS"), "{error}");
    plain.await.unwrap().unwrap();
}

#[test]
fn the_key_leaves_the_machine_only_over_https() {
    for bad in [
        "http://shop.example.com/api",
        "http://10.0.0.1/api",
        "http://0.0.0.0/api",
        "http://localhost.example.com/api",
        "http://127.0.0.1.example.com/api",
        "http://127.0.0.1@shop.example.com/api",
        "ftp://127.0.0.1/api",
        "file:///api",
        "mailto:x",
    ] {
        let built = HttpTransport::new(&workspace(bad));
        assert!(matches!(built, Err(TransportBuildError::NotHttps)), "{bad}");
    }
    for good in [
        "http://127.0.0.1:1/api",
        "http://127.8.0.1/api",
        "http://[::1]/api",
        "http://localhost/api",
    ] {
        assert!(HttpTransport::new(&workspace(good)).is_ok(), "{good}");
    }
}

#[tokio::test]
async fn a_loopback_transport_sends_nowhere_else() {
    let transport = HttpTransport::new(&workspace("http://127.0.0.1:1/api")).unwrap();
    for url in ["http://shop.example.com/", "https://127.0.0.1:1/", "https://shop.example.com/"] {
        let url = url.parse().unwrap();
        let sent =
            transport.send(ApiRequest { url, headers: HeaderMap::new(), timeout: LONG }).await;
        assert!(matches!(sent, Err(TransportError::Other(_))), "{sent:?}");
    }
}

#[test]
fn a_ca_file_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let built = |name: &str| {
        let path = folder.path().join(name);
        let workspace =
            WorkspaceSettings { ca_file: Some(path), ..workspace("https://127.0.0.1:1/api") };
        HttpTransport::new(&workspace).err().unwrap().to_string()
    };
    std::fs::write(folder.path().join("empty.pem"), "no certificate\n").unwrap();
    assert!(built("absent.pem").contains("absent.pem"), "{}", built("absent.pem"));
    assert!(built("empty.pem").contains("no certificates in PEM"), "{}", built("empty.pem"));
}

#[tokio::test]
async fn a_proxy_of_the_environment_is_ignored() {
    const CHILD: &str = "SHOPMIRROR_TEST_PROXY_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let server = Server::start(|stream, _| {
            say(stream, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]".to_vec())
        })
        .await;
        poll(&workspace(server.url.as_str())).await.unwrap();
        return;
    }
    // The environment of a process is set at its start, so the test runs itself once more.
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "api::http::tests::a_proxy_of_the_environment_is_ignored"]);
    child.env(CHILD, "1").env_remove("NO_PROXY").env_remove("no_proxy");
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"] {
        child.env(name, &address);
    }
    let output = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    let visit = proxy.accept().err().map(|error| error.kind());
    assert_eq!(visit, Some(std::io::ErrorKind::WouldBlock), "the proxy got a request");
}
