//! What `check` says of a server whose certificate, port or address is wrong: the cause and what to
//! do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use rustls::{ServerConnection, StreamOwned};

use crate::support::servers::{certificate, tls_server};
use crate::support::{ClosedPort, Place};

/// A TLS server with the certificate `name` that ends every connection after its request. Its
/// thread ends with the test program.
fn server(name: &str) -> SocketAddr {
    server_after(name, Opening::Tls)
}

/// What a client and a server exchange before TLS begins.
#[derive(Clone, Copy)]
enum Opening {
    /// Nothing.
    Tls,
    /// PostgreSQL: the client requests TLS, the server agrees.
    Postgres,
    /// NATS: the server demands TLS.
    Nats,
    /// Mail: nothing; after TLS has begun, the server greets.
    Mail,
}

/// As [`server`], of another protocol.
fn server_after(name: &str, opening: Opening) -> SocketAddr {
    let config = tls_server(name);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            match opening {
                Opening::Tls | Opening::Mail => {}
                Opening::Postgres => {
                    let _ = stream.read(&mut [0; 8]);
                    let _ = stream.write_all(b"S");
                }
                Opening::Nats => {
                    let info = format!(
                        "INFO {}\r\n",
                        r#"{"server_id":"a","server_name":"a","version":"2.10.0","go":"go1","host":"127.0.0.1","port":4222,"headers":true,"max_payload":1048576,"proto":1,"tls_required":true}"#
                    );
                    let _ = stream.write_all(info.as_bytes());
                }
            }
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream);
            if let Opening::Mail = opening {
                let _ = stream.write_all(b"220 mail\r\n");
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(b"250 mail\r\n");
            }
            // The handshake fails, or the request is read and gets no response.
            let _ = stream.read(&mut [0; 1024]);
        }
    });
    address
}

/// The line of `check` about the workspace at `address`, with the certificates of this file.
async fn said_of_workspace(address: SocketAddr, file: Option<&str>) -> String {
    let place = Place::new(&format!("https://{address}/api"), "key");
    let ca = match file {
        Some(name) => format!("ca_file = \"{}\"\n", certificate(name).display()),
        None => String::new(),
    };
    place.configure_all(&ca);
    let ended = place.run(["check"]).await;
    assert_eq!(ended.code, Some(75), "{ended:?}");
    assert_eq!(ended.err, "", "the TLS library says nothing of its own");
    let line = ended
        .out
        .lines()
        .find(|line| line.starts_with("WRONG workspace"))
        .unwrap();
    line.to_owned()
}

/// The certificate of a server, the file that is trusted, and what is said of it; nothing if it is
/// good.
const CERTIFICATES: [(&str, &str, Option<&str>); 8] = [
    (
        "own",
        "ca.pem",
        Some("is that of a certificate authority; put exactly this certificate into"),
    ),
    ("other", "ca.pem", Some("is for another name")),
    ("expired", "ca.pem", Some("has expired; renew it")),
    (
        "future",
        "ca.pem",
        Some("is not valid yet; check this machine's clock"),
    ),
    ("own-other", "own-other.pem", Some("is for another name")),
    (
        "own-expired",
        "own-expired.pem",
        Some("has expired; renew it"),
    ),
    ("server", "ca.pem", None),
    // It is trusted byte for byte.
    ("own", "own.pem", None),
];

#[tokio::test]
async fn each_fault_of_a_certificate_has_its_own_cause_and_remedy() {
    for (name, file, words) in CERTIFICATES {
        let said = said_of_workspace(server(name), Some(file)).await;
        match words {
            Some(words) => assert!(said.contains(words), "{name}: {said}"),
            None => assert!(!said.contains("certificate"), "{name}: {said}"),
        }
        assert!(!said.contains("127.0.0.1"), "{name}: {said}");
    }
    let said = said_of_workspace(server("server"), None).await;
    assert!(
        said.contains("an authority that this machine does not know; install"),
        "{said}"
    );
}

#[tokio::test]
async fn a_webhook_that_refuses_connections_says_what_to_check() {
    let closed = ClosedPort::new();
    let url = format!("http://{}/hook", closed.address);
    let place = Place::new("http://127.0.0.1:9/api", "key");
    place.configure_all(&Place::webhook_sink("erp", &url, ""));
    let ended = place.run(["check", "--sink", "erp"]).await;
    assert_eq!(ended.code, Some(69), "{ended:?}");
    let line = ended
        .out
        .lines()
        .find(|line| line.starts_with("WRONG sink erp"))
        .unwrap();
    assert!(
        line.contains("nothing accepts connections at its port; check that"),
        "{line}"
    );

    let url = format!("https://{}/hook", server("server"));
    place.configure_all(&Place::webhook_sink("erp", &url, ""));
    let ended = place.run(["check", "--sink", "erp"]).await;
    assert!(
        ended
            .out
            .contains("an authority that this machine does not know"),
        "{ended:?}"
    );
    let ca = format!("ca_file = \"{}\"", certificate("ca.pem").display());
    place.configure_all(&Place::webhook_sink("erp", &url, &ca));
    let ended = place.run(["check", "--sink", "erp"]).await;
    assert!(
        !ended.out.contains("authority"),
        "the server is trusted, and hangs up: {ended:?}"
    );
}

/// Each library wraps the errors of TLS in its own way.
#[cfg(all(
    feature = "email",
    feature = "mqtt",
    feature = "nats",
    feature = "postgres",
    feature = "s3"
))]
#[tokio::test]
async fn every_type_of_sink_reports_the_same_faults_of_a_certificate() {
    let place = Place::new("http://127.0.0.1:9/api", "key");
    place.write("s3-key", "id\nsecret\n");
    let mail = "from = \"a@example.com\"\nto = [\"b@example.com\"]";
    let bucket = "bucket = \"shop\"\naccess_key_file = \"s3-key\"\nworkspace = \"a\"";
    for (name, file, words) in CERTIFICATES {
        let direct = server(name);
        let postgres = server_after(name, Opening::Postgres);
        let nats = server_after(name, Opening::Nats);
        let mails = server_after(name, Opening::Mail);
        for settings in [
            format!("type = \"webhook\"\nurl = \"https://{direct}/hook\""),
            format!("type = \"s3\"\n{bucket}\nendpoint = \"https://{direct}\""),
            format!("type = \"email\"\n{mail}\nserver = \"{mails}\"\ntls = \"tls\""),
            format!("type = \"mqtt\"\nworkspace = \"a\"\nurl = \"mqtts://{direct}\""),
            format!("type = \"nats\"\nworkspace = \"a\"\nurl = \"nats://{nats}\""),
            format!(
                "type = \"postgres\"\nworkspace = \"a\"\nurl = \"postgresql://u:p@{postgres}/d\""
            ),
        ] {
            let ca = certificate(file);
            let sink = format!("[sinks.erp]\n{settings}\nca_file = \"{}\"\n", ca.display());
            place.configure_all(&sink);
            let ended = place.run(["check", "--sink", "erp"]).await;
            let line = ended.out.lines().find(|line| line.contains("sink erp"));
            let line = line.unwrap_or_else(|| panic!("{settings}: {ended:?}"));
            match words {
                Some(words) => assert!(line.contains(words), "{name}: {settings}: {line}"),
                None => assert!(!line.contains("certificate"), "{name}: {settings}: {line}"),
            }
        }
    }
}
