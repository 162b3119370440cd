//! Verifies servers by a file of certificates: those that an authority of the file has signed, and
//! the certificates of the file themselves.
//!
//! `openssl req -x509` makes a certificate that is an authority and that of a server at once. Other
//! programs accept it where it is trusted, and so does this one, byte for byte, if its dates and
//! names are right.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

use super::problem::ConnectionProblem;

/// Trusts the certificates of a file.
#[derive(Debug)]
pub(super) struct FileVerifier {
    /// Verifies what an authority of the file has signed.
    pub(super) signed: Arc<WebPkiServerVerifier>,
    /// The certificates of the file.
    pub(super) certificates: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for FileVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.signed.verify_server_cert(
            certificate,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        let Err(error) = verified else {
            return verified;
        };
        // This is found after the dates, and before the names.
        let is_authority =
            ConnectionProblem::find(&error) == Some(ConnectionProblem::AuthorityAsServer);
        let is_of_file = self
            .certificates
            .iter()
            .any(|trusted| trusted == certificate);
        if !is_authority || !is_of_file {
            return Err(error);
        }
        let parsed = ParsedCertificate::try_from(certificate)?;
        rustls::client::verify_server_name(&parsed, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}
