//! Standard Webhooks signatures, version 1: HMAC-SHA256 over `id.timestamp.body`.
//!
//! Every secret adds a signature, so that a receiver can change its secret at any time. Secrets are
//! wiped from memory when dropped, and never shown.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretSlice};

use crate::config::Secret;
use sha2::Sha256;

/// Signs with every secret of one webhook.
#[derive(Clone)]
pub(super) struct Signer {
    secrets: Vec<SecretSlice<u8>>,
}

impl Signer {
    /// Takes secrets that the configuration has checked: `whsec_` and base64, newest first.
    pub(super) fn new(secrets: &[Secret]) -> Self {
        let mut decoded = Vec::new();
        for secret in secrets {
            let coded = secret.expose_secret().trim_start_matches("whsec_");
            let bytes = STANDARD.decode(coded);
            decoded.push(bytes.expect("the configuration has checked it").into());
        }
        Self { secrets: decoded }
    }

    /// The header `webhook-signature`; `None` without secrets.
    pub(super) fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> Option<String> {
        if self.secrets.is_empty() {
            return None;
        }
        let mut signatures = Vec::new();
        for secret in &self.secrets {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret())
                .expect("HMAC takes a key of any length");
            for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
                mac.update(part);
            }
            let code = mac.finalize().into_bytes();
            signatures.push(format!("v1,{}", STANDARD.encode(code)));
        }
        Some(signatures.join(" "))
    }
}
