//! Whether the page can be served as it is configured, and whether its tokens cross the network
//! unencrypted.

use std::sync::Arc;

use super::CheckReport;
use crate::config::Config;
use crate::net::server_certificate::ServerCertificate;

pub(super) fn check(config: &Config, report: &mut CheckReport) {
    let Some(settings) = &config.status else {
        return;
    };
    let is_local = settings.listen.ip().is_loopback();
    match settings.certificate() {
        Some((certificate, key)) => {
            match ServerCertificate::open(certificate, key, &Arc::default()) {
                Ok(_) => report.ok("page", "served over TLS; the certificate fits its key"),
                Err(error) => report.wrong("page", error.to_string()),
            }
        }
        None if !is_local => report.warn(
            "page",
            "other machines reach it without TLS, so its tokens can be read on the network: set \
             cert_file and key_file in [status], or listen on 127.0.0.1 behind a proxy with TLS",
        ),
        None => {}
    }
}
