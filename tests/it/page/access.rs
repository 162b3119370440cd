//! Who may read the page: its token, its hosts, and the headers that keep other sites away.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{LISTEN, Site};
use crate::support::{Daemon, Place, Workspace};

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

/// The page of a daemon at an address that other machines may reach, with these tokens; the test
/// itself goes by loopback.
async fn site_with(place: &Place, tokens: &str) -> (Daemon, Site) {
    place.write("page-tokens", tokens);
    place.configure(
        "[status]\nlisten = \"0.0.0.0:0\"\ntoken_file = \"page-tokens\"\nshow_records = true\n",
    );
    let daemon = place.started().await;
    (daemon, by_loopback(place).await)
}

pub(super) async fn by_loopback(place: &Place) -> Site {
    let open = Site::of(place).await;
    let address = open.address.replace("0.0.0.0", "127.0.0.1");
    Site { address }
}

/// Signs in by the form; the header with the cookie.
async fn signed_in(site: &Site) -> String {
    let reply = site.post("/", &format!("token={TOKEN}"), &[]).await;
    let cookie = reply.header("set-cookie").unwrap();
    format!("Cookie: {}", cookie.split(';').next().unwrap())
}

#[tokio::test]
async fn with_tokens_only_healthz_is_answered_without_one() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let (daemon, site) = site_with(&place, &format!("{TOKEN}\n")).await;
    let paths = [
        "/",
        "/system",
        "/metrics",
        "/readyz",
        "/api/status",
        "/page.js",
        "/records",
        "/nothing",
    ];
    for path in paths {
        let refused = site.get(path).await;
        assert_eq!(refused.code, 401, "{path}: {refused:?}");
        let challenge = refused.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Basic "), "{challenge}");
    }
    for path in ["/healthz", "/page.css", "/icon.svg"] {
        assert_eq!(site.get(path).await.code, 200, "{path}");
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
        let header = format!("Authorization: {sent}");
        let wrong = site.ask("GET", "/", &[&header]).await;
        assert_eq!(wrong.code, 401, "{sent}: {wrong:?}");
    }
    for sent in [format!("Bearer {TOKEN}"), format!("Basic {password}")] {
        let header = format!("Authorization: {sent}");
        let reply = site.ask("GET", "/readyz", &[&header]).await;
        assert_ne!(reply.code, 401, "{reply:?}");
        let page = site.ask("GET", "/", &[&header]).await;
        assert_eq!(page.code, 200, "{page:?}");
        assert!(!page.body.contains("CANARY"), "{page:?}");
        for (host, code) in [("Host: 10.0.0.7:7780", 200), ("Host: evil.example", 421)] {
            let reply = site.ask("GET", "/healthz", &[&header, host]).await;
            assert_eq!(reply.code, code, "{host}");
        }
    }
    assert!(!place.status().await.to_string().contains("CANARY"));
    daemon.stop().await;
    assert!(!place.log().contains("CANARY"), "{}", place.log());
}

#[tokio::test]
async fn a_token_of_the_wall_shows_nothing_else_of_the_shop() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let tokens = format!("anna owner {TOKEN}\nhall wall CANARY-of-the-wall-1\n");
    let (daemon, site) = site_with(&place, &tokens).await;
    let owner = format!("Authorization: Bearer {TOKEN}");
    let wall = "Authorization: Bearer CANARY-of-the-wall-1";
    for path in [
        "/",
        "/system",
        "/records",
        "/reports",
        "/find?q=a",
        "/api/status",
    ] {
        let reply = site.ask("GET", path, &[&owner]).await;
        assert_eq!(reply.code, 200, "{path}: {reply:?}");
        let code = if path == "/" { 303 } else { 404 };
        for accept in ["Accept: */*", "Accept: text/html"] {
            let reply = site.ask("GET", path, &[wall, accept]).await;
            assert_eq!(reply.code, code, "{path}: {reply:?}");
            assert!(!reply.body.contains("Records"), "{path}: {reply:?}");
        }
    }
    assert_eq!(
        site.ask("GET", "/", &[wall]).await.header("location"),
        Some("./wall")
    );
    for path in ["/wall", "/metrics", "/healthz"] {
        assert_eq!(site.ask("GET", path, &[wall]).await.code, 200, "{path}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn a_browser_signs_in_by_a_form_and_out_again() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let (daemon, site) = site_with(&place, TOKEN).await;
    let page = "/report?name=open-repairs";
    let accept = "Accept: text/html,application/xhtml+xml;q=0.9";
    let form = site.ask("GET", page, &[accept]).await;
    assert_eq!((form.code, form.header("www-authenticate")), (401, None));
    assert!(form.body.contains("type=\"password\""), "{form:?}");
    // No dialogue of a browser opens: neither at the end of a session nor for what a page loads.
    for header in ["Accept: text/event-stream", "Sec-Fetch-Mode: no-cors"] {
        let reply = site.ask("GET", "/page.js", &[header]).await;
        assert_eq!((reply.code, reply.header("www-authenticate")), (401, None));
    }
    let nested = site.ask("GET", "/api/status", &[accept]).await;
    assert!(nested.body.contains("\"../page.css\""), "{nested:?}");
    assert_eq!(
        site.get(page)
            .await
            .header("www-authenticate")
            .map(|c| &c[..5]),
        Some("Basic")
    );

    let mistyped = site
        .post(page, "token=CANARY0123456789abcdeF", &[accept])
        .await;
    assert_eq!(mistyped.code, 401, "{mistyped:?}");
    assert!(
        mistyped.body.contains("not a token of this page"),
        "{mistyped:?}"
    );
    let elsewhere = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"];
    let foreign = site.post(page, &format!("token={TOKEN}"), &elsewhere).await;
    assert_eq!((foreign.code, foreign.header("set-cookie")), (403, None));
    let long = site.post(page, &"a".repeat(5_000), &[]).await;
    assert_eq!(long.code, 413, "{long:?}");

    let signed_in = site.post(page, &format!("token=+{TOKEN}%0D%0A"), &[]).await;
    assert_eq!(signed_in.code, 303, "{signed_in:?}");
    assert_eq!(
        signed_in.header("location"),
        Some("./report?name=open-repairs")
    );
    let cookie = signed_in.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Lax", "Max-Age=2592000"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(
        !cookie.contains("CANARY") && !cookie.contains("Secure"),
        "{cookie}"
    );
    let cookie = format!("Cookie: {}", cookie.split(';').next().unwrap());
    let shown = site.ask("GET", page, &[accept, &cookie]).await;
    assert_eq!(shown.code, 200, "{shown:?}");
    assert!(shown.body.contains("Sign out"), "{shown:?}");

    let signed_out = site
        .ask("POST", "/sign-out", &[&cookie, "Content-Length: 0"])
        .await;
    assert_eq!(signed_out.header("location"), Some("./"));
    assert!(
        signed_out
            .header("set-cookie")
            .unwrap()
            .contains("=; Path=/; Max-Age=0;")
    );
    daemon.stop().await;
}

#[tokio::test]
async fn a_token_that_leaves_the_file_ends_what_it_opened() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let (daemon, site) = site_with(&place, TOKEN).await;
    let cookie = signed_in(&site).await;
    assert_eq!(site.ask("GET", "/", &[&cookie]).await.code, 200);
    place.write("page-tokens", "CANARY-another-token\n");
    assert_eq!(place.run(["reload"]).await.code, Some(0));
    let port = site.address.rsplit(':').next().unwrap().to_owned();
    let is_another = |status: &Value| status["page"].as_str().is_some_and(|p| !p.contains(&port));
    place
        .status_when("the page is open again", is_another)
        .await;
    let site = by_loopback(&place).await;
    assert_eq!(site.ask("GET", "/", &[&cookie]).await.code, 401);
    daemon.stop().await;
}

#[tokio::test]
async fn from_the_sixth_wrong_token_on_an_address_waits() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let (daemon, site) = site_with(&place, TOKEN).await;
    let right = format!("Authorization: Bearer {TOKEN}");
    let cookie = signed_in(&site).await;
    for number in 1..=7 {
        let wrong = format!("Authorization: Bearer CANARY-wrong-{number}");
        let reply = site.ask("GET", "/metrics", &[&wrong]).await;
        assert_eq!(reply.code, if number < 6 { 401 } else { 429 }, "{reply:?}");
    }
    let reply = site.ask("GET", "/metrics", &[&right]).await;
    let wait: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!(reply.code == 429 && (1..=30).contains(&wait), "{reply:?}");
    let form = site
        .post("/", &format!("token={TOKEN}"), &["Accept: text/html"])
        .await;
    assert!(
        form.code == 429 && form.body.contains("half a minute"),
        "{form:?}"
    );
    // Behind a proxy on this machine each client counts for itself.
    let other = "X-Forwarded-For: 192.0.2.1, 10.0.0.9";
    assert_eq!(
        site.ask("GET", "/metrics", &[&right, other]).await.code,
        200
    );
    // The line of the proxy comes last, whatever the client sends before it.
    let of_proxy = "X-Forwarded-For: 192.0.2.77";
    for number in 1..=7 {
        let wrong = format!("Authorization: Bearer CANARY-guess-{number}");
        let own = format!("X-Forwarded-For: 192.0.2.{number}");
        let reply = site.ask("GET", "/metrics", &[&wrong, &own, of_proxy]).await;
        assert_eq!(reply.code, if number < 6 { 401 } else { 429 }, "{reply:?}");
    }
    // Who is signed in already, behind the same router, goes on.
    assert_eq!(site.ask("GET", "/metrics", &[&cookie]).await.code, 200);
    assert_eq!(site.get("/healthz").await.code, 200);
    daemon.stop().await;
}
