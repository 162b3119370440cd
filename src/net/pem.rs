//! Reads certificates and keys from PEM files.

use std::io;
use std::path::Path;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::files::read;

/// What is wrong with a PEM file.
#[derive(Debug, thiserror::Error)]
pub enum PemProblem {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// Its text is not PEM.
    #[error(transparent)]
    Pem(#[from] pem::Error),
    /// It is empty, or has only keys.
    #[error("it holds no certificate")]
    NoCertificate,
}

/// The certificates in a file of at most `most` bytes; at least one.
pub(super) fn certificates(
    path: &Path,
    most: u64,
) -> Result<Vec<CertificateDer<'static>>, PemProblem> {
    let text = read::bytes(path, most)?;
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        certificates.push(certificate?);
    }
    if certificates.is_empty() {
        return Err(PemProblem::NoCertificate);
    }
    Ok(certificates)
}

/// The private key in a file of at most `most` bytes that no other user can write.
pub(super) fn private_key(path: &Path, most: u64) -> Result<PrivateKeyDer<'static>, PemProblem> {
    let text = read::secret_text(path, most)?;
    Ok(PrivateKeyDer::from_pem_slice(text.as_bytes())?)
}
