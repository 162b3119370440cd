//! A secret in a wrong place is refused and never shown: not in a message and not in the quoted
//! line.

use shopmirror::config::{Base, Config};

use super::refused;

#[test]
fn a_secret_in_the_wrong_place_is_refused_and_not_shown() {
    let address = r#"base_url = "https://anna:CANARY@shop.example.com/api""#;
    refused(
        "[workspace]",
        &[(address, &["2:12 hold no user name and password"])],
    );
    refused(
        "[workspace]\nbase_url = \"https://shop.example.com/api\"",
        &[
            (
                r#"api_key = "ak_CANARY""#,
                &["3:1 did you mean `api_key_file`?"],
            ),
            (
                "api_key_file = ak_CANARY",
                &["3:16 string values must be quoted"],
            ),
        ],
    );
    refused(
        "[sinks.erp]\ntype = \"webhook\"\nurl = \"https://erp.example.com/CANARY\"",
        &[
            (
                r#"secret = "whsec_CANARY""#,
                &["4:1 did you mean `secret_file`?"],
            ),
            (
                r#""whsec_CANARY" = true"#,
                &["4:1 unknown key in [sinks.erp]; the keys here are"],
            ),
            (
                r#"headers = { "Bearer CANARY" = "X-Key" }"#,
                &["4:11 holds a name that no header can have"],
            ),
            (
                "headers = { whsec_CANARY = 3 }",
                &["4:28 `headers` must be a string in quotes"],
            ),
        ],
    );
    let sink = "[sinks.\"https://hooks.example.com/CANARY\"]\ntype = \"file\"\npath = \"a.ndjson\"";
    refused(
        sink,
        &[(r#"colour = "red""#, &["1:8 a name in [sinks] has 1 to 64"])],
    );
    let clear = "4:7 would cross the network in clear text";
    let database = "postgresql://shop:CANARY@db.example.com/x?sslmode=disable";
    refused(
        "[sinks.bus]\nworkspace = \"north\"",
        &[
            (
                "type = \"mqtt\"\nurl = \"mqtt://user:CANARY@broker.example.com\"",
                &[clear],
            ),
            (
                &format!("type = \"postgres\"\nurl = \"{database}\""),
                &[clear],
            ),
            (
                "type = \"nats\"\nurl = \"https://user:CANARY@h\"",
                &["4:7 must begin with nats://"],
            ),
        ],
    );
}

/// A file whose every secret is a canary.
const SECRETS: &str = r#"[workspace]
base_url = "https://h.example/api"
api_key_file = "api-key"

[sinks.erp]
type = "webhook"
url = "https://erp.example.com/CANARY?t=CANARY"   # was CANARY
headers = { Authorization = "Bearer CANARY", "X-Token" = "CANARY==" }
timeout = "5s"

[sinks]
chat = { type = "webhook", url = "https://chat.example.com/CANARY", concurrency = 4 }
"#;

#[test]
fn no_slip_of_the_hand_shows_a_secret() {
    let base = Base::default();
    let mut refused = 0;
    for at in 0..SECRETS.len() {
        for removed in [0, 1, 9] {
            for written in ["", "\"", "'", "\n", "=", "[", "}", "#", "a"] {
                let rest = &SECRETS[(at + removed).min(SECRETS.len())..];
                let text = format!("{}{written}{rest}", &SECRETS[..at]);
                if let Err(problems) = Config::parse(&text, "f", &base) {
                    refused += 1;
                    let shown = problems.to_string();
                    assert!(!shown.contains("CANARY"), "{text}\n{shown}");
                }
            }
        }
    }
    assert!(refused > 5_000, "only {refused} texts were refused");
}
