//! Who may read the page: its token, its hosts, and the headers that keep other sites away.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{LISTEN, Site};
use crate::support::Workspace;

const TOKEN: &str = "CANARY0123456789abcdef";

#[tokio::test]
async fn foreign_sites_and_other_methods_are_refused() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&format!("{LISTEN}hosts = [\"status.example.com\"]\n"));
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    for path in ["/", "/system", "/metrics", "/api/status"] {
        let rebound = site.ask("GET", path, &["Host: evil.example"]).await;
        assert_eq!(rebound.code, 421, "{path}: {rebound:?}");
        assert!(!rebound.body.contains("jobs"), "{path}: {rebound:?}");
        let foreign = site.ask("GET", path, &["Sec-Fetch-Site: cross-site"]).await;
        assert_eq!(foreign.code, 403, "{path}: {foreign:?}");
        let posted = site.ask("POST", path, &["Content-Length: 0"]).await;
        assert_eq!(posted.code, 405, "{path}: {posted:?}");
    }
    let (own, link) = (
        format!("Host: {}", site.address),
        "Sec-Fetch-Mode: navigate",
    );
    for (headers, code) in [
        (&["Host: localhost"][..], 200),
        (&["Host: 127.0.0.1:9"], 200),
        (&["Host: [::1]:7780"], 200),
        (&["Host: Status.Example.com:443"], 200),
        (&["Host: localhost.evil.example"], 421),
        (&["Host: 127.0.0.1.nip.io"], 421),
        (&["Host: 10.0.0.7:7780"], 421),
        (&["Host: a@127.0.0.1"], 421),
        (&["Host: "], 421),
        (&[&own, "Host: evil.example"], 421),
        (&["Sec-Fetch-Site: same-origin"], 200),
        (&["Sec-Fetch-Site: none", link], 200),
        // A link on another site.
        (&["Sec-Fetch-Site: cross-site", link], 200),
        (
            &["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"],
            403,
        ),
        (&["Sec-Fetch-Site: same-site"], 403),
    ] {
        let reply = site.ask("GET", "/healthz", headers).await;
        assert_eq!(reply.code, code, "{headers:?}: {reply:?}");
    }
    let reply = site.get("/").await;
    let policy = reply.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(reply.header(name), Some(value));
    }
    daemon.stop().await;
}

#[tokio::test]
async fn with_a_token_nothing_is_answered_without_it() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.write("page-token", &format!("{TOKEN}\n"));
    // An address that other machines may reach; the test itself goes by loopback.
    place.configure("[status]\nlisten = \"0.0.0.0:0\"\ntoken_file = \"page-token\"\n");
    let daemon = place.started().await;
    let open = Site::of(&place).await;
    let site = Site {
        address: open.address.replace("0.0.0.0", "127.0.0.1"),
    };
    for path in [
        "/",
        "/system",
        "/metrics",
        "/api/status",
        "/healthz",
        "/nothing",
    ] {
        let refused = site.get(path).await;
        assert_eq!(refused.code, 401, "{path}: {refused:?}");
        assert!(
            refused
                .header("www-authenticate")
                .unwrap()
                .starts_with("Basic ")
        );
    }
    let password = STANDARD.encode(format!("anna:{TOKEN}"));
    let user = STANDARD.encode(format!("{TOKEN}:"));
    for sent in [
        "Bearer CANARY0123456789abcdeF",
        "Bearer ",
        TOKEN,
        "Basic !!",
        &format!("Basic {user}"),
    ] {
        let wrong = site
            .ask("GET", "/", &[&format!("Authorization: {sent}")])
            .await;
        assert_eq!(wrong.code, 401, "{sent}: {wrong:?}");
    }
    for sent in [format!("Bearer {TOKEN}"), format!("Basic {password}")] {
        let header = format!("Authorization: {sent}");
        let reply = site.ask("GET", "/healthz", &[&header]).await;
        assert_eq!(reply.code, 200, "{reply:?}");
        let page = site.ask("GET", "/", &[&header]).await;
        assert!(!page.body.contains("CANARY"), "{page:?}");
        for (host, code) in [("Host: 10.0.0.7:7780", 200), ("Host: evil.example", 421)] {
            assert_eq!(
                site.ask("GET", "/healthz", &[&header, host]).await.code,
                code,
                "{host}"
            );
        }
    }
    assert!(!place.status().await.to_string().contains("CANARY"));
    daemon.stop().await;
    assert!(!place.log().contains("CANARY"), "{}", place.log());
}
