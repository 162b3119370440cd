//! Why a connection could not be opened, and what to do about it.
//!
//! The cause is read from the types of rustls and of the system wherever these have one, whatever
//! library wraps them. No text repeats the original error, which may contain the name of the host.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError};

/// Why a connection could not be opened; its text says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionProblem {
    /// A name that may be reached without TLS has an address on the Internet.
    #[error(
        "its name has an address outside of the local network, and allow_plain is only for that; \
         use TLS"
    )]
    NotLocal,
    /// The name has no address.
    #[error(
        "its name was not found; check the spelling of its host name, the network and \
         /etc/resolv.conf"
    )]
    NameNotFound,
    /// The server shows the certificate of an authority as its own.
    #[error(
        "its certificate is that of a certificate authority; put exactly this certificate into the \
         file that `ca_file` names, or give the server one that this authority has signed"
    )]
    AuthorityAsServer,
    /// No trusted authority signed the certificate.
    #[error(
        "its certificate comes from an authority that this machine does not know; install the \
         authority's certificate on this machine (update-ca-certificates), or name its file with \
         `ca_file`"
    )]
    UnknownAuthority,
    /// The certificate has expired.
    #[error("its certificate has expired; renew it, or correct this machine's clock (timedatectl)")]
    Expired,
    /// The certificate begins in the future.
    #[error(
        "its certificate is not valid yet; check this machine's clock (timedatectl), then the \
         certificate"
    )]
    NotValidYet,
    /// The certificate has other names.
    #[error(
        "its certificate is for another name; use a name that the certificate has, or renew it \
         with this name"
    )]
    OtherName,
    /// The certificate has another fault, or there is none.
    #[error("its certificate was not accepted; test it with openssl s_client -connect HOST:443")]
    BadCertificate,
    /// The server and this program have no version or cipher of TLS in common.
    #[error("it offers only old versions or ciphers of TLS; allow TLS 1.2 or 1.3 there")]
    OldTls,
    /// The server speaks something else.
    #[error(
        "it does not speak TLS at this port; check the port, and https or http, mqtts or mqtt, \
         tls or starttls"
    )]
    NoTls,
    /// The database server says that TLS is switched off.
    #[error(
        "the server offers no TLS; switch it on there (PostgreSQL: ssl = on in postgresql.conf)"
    )]
    TlsIsOff,
    /// The proxy on the way wants a user and a password, or others.
    #[error(
        "it wants another login (407); correct user and password in the file that `proxy_file` names"
    )]
    ProxyLogin,
    /// The proxy on the way opens no connection.
    #[error(
        "it opens no connection to this address (CONNECT); let it reach host and port, or ask who \
         runs it"
    )]
    ProxyRefused,
    /// Nothing listens.
    #[error(
        "nothing accepts connections at its port; check that the server runs, the port, and its \
         firewall"
    )]
    Refused,
    /// There is no way to the address.
    #[error(
        "it cannot be reached from here; check this machine's network and the firewalls between"
    )]
    Unreachable,
    /// Nothing came back.
    #[error("it did not respond in time; check the address, the network and the firewalls between")]
    NoResponse,
    /// The server closed the connection.
    #[error("it closed the connection; check the port, and https or http")]
    Closed,
    /// The service manager or a firewall of this machine forbids the connection.
    #[error(
        "this machine does not allow the connection; check IPAddressAllow= in the unit, and its \
         firewall"
    )]
    NotAllowed,
    /// Another error of the system, by its number.
    #[error("{}", io::Error::from_raw_os_error(*.0))]
    System(i32),
}

/// The error of a lookup that found an address outside of the local network where only that may be
/// reached.
#[derive(Debug, thiserror::Error)]
#[error("not of the local network")]
pub struct NotLocal;

/// Parts of error texts that no type tells apart, and what they mean.
const TEXTS: [(&str, ConnectionProblem); 7] = [
    // hyper-util
    (
        "proxy authorization required",
        ConnectionProblem::ProxyLogin,
    ),
    (
        "tunnel error: unsuccessful",
        ConnectionProblem::ProxyRefused,
    ),
    (
        "tunnel error: unexpected end of file",
        ConnectionProblem::ProxyRefused,
    ),
    // tokio-postgres
    ("server does not support TLS", ConnectionProblem::TlsIsOff),
    // tokio-rustls
    ("handshake eof", ConnectionProblem::NoTls),
    // reqwest
    ("dns error", ConnectionProblem::NameNotFound),
    // The standard library
    ("lookup address", ConnectionProblem::NameNotFound),
];

impl ConnectionProblem {
    /// What an error of a connection or one of its causes means; `None` if that is not known.
    ///
    /// The innermost cause that means something counts; an error of the system counts only where
    /// no other cause means anything.
    #[must_use]
    pub fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut problem = None;
        let mut code = None;
        let mut next = Some(error);
        while let Some(cause) = next {
            problem = Self::for_cause(cause).or(problem);
            let io = cause.downcast_ref::<io::Error>();
            code = io.and_then(io::Error::raw_os_error).or(code);
            // As its source, an I/O error has the source of what it wraps: not that itself.
            next = match io.and_then(io::Error::get_ref) {
                Some(wrapped) => Some(wrapped),
                None => cause.source(),
            };
        }
        problem.or_else(|| code.map(Self::for_code))
    }

    /// True if a proxy on the way has answered in place of the server.
    #[must_use]
    pub fn is_of_proxy(self) -> bool {
        matches!(self, Self::ProxyLogin | Self::ProxyRefused)
    }

    /// Why a request got no response; `None` if the cause is not known.
    #[must_use]
    pub fn for_request(error: &reqwest::Error) -> Option<Self> {
        // The error's own text has the address.
        Self::find(error.source()?)
    }

    fn for_cause(cause: &(dyn Error + 'static)) -> Option<Self> {
        if let Some(error) = cause.downcast_ref() {
            return Self::for_tls(error);
        }
        if cause.is::<NotLocal>() {
            return Some(Self::NotLocal);
        }
        let text = cause.to_string();
        for (part, problem) in TEXTS {
            if text.contains(part) {
                return Some(problem);
            }
        }
        None
    }

    fn for_tls(error: &rustls::Error) -> Option<Self> {
        match error {
            rustls::Error::InvalidCertificate(error) => Some(Self::for_certificate(error)),
            rustls::Error::NoCertificatesPresented => Some(Self::BadCertificate),
            rustls::Error::InvalidMessage(_) => Some(Self::NoTls),
            rustls::Error::PeerIncompatible(_)
            | rustls::Error::AlertReceived(
                AlertDescription::ProtocolVersion
                | AlertDescription::HandshakeFailure
                | AlertDescription::InsufficientSecurity,
            ) => Some(Self::OldTls),
            _ => None,
        }
    }

    fn for_certificate(error: &CertificateError) -> Self {
        match error {
            CertificateError::UnknownIssuer => Self::UnknownAuthority,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::NotValidYet
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::OtherName
            }
            CertificateError::Other(other)
                if matches!(
                    other.0.downcast_ref(),
                    Some(webpki::Error::CaUsedAsEndEntity)
                ) =>
            {
                Self::AuthorityAsServer
            }
            _ => Self::BadCertificate,
        }
    }

    /// What the number of a system's error means for a connection.
    fn for_code(code: i32) -> Self {
        match io::Error::from_raw_os_error(code).kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Self::Unreachable,
            io::ErrorKind::TimedOut => Self::NoResponse,
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => Self::Closed,
            io::ErrorKind::PermissionDenied => Self::NotAllowed,
            _ => Self::System(code),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::{
        ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
        SupportedProtocolVersion, version,
    };

    use super::*;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/tls")
            .join(name)
    }

    fn server(name: &str, versions: &[&'static SupportedProtocolVersion]) -> ServerConnection {
        let chain = CertificateDer::from_pem_file(fixture(&format!("{name}.pem"))).unwrap();
        let key = PrivateKeyDer::from_pem_file(fixture(&format!("{name}.key"))).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![chain], key)
            .unwrap();
        ServerConnection::new(Arc::new(config)).unwrap()
    }

    fn client(trusted: &str, versions: &[&'static SupportedProtocolVersion]) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(fixture(&format!("{trusted}.pem"))).unwrap();
        roots.add(authority).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        ClientConnection::new(Arc::new(config), name).unwrap()
    }

    /// The error with which the client ends a handshake; `None` if it succeeds.
    fn handshake(mut client: ClientConnection, mut server: ServerConnection) -> Option<io::Error> {
        while client.is_handshaking() {
            let mut sent = Vec::new();
            client.write_tls(&mut sent).unwrap();
            server.read_tls(&mut &sent[..]).unwrap();
            // An error of the server is sent to the client as an alert.
            let _ = server.process_new_packets();
            let mut answered = Vec::new();
            server.write_tls(&mut answered).unwrap();
            client.read_tls(&mut &answered[..]).unwrap();
            if let Err(error) = client.process_new_packets() {
                return Some(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        None
    }

    /// As a library wraps an error.
    #[derive(Debug, thiserror::Error)]
    #[error("connecting to shop.example.com")]
    struct Wrapped(#[source] io::Error);

    const BOTH: [&SupportedProtocolVersion; 2] = [&version::TLS12, &version::TLS13];

    #[test]
    fn each_fault_of_a_certificate_is_read_from_the_type_of_its_error() {
        for (name, trusted, problem) in [
            ("ca", "ca", Some(ConnectionProblem::AuthorityAsServer)),
            ("other", "ca", Some(ConnectionProblem::OtherName)),
            ("expired", "ca", Some(ConnectionProblem::Expired)),
            ("future", "ca", Some(ConnectionProblem::NotValidYet)),
            ("server", "other", Some(ConnectionProblem::UnknownAuthority)),
            ("server", "ca", None),
        ] {
            let error = handshake(client(trusted, &BOTH), server(name, &BOTH));
            let found = error.and_then(|error| ConnectionProblem::find(&Wrapped(error)));
            assert_eq!(found, problem, "{name}");
        }
    }

    #[test]
    fn a_server_with_another_version_of_tls_or_with_none_is_told_apart() {
        let error = handshake(
            client("ca", &[&version::TLS13]),
            server("server", &[&version::TLS12]),
        );
        let found = ConnectionProblem::find(&error.unwrap());
        assert_eq!(found, Some(ConnectionProblem::OldTls));

        let mut client = client("ca", &BOTH);
        client
            .read_tls(&mut &b"220 mail.example.com\r\n"[..])
            .unwrap();
        let error = io::Error::other(client.process_new_packets().unwrap_err());
        let found = ConnectionProblem::find(&error);
        assert_eq!(found, Some(ConnectionProblem::NoTls));
    }

    /// The server's complaint about a certificate of this program is none about its own.
    #[test]
    fn an_alert_about_the_client_is_no_fault_of_the_certificate_of_the_server() {
        for alert in [
            AlertDescription::CertificateExpired,
            AlertDescription::CertificateRequired,
        ] {
            let error = io::Error::other(rustls::Error::AlertReceived(alert));
            assert_eq!(ConnectionProblem::find(&error), None, "{alert:?}");
        }
    }

    #[test]
    fn an_error_of_the_system_counts_where_no_other_cause_means_anything() {
        let refused = io::Error::from_raw_os_error(rustix::io::Errno::CONNREFUSED.raw_os_error());
        let found = ConnectionProblem::find(&Wrapped(refused));
        assert_eq!(found, Some(ConnectionProblem::Refused));

        let not_local = io::Error::other(NotLocal);
        let found = ConnectionProblem::find(&Wrapped(io::Error::other(not_local)));
        assert_eq!(found, Some(ConnectionProblem::NotLocal));

        let pipe = io::Error::from_raw_os_error(rustix::io::Errno::PIPE.raw_os_error());
        let shown = ConnectionProblem::find(&pipe).unwrap().to_string();
        assert!(shown.contains("Broken pipe"), "{shown}");
    }
}
