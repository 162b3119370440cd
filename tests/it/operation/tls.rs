//! What `check` says of a server whose certificate, port or address is wrong: the cause and what to
//! do.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::support::servers::certificate;
use crate::support::{ClosedPort, Place};

/// A TLS server with the certificate `name` that ends every connection after its request. Its
/// thread ends with the test program.
fn server(name: &str) -> SocketAddr {
    let chain = CertificateDer::from_pem_file(certificate(&format!("{name}.pem"))).unwrap();
    let key = PrivateKeyDer::from_pem_file(certificate(&format!("{name}.key"))).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream);
            // The handshake fails, or the request is read and gets no response.
            let _ = stream.read(&mut [0; 1024]);
        }
    });
    address
}

/// The line of `check` about the workspace at `address`, which may be signed by the authority.
async fn said_of_workspace(address: SocketAddr, authority_is_known: bool) -> String {
    let place = Place::new(&format!("https://{address}/api"), "key");
    let ca = format!("ca_file = \"{}\"\n", certificate("ca.pem").display());
    place.configure_all(if authority_is_known { &ca } else { "" });
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

#[tokio::test]
async fn each_fault_of_a_certificate_has_its_own_cause_and_remedy() {
    for (name, known, words) in [
        (
            "ca",
            true,
            "is that of a certificate authority; give the server a certificate of its own",
        ),
        ("other", true, "is for another name"),
        ("expired", true, "has expired; renew it"),
        (
            "future",
            true,
            "is not valid yet; check this machine's clock",
        ),
        (
            "server",
            false,
            "an authority that this machine does not know; install",
        ),
    ] {
        let said = said_of_workspace(server(name), known).await;
        assert!(said.contains(words), "{name}: {said}");
        assert!(!said.contains("127.0.0.1"), "{name}: {said}");
    }
    let said = said_of_workspace(server("server"), true).await;
    assert!(
        !said.contains("certificate is"),
        "the certificate is good: {said}"
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
