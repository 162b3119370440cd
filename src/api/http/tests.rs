use std::future::pending;
use std::process::Command;
use std::sync::{Arc, Mutex};

use reqwest::header::HeaderMap;
use secrecy::SecretString;
use shopmirror_core::clock::Clock;
use shopmirror_core::record::{PollerId, Route};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use url::Url;

use super::super::client::Client;
use super::super::error::ApiError;
use super::*;
use crate::config::{Auth, KeySource, PollSettings};
use crate::text::locale::Locale;

const KEY: &str = "svc_CanaryKey0123456789";

/// `[{"id":1}]`, compressed.
const COMPRESSED: [u8; 30] = [
    0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 2, 3, 0x8b, 0xae, 0x56, 0xca, 0x4c, 0x51, 0xb2, 0x32, 0xac,
    0x8d, 0x05, 0, 0x64, 0xa8, 0xe5, 0x68, 0x0a, 0, 0, 0,
];

/// Long enough that only a fault of the test reaches it.
const LONG: Duration = Duration::from_secs(60);

/// A server on a free port that keeps the heads of the first requests of its connections.
struct Server {
    url: Url,
    heads: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Reads the first request of each connection and leaves the rest to the script.
    async fn start<F: Future<Output = ()> + Send + 'static>(
        script: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/api", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&heads);
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let head = read_head(&mut stream).await;
                seen.lock().unwrap().push(head);
                tokio::spawn(script(stream));
            }
        });
        Self { url, heads, task }
    }

    /// Sends these bytes and ends the connection.
    async fn saying(bytes: Vec<u8>) -> Self {
        Self::start(move |mut stream| {
            let bytes = bytes.clone();
            async move {
                stream.write_all(&bytes).await.unwrap();
                stream.shutdown().await.unwrap();
            }
        })
        .await
    }

    /// Sends the head, then spaces in chunks until the client has had enough.
    async fn without_end(head: &'static str) -> Self {
        Self::start(move |mut stream| async move {
            let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
            let mut result = stream.write_all(head.as_bytes()).await;
            while result.is_ok() {
                result = stream.write_all(chunk.as_bytes()).await;
            }
        })
        .await
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads a request to the end of its head, or as much of it as comes.
async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

fn workspace(base_url: &str) -> WorkspaceSettings {
    WorkspaceSettings {
        base_url: base_url.parse().unwrap(),
        key: KeySource::Environment(KEY.into()),
        auth: Auth::XApiKey,
        businesses: Default::default(),
        ca_file: None,
        proxy: None,
        time_zone: jiff::tz::TimeZone::UTC,
        locale: None,
        machine_locale: Locale::default(),
    }
}

async fn ask(server: &Server, timeout: Duration) -> Result<ApiResponse, TransportError> {
    let url = server.url.clone();
    let transport = HttpTransport::new(&workspace(url.as_str())).unwrap();
    transport
        .send(ApiRequest {
            url,
            headers: HeaderMap::new(),
            timeout,
        })
        .await
}

/// The texts of the records of a page.
async fn poll(workspace: &WorkspaceSettings) -> Result<String, ApiError> {
    let transport = Arc::new(HttpTransport::new(workspace).unwrap());
    let poll = PollSettings {
        limit: 100,
        timeout: LONG,
        min_interval: Duration::ZERO,
        max_interval: Duration::ZERO,
    };
    let key = SecretString::from(KEY);
    let client = Client::new(workspace, &poll, transport, key, Clock::system());
    let poller = PollerId {
        route: Route::Leads,
        business: None,
    };
    let page = client.poll(&poller, None).await.0?;
    Ok(page
        .records()
        .iter()
        .map(|record| page.text(record))
        .collect())
}

#[tokio::test]
async fn a_page_is_read_plain_and_compressed() {
    let plain =
        Server::saying(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n[{\"id\":1}]".to_vec()).await;
    assert_eq!(
        poll(&workspace(plain.url.as_str())).await.unwrap(),
        "{\"id\":1}"
    );
    let heads = plain.heads();
    assert_eq!(heads.len(), 1);
    let head = heads[0].to_lowercase();
    assert!(head.starts_with("get /api/automation/triggers/leads?limit=100 http/1.1\r\n"));
    for header in [
        "x-api-key: svc_canarykey0123456789",
        "accept: application/json",
        "accept-encoding: gzip",
    ] {
        assert!(head.contains(&format!("\r\n{header}\r\n")), "{head}");
    }
    assert!(!head.contains("referer"), "{head}");

    let answer = [
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n",
        &COMPRESSED[..],
    ]
    .concat();
    let compressed = Server::saying(answer).await;
    assert_eq!(
        poll(&workspace(compressed.url.as_str())).await.unwrap(),
        "{\"id\":1}"
    );
}

#[tokio::test]
async fn a_page_may_be_packed_in_parts_and_another_encoding_is_named() {
    let head = |name: &str| format!("HTTP/1.1 200 OK\r\ncontent-encoding: {name}\r\n\r\n");
    // `[{"id":1}` and `]`, each a gzip file of its own.
    let first = [
        0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 2, 3, 0x8b, 0xae, 0x56, 0xca, 0x4c, 0x51, 0xb2, 0x32,
        0xac, 0x05, 0, 0xa9, 0xec, 0x71, 0x37, 9, 0, 0, 0,
    ];
    let second = [
        0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 2, 3, 0x8b, 0x05, 0, 0xc4, 0xc2, 0xd8, 0xc7, 1, 0, 0, 0,
    ];
    for (name, body) in [
        ("x-gzip", COMPRESSED.to_vec()),
        ("GZIP", COMPRESSED.to_vec()),
        ("identity", b"[{\"id\":1}]".to_vec()),
        ("gzip", [&first[..], &second].concat()),
    ] {
        let server = Server::saying([head(name).as_bytes(), &body].concat()).await;
        let page = poll(&workspace(server.url.as_str())).await;
        assert_eq!(page.unwrap(), "{\"id\":1}", "{name}");
    }
    for (name, shown) in [
        ("br", "br"),
        ("gzip, zstd", "gzip, zstd"),
        ("x<y>", "something without a name"),
    ] {
        let server = Server::saying(head(name).into_bytes()).await;
        let error = ask(&server, LONG).await.unwrap_err();
        assert_eq!(error, TransportError::Encoding(shown.to_owned()));
    }
    // The status of a refusal is known whatever its encoding.
    let refusal = b"HTTP/1.1 401 No\r\ncontent-encoding: br\r\n\r\nxx".to_vec();
    let answer = ask(&Server::saying(refusal).await, LONG).await.unwrap();
    assert_eq!((answer.status, answer.body.len()), (401, 0));
}

#[tokio::test]
async fn a_redirect_takes_no_header_to_the_other_address() {
    let other = Server::saying(b"HTTP/1.1 200 OK\r\n\r\n[]".to_vec()).await;
    let redirect = format!("HTTP/1.1 302 Found\r\nlocation: {}\r\n\r\n", other.url);
    let server = Server::saying(redirect.into_bytes()).await;
    let error = poll(&workspace(server.url.as_str())).await.unwrap_err();
    assert!(matches!(error, ApiError::Between(_)), "{error:?}");
    assert!(error.to_string().contains("to 127.0.0.1,"), "{error}");
    assert_eq!(other.heads(), Vec::<String>::new());
}

#[tokio::test]
async fn a_body_is_read_up_to_the_cap_and_an_error_keeps_its_status_whatever_its_body() {
    let endless =
        Server::without_end("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
    assert_eq!(
        ask(&endless, LONG).await.unwrap_err(),
        TransportError::TooLarge
    );

    // What is announced above the cap is not waited for.
    let announced = Server::start(|mut stream| async move {
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n";
        stream.write_all(head).await.unwrap();
        pending().await
    })
    .await;
    assert_eq!(
        ask(&announced, LONG).await.unwrap_err(),
        TransportError::TooLarge
    );

    let head = "HTTP/1.1 503 Busy\r\nretry-after: 9\r\ntransfer-encoding: chunked\r\n\r\n";
    let answer = ask(&Server::without_end(head).await, LONG).await.unwrap();
    assert_eq!((answer.status, answer.body.len()), (503, MAX_ERROR_BODY));
    assert_eq!(answer.headers["retry-after"], "9");

    let cut = b"HTTP/1.1 401 No\r\ncontent-length: 90\r\n\r\n{\"error\"".to_vec();
    let answer = ask(&Server::saying(cut).await, LONG).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (401, &b"{\"error\""[..]));
}

#[tokio::test]
async fn a_body_that_never_ends_in_time_is_a_timeout() {
    let dripping = Server::start(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let mut drops = tokio::time::interval(Duration::from_millis(10));
        while stream.write_all(b" ").await.is_ok() {
            drops.tick().await;
        }
    })
    .await;
    let mute = Server::start(|stream| async move {
        let _open = stream;
        pending().await
    })
    .await;
    for server in [dripping, mute] {
        let error = ask(&server, Duration::from_millis(300)).await.unwrap_err();
        assert_eq!(error, TransportError::Timeout);
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_page() {
    let gzip = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n";
    for answer in [
        b"HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n[]".to_vec(),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n[]\r\n".to_vec(),
        [&gzip[..], &COMPRESSED[..25]].concat(),
        [&gzip[..], b"[{\"id\":1}]"].concat(),
    ] {
        let error = ask(&Server::saying(answer.clone()).await, LONG)
            .await
            .unwrap_err();
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            matches!(error, TransportError::Cut(_)),
            "{answer}: {error:?}"
        );
        assert!(!error.to_string().contains("127.0.0.1"), "{error}");
    }
}

#[tokio::test]
async fn a_connection_that_ends_under_a_request_is_not_tried_again() {
    let new = Server::saying(Vec::new()).await;
    let error = ask(&new, LONG).await.unwrap_err();
    assert!(matches!(error, TransportError::Other(_)), "{error:?}");
    assert_eq!(new.heads().len(), 1);

    let kept = Server::start(|mut stream| async move {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]")
            .await
            .unwrap();
        read_head(&mut stream).await;
    })
    .await;
    let transport = HttpTransport::new(&workspace(kept.url.as_str())).unwrap();
    let request = || ApiRequest {
        url: kept.url.clone(),
        headers: HeaderMap::new(),
        timeout: LONG,
    };
    assert_eq!(transport.send(request()).await.unwrap().body, b"[]"[..]);
    let error = transport.send(request()).await.unwrap_err();
    assert!(matches!(error, TransportError::Other(_)), "{error:?}");
    assert_eq!(kept.heads().len(), 1, "connections");
}

#[tokio::test]
async fn a_refused_connection_is_reported_without_the_address() {
    // It never listens, and keeps its port from everybody else.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let base_url = format!("http://{}/api", socket.local_addr().unwrap());
    let error = poll(&workspace(&base_url)).await.unwrap_err();
    assert!(
        matches!(error, ApiError::Transport(TransportError::Connect(_))),
        "{error:?}"
    );
    let text = format!("{error} {error:?}");
    assert!(
        text.contains("nothing accepts connections at its port"),
        "{text}"
    );
    for secret in ["127.0.0.1", "/api", "limit", "Canary"] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
}

#[tokio::test]
async fn the_key_leaves_the_machine_only_over_https() {
    for bad in [
        "http://shop.example.com/api",
        "http://10.0.0.1/api",
        "http://0.0.0.0/api",
        "http://127.0.0.1.example.com/api",
        "http://127.0.0.1@shop.example.com/api",
        "ftp://127.0.0.1/api",
        "file:///api",
    ] {
        let built = HttpTransport::new(&workspace(bad));
        assert!(matches!(built, Err(TransportBuildError::NotHttps)), "{bad}");
    }
    for good in [
        "http://127.8.0.1/api",
        "http://[::1]/api",
        "http://localhost/api",
    ] {
        assert!(HttpTransport::new(&workspace(good)).is_ok(), "{good}");
    }
    // A transport to this machine sends nowhere else.
    let transport = HttpTransport::new(&workspace("http://127.0.0.1:1/api")).unwrap();
    for url in [
        "http://shop.example.com/",
        "https://127.0.0.1:1/",
        "https://shop.example.com/",
    ] {
        let url = url.parse().unwrap();
        let request = ApiRequest {
            url,
            headers: HeaderMap::new(),
            timeout: LONG,
        };
        let sent = transport.send(request).await;
        assert!(matches!(sent, Err(TransportError::Other(_))), "{sent:?}");
    }
}

#[tokio::test]
async fn a_proxy_of_the_environment_is_ignored() {
    const CHILD: &str = "SHOPMIRROR_TEST_PROXY_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let server =
            Server::saying(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]".to_vec()).await;
        poll(&workspace(server.url.as_str())).await.unwrap();
        return;
    }
    // The environment of a process is set at its start, so the test runs itself once more.
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([
        "--exact",
        "api::http::tests::a_proxy_of_the_environment_is_ignored",
    ]);
    child
        .env(CHILD, "1")
        .env_remove("NO_PROXY")
        .env_remove("no_proxy");
    for name in [
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
        "HTTPS_PROXY",
    ] {
        child.env(name, &address);
    }
    let output = tokio::task::spawn_blocking(move || child.output())
        .await
        .unwrap()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && told.contains("1 passed"),
        "{told}"
    );
    let visit = proxy.accept().err().map(|error| error.kind());
    assert_eq!(
        visit,
        Some(std::io::ErrorKind::WouldBlock),
        "the proxy got a request"
    );
}
