//! Webhook signatures of the signed form builders: base64 HMAC-SHA256 of the raw body.
//!
//! Compares in constant time and does not read the body's content.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Whether the signature is the body's under the secret.
pub(super) fn is_valid(secret: &str, body: &[u8], signature: &str) -> bool {
    let Ok(signature) = STANDARD.decode(signature.trim()) else {
        return false;
    };
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes a key of any length");
    mac.update(body);
    mac.verify_slice(&signature).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_body_s_own_signature_under_the_secret_is_valid() {
        // printf '{"a":1}' | openssl dgst -sha256 -hmac secret -binary | base64
        let signature = "qp4uNXX11wmLbKzNeQiIw21f22M0KnO62i1qUXR6hJQ=";
        assert!(is_valid("secret", b"{\"a\":1}", signature));
        assert!(!is_valid("secret", b"{\"a\":2}", signature));
        assert!(!is_valid("other", b"{\"a\":1}", signature));
        assert!(!is_valid("secret", b"{\"a\":1}", "not base64"));
    }
}
